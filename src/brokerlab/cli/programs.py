"""Looks at the programs that brokerlab stands on: Python, Java, Spark, brokers and a browser."""

import platform
import shutil
from importlib.metadata import PackageNotFoundError, version

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import DRIVERS
from brokerlab.cli.checkup import Check, limited, missing, ok
from brokerlab.pipeline.java import HINT, OLDEST_JAVA, find_java

_OF_THE_DEMO = ("amqtt", "mosquitto", "nats", "rumqttd")
_NOT_TO_COMPARE = ("scripted", "remote")  # one proves the meter, the other is somebody else's
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def program_checks() -> list[Check]:
    return [ok("Python", platform.python_version(), is_needed=True), _java(), _spark(), _browser()]


def broker_checks(*, needed: frozenset[str]) -> list[Check]:
    """The brokers of the demo, which cannot do without those of `needed`, and how many others there are."""
    others = [name for name in DRIVERS if name not in (*_OF_THE_DEMO, *_NOT_TO_COMPARE)]
    here = sum(isinstance(DRIVERS[name].find(), Found) for name in others)
    counted = ok("other brokers", f"{here} of {len(others)} are here: `brokerlab brokers` lists them")
    return [*(_broker(name, is_needed=name in needed) for name in _OF_THE_DEMO), counted]


def _java() -> Check:
    java = find_java()
    if java:
        return ok("Java", f"{java.major} ({java.program})", is_needed=True)
    return missing(
        "Java",
        f"none that is {OLDEST_JAVA} or newer",
        follows="runs can be made, tables cannot",
        lift=HINT,
        is_needed=True,
    )


def _spark() -> Check:
    try:
        return ok("Spark", version("pyspark"), is_needed=True)
    except PackageNotFoundError:
        return missing("Spark", "none", follows="no tables", lift="pip install pyspark, or make setup", is_needed=True)


def _broker(name: str, *, is_needed: bool) -> Check:
    answer = DRIVERS[name].find()
    if isinstance(answer, Found):
        return ok(f"broker {name}", f"{answer.version} ({answer.program})", is_needed=is_needed)
    return missing(
        f"broker {name}", answer.reason, follows="is left out of studies", lift=answer.hint, is_needed=is_needed
    )


def _browser() -> Check:
    program = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if program:
        return ok("browser", program)
    return limited(
        "browser",
        "no Chromium",
        follows="the report is written all the same; its test in a browser is skipped",
        lift="apt-get install chromium",
    )
