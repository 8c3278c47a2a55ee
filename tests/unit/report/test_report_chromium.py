"""The page in a real browser, cut off from every network: are the live charts drawn?"""

import os
import re
import shutil
import signal
import subprocess

import pytest
from report_example import Example, write_example

from brokerlab.report.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OFFLINE = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)

pytestmark = [pytest.mark.unit, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]


def dump_dom(path, profile):
    """The page's document after its scripts have run."""
    page = ("--virtual-time-budget=10000", "--dump-dom", path.as_uri())
    command = [CHROMIUM, *OFFLINE, f"--user-data-dir={profile}", *page]
    browser = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        return browser.communicate(timeout=120)[0]
    finally:
        if browser.poll() is None:
            os.killpg(browser.pid, signal.SIGKILL)  # the session that we started, and nothing else
            browser.wait()


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    example = Example(brokers=("mosquitto", "nats"), levels=({"qos": "0"}, {"qos": "1"}), repetitions=2, messages=500)
    path = write_report(write_example(folder / "results", example))
    return dump_dom(path, folder / "profile")


@pytest.mark.parametrize("name", ["distribution", "summary"])
def test_live_chart_takes_the_place_of_the_static_one(document, name):
    figure = re.search(rf'<figure id="chart-{name}">(.*?)<figcaption>', document, re.DOTALL).group(1)

    assert 'class="live vega-embed"' in figure
    assert "<svg" in figure
    assert 'class="still"' not in figure


def test_live_distribution_draws_every_run(document):
    figure = re.search(r'<figure id="chart-distribution">(.*?)<figcaption>', document, re.DOTALL).group(1)

    assert figure.count('aria-roledescription="line mark"') == 8
