"""Whatever stands at whatever key: a study or a StudyError with places, never another exception."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from brokerlab.presets import preset_path
from brokerlab.study.document import read_document
from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.problems import StudyError
from brokerlab.study.values import Study

DRIVERS = {name: DriverFacts() for name in ("amqtt", "rumqttd", "nats", "mosquitto")}
DOCUMENT = read_document(preset_path("first-light"))
PATHS = sorted((path for path in DOCUMENT.places if path), key=str)
WORDS = st.sampled_from(["amqtt", "64 B", "5 s", "200/s", "70 %", "saturate", "", "qos", "a/#", "{publisher}", "-1 s"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats(allow_nan=False) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.sampled_from(["driver", "rate"]), inner),
    max_leaves=5,
)


def with_junk(path, junk):
    content = json.loads(json.dumps(DOCUMENT.content))
    parent = content
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = junk
    return content


def outcome(text, *settings_given):
    with TemporaryDirectory() as folder:
        file = Path(folder) / "study.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            return read_study(file, settings=settings_given, drivers=DRIVERS)
        except StudyError as refused:
            return refused.problems


@example(path=("scenario", "workload", "schedule", "arrivals"), junk=[])
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from(PATHS), junk=JUNK)
def test_any_value_at_any_key_is_read_or_refused(path, junk):
    result = outcome(json.dumps(with_junk(path, junk), indent=1))

    assert isinstance(result, Study) or (result and all(problem.line for problem in result))


@example(path=("scenario", "workload", "schedule", "arrivals"), junk=[])
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from(PATHS), junk=JUNK)
def test_any_setting_is_read_or_refused(path, junk):
    key = ".".join(str(part) for part in path)
    result = outcome(preset_path("first-light").read_text(), f"{key}={json.dumps(junk)}")

    assert isinstance(result, Study) or result


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_refused(text):
    result = outcome(text)

    assert not isinstance(result, Study)
    assert result


@pytest.mark.parametrize("line_number", range(len(preset_path("first-light").read_text().splitlines())))
def test_study_that_lacks_any_line_is_read_or_refused(line_number):
    lines = preset_path("first-light").read_text().splitlines()
    result = outcome("\n".join(lines[:line_number] + lines[line_number + 1 :]))

    assert isinstance(result, Study) or result
