import re
import subprocess
import sys
from html.parser import HTMLParser

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_example import Example, write_example, write_table

from brokerlab.errors import UserError
from brokerlab.report.report import write_report

pytestmark = pytest.mark.unit


class Page(HTMLParser):
    """What a page asks for, and what it says outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.said: list[str] = []
        self.tags: list[str] = []
        self._silent = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._silent += tag in ("script", "style")
        self.asked += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data", "srcset")]

    def handle_endtag(self, tag):
        self._silent -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._silent:
            self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


def page_of(folder, example):
    return Page(write_report(write_example(folder, example)).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def typical(tmp_path_factory):
    invalid = {"broker-amqtt.qos-2/2": ["schedule lag p99 9.1 ms is above 5 ms"]}
    example = Example(invalid=invalid, broken=frozenset({"broker-nats.qos-1/3"}))
    path = write_report(write_example(tmp_path_factory.mktemp("typical"), example))
    return path.read_text(encoding="utf-8")


def test_report_is_written_beside_the_tables_or_where_told(tmp_path):
    results = write_example(tmp_path / "results", Example(repetitions=1, has_latency=False))

    assert write_report(results) == tmp_path / "results" / "report.html"
    assert write_report(results, output=tmp_path / "elsewhere" / "page.html").exists()


def test_report_asks_the_network_for_nothing(typical):
    page = Page(typical)

    assert page.asked == []
    assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert not re.search(r"@import|url\((?!#)", typical.split("</style>")[0])
    assert "default-src 'none'" in typical


def test_report_has_its_sections_in_order(typical):
    found = re.findall(r'<section id="(\w+)"', typical)

    assert found == ["answer", "results", "latency", "ledger", "validity", "meter", "machine", "reproduce"]


def test_report_shows_the_invalid_run_apart_with_its_reason(typical):
    apart = typical.split('class="apart"')[1].split("</table>")[0]

    assert "broker-amqtt.qos-2/2" in apart
    assert "schedule lag p99 9.1 ms is above 5 ms" in apart
    assert apart.count("<tr>") == 2


def test_report_names_the_limits_that_the_manifests_state(typical):
    said = " ".join(Page(typical).said)

    assert "a publishing process used more than 70 % of a core or messages left more than 5 ms late (p99)" in said


def test_report_shows_the_broken_contract(typical):
    page = Page(typical)

    assert "In 1 of 36 runs something was lost, duplicated, reordered or unexpected." in page.text
    assert "broke «at least once» in 1 of 3 runs" in page.text


def test_report_main_table_has_one_row_per_cell(typical):
    table = typical.split('<section id="results"')[1].split("</section>")[0]

    assert table.count('<th class="text" scope="row">') == 12


def test_report_tells_machine_commands_and_study(typical):
    text = Page(typical).text

    for part in ("AMD EPYC 7B13", "6.1.0-21-amd64", "cubic", "8 GiB", "/usr/sbin/mosquitto -c", "2.0.11", "seed 7"):
        assert part in text
    assert "brokerlab run study.yaml --out results/first-light" in text
    assert "topology: loopback" in text
    assert "9 of 9 comparisons agree" in text


def test_report_has_both_static_charts_with_every_broker(typical):
    figures = re.findall(r'<figure id="chart-(\w+)">.*?(<svg.*?</svg>)', typical, re.DOTALL)

    assert [name for name, _ in figures] == ["distribution", "summary"]
    assert all(broker in svg for _, svg in figures for broker in ("amqtt", "mosquitto", "nats", "rumqttd"))


def test_report_draws_one_curve_per_valid_run(typical):
    svg = re.search(r'<figure id="chart-distribution">.*?(<svg.*?</svg>)', typical, re.DOTALL).group(1)

    assert len(re.findall(r'aria-roledescription="line mark"', svg)) == 35


def test_report_escapes_what_the_study_says(tmp_path):
    question = "Is <script>alert('x')</script> & </title> safe?"
    page = page_of(tmp_path, Example(question=question, repetitions=1, has_latency=False))

    assert "script" not in page.tags
    assert question in page.text


def test_report_escapes_names_inside_chart_specifications(tmp_path):
    hostile = "</script><b>x"
    example = Example(brokers=("amqtt", hostile), levels=({},), repetitions=1, has_manifests=False)

    page = page_of(tmp_path, example)

    assert page.tags.count("script") == 3
    assert "b" not in page.tags


def test_report_of_one_broker_and_one_run(tmp_path):
    page = page_of(tmp_path, Example(brokers=("amqtt",), levels=({},), repetitions=1))

    assert "Only amqtt gave valid results, so there is nothing to rank against." in page.text
    assert page.tags.count("figure") == 2


def test_report_without_latency_says_so(tmp_path):
    page = page_of(tmp_path, Example(has_latency=False, repetitions=1))

    assert "No answer: the valid runs hold no p99 latency." in page.text
    assert "there is no latency to draw" in page.text
    assert "svg" not in page.tags


def test_report_without_a_valid_run(tmp_path):
    example = Example(brokers=("amqtt",), levels=({"qos": "1"},), repetitions=2)
    example.invalid = {f"broker-amqtt.qos-1/{number}": ["cut off: no verdict"] for number in (1, 2)}

    page = page_of(tmp_path, example)

    assert "No answer: none of the 2 runs is valid." in page.text
    assert "2 of 2 runs are invalid" in page.text


def test_report_of_a_run_that_was_cut_off_early(tmp_path):
    results = write_example(tmp_path, Example(brokers=(), has_manifests=False))
    about = {"run_id": "broker-amqtt.qos-1/1", "cell": "broker-amqtt.qos-1", "verdict": "invalid", "levels": {}}
    write_table(results, "runs", [about | {"phases": {}, "reasons": ["cut off: no verdict"]}])

    text = Page(write_report(results).read_text(encoding="utf-8")).text

    assert "No answer: the only run is not valid." in text
    assert "cut off: no verdict" in text
    assert "None" not in text.replace("None of these brokers", "")


def test_report_without_any_rows(tmp_path):
    results = write_example(tmp_path, Example(brokers=(), has_manifests=False))

    assert "No answer: no run has been made." in Page(write_report(results).read_text(encoding="utf-8")).text


def test_report_of_fifty_cells_folds_its_long_tables(tmp_path):
    levels = tuple({"qos": str(qos), "payload": str(64 * 4**power)} for qos in (0, 1) for power in range(5))
    page = page_of(tmp_path, Example(brokers=tuple("abcde"), levels=levels, messages=200))

    assert page.tags.count("details") == 4
    assert "QoS 1, payload 16 KiB" in page.text


def test_report_names_missing_runs_and_brokers_of_the_plan(tmp_path):
    results = write_example(tmp_path, Example(repetitions=1, has_latency=False))
    results.plan.write_text('{"runs": [{"id": "broker-amqtt.qos-0/1"}, {"id": "gone/1"}], "left_out": ["vernemq"]}')

    text = Page(write_report(results).read_text(encoding="utf-8")).text

    assert "1 of 2 planned runs left no results." in text
    assert "Left out, because not on this machine: vernemq." in text


def test_report_names_a_manifest_that_cannot_be_read(tmp_path):
    results = write_example(tmp_path, Example(repetitions=1, has_latency=False))
    results.run("broker-amqtt.qos-0/1").manifest_path.write_text("{")

    text = Page(write_report(results).read_text(encoding="utf-8")).text

    assert "manifest.json: the manifest cannot be read" in text


def counter_row(**said):
    run = {"run_id": "broker-mosquitto.qos-0/1", "cell": "broker-mosquitto.qos-0", "node": "broker/0", "note": "why"}
    return run | {"measure_first": 1.0, "measure_last": 4.0, "why": None} | said


def test_report_states_counters_that_differ_and_losses_that_the_broker_admits(tmp_path):
    results = write_example(tmp_path, Example(repetitions=1, has_latency=False))
    differs = {"broker_value": 5.0, "our_value": 6.0, "difference": -1.0, "verdict": "differs"}
    admitted = {"broker_value": 393.0, "our_value": 393.0, "difference": 0.0, "verdict": "equal"}
    write_table(
        results,
        "counters",
        [
            counter_row(name="$SYS/x", count="received", **differs),
            counter_row(name="$SYS/y", count="dropped", **admitted),
        ],
    )

    text = Page(write_report(results).read_text(encoding="utf-8")).text

    assert "1 of 2 comparisons agree" in text
    assert "we published 6 messages, and the broker’s own counter says 5 received ($SYS/x)." in text
    assert "393 messages were lost, and the broker’s own counter says 393 dropped ($SYS/y)." in text
    assert "In 1 run a counter of the broker differs from ours" in text


def test_report_reads_counters_of_older_tables(tmp_path):
    results = write_example(tmp_path, Example(repetitions=1, has_latency=False))
    old = pa.table({
        **{"run_id": ["broker-mosquitto.qos-0/1"], "cell": ["broker-mosquitto.qos-0"], "node": ["broker/0"]},
        **{"name": ["$SYS/x"], "broker_value": [5.0], "our_value": [5.0], "agrees": [True], "note": [""]},
    })  # fmt: skip
    (file,) = results.table("counters").glob("*.parquet")
    pq.write_table(old, file)

    assert "1 of 1 comparison agree" in Page(write_report(results).read_text(encoding="utf-8")).text


def test_report_without_a_study_file_is_refused(tmp_path):
    results = write_example(tmp_path, Example(repetitions=1, has_latency=False))
    results.study.unlink()

    with pytest.raises(UserError, match=r"study\.yaml"):
        write_report(results)


def test_importing_the_report_does_not_load_spark():
    check = "import sys, brokerlab.report.report; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
