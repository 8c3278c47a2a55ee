"""Without the right to make networks loopback studies are planned, and others refused with the reason."""

import os
import shutil
import subprocess
import sys

import pytest

STUDY = """
brokerlab: 1
study: small
goals: {question: Which?}
system: {brokers: {embedded: {driver: amqtt}}}
metrics: [latency]
scenario: {topology: {shape: chain, sites: 2, rtt: 5 ms}}
"""


@pytest.fixture
def plan(tmp_path):
    """`brokerlab plan` of a study on two sites, without one of root's rights."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give up rights, and setpriv does it")
    study = tmp_path / "study.yaml"
    study.write_text(STUDY, encoding="utf-8")

    def planner(*words, without):
        command = ["setpriv", f"--bounding-set=-{without}", sys.executable, "-m", "brokerlab.cli.main", "plan"]
        return subprocess.run([*command, str(study), *words], capture_output=True, text=True, check=False)

    return planner


def test_a_network_is_refused_by_plan_with_the_reason(plan):
    refused = plan(without="sys_admin")

    assert refused.returncode == 64
    assert "scenario.topology: chain cannot be made here: network namespaces need root" in refused.stderr
    assert "CAP_SYS_ADMIN" in refused.stderr


def test_loopback_is_planned_all_the_same(plan):
    assert plan("--set", "scenario.topology=loopback", without="sys_admin").returncode == 0


def test_captures_are_refused_by_plan_with_the_reason(plan):
    words = ("--set", "scenario.topology=loopback", "--set", "deploy.captures=[broker]")

    refused = plan(*words, without="net_raw")

    assert refused.returncode == 64
    assert "deploy.captures: captures need root, or CAP_NET_RAW" in refused.stderr
