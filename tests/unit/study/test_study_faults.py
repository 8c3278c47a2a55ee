"""Faults of a study: what may be written, and the schedule that it comes to."""

import itertools

import pytest

from brokerlab.network.layout import lay_out
from brokerlab.study.fault_values import Fault, FaultKind, Faults, Nemesis
from brokerlab.study.faults import schedule_of
from brokerlab.study.topology import CHAIN, MESH, TREE, Topology, link_names
from brokerlab.study.written import study_yaml

KILL = (
    "  faults:\n    - {do: kill, at: 1 s}\n    - {do: restart, at: 2 s}\n    - {do: stop, node: 0, at: 3 s, for: 1 s}\n"
)


def scenario(small: str, faults: str) -> str:
    """The faults as the first key of the scenario."""
    return small.replace("scenario:\n", "scenario:\n" + faults, 1)


def test_faults_are_read_and_written_back(read, small):
    study = read(scenario(small, KILL))

    assert [each.kind for each in study.scenario.faults.planned] == ["kill", "restart", "stop"]
    assert study.scenario.faults.planned[2] == Fault(FaultKind.STOP, at_s=3.0, for_s=1.0, node=0)
    assert read(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{do: kil, at: 1 s}", "kill"),
        ("{do: kill}", "needs either at"),
        ("{do: kill, node: 3, at: 1 s}", "nodes 0 to 0"),
        ("{do: kill, at: 1 h}", "before the end of measure"),
        ("{do: cut, link: router1-router2, at: 1 s}", "topology with sites"),
        ("{do: cut, at: 1 s}", "needs a link"),
        ("{do: storm, at: 1 s, for: 1 s}", "for has no meaning for storm"),
        ("{do: slow, link: a-b, at: 1 s}", "slow needs to"),
    ],
)
def test_bad_faults_are_refused(problems, small, written, said):
    found = " ".join(str(each) for each in problems(scenario(small, f"  faults: [{written}]\n")))

    assert said in found
    assert "scenario.faults[0]" in found


@pytest.mark.parametrize(("nodes", "most"), [("3", 2), ("[2, 3]", 1)])
def test_a_fault_is_of_a_node_that_every_cell_has(read, problems, small, nodes, most):
    """The counts of nodes are in the ensemble, or are the levels of a factor."""
    is_varied = nodes.startswith("[")
    ensemble = "  ensemble: {join: bridge}\n" if is_varied else f"  ensemble: {{nodes: {nodes}, join: bridge}}\n"
    text = small.replace("metrics:", f"{ensemble}metrics:") + (f"    nodes: {nodes}\n" if is_varied else "")

    study = read(scenario(text, f"  faults: [{{do: kill, node: {most}, at: 1 s}}]\n"))
    assert study.scenario.faults.planned[0].node == most
    (found,) = problems(scenario(text, f"  faults: [{{do: kill, node: {most + 1}, at: 1 s}}]\n"))
    assert f"there are nodes 0 to {most}" in str(found)


@pytest.mark.parametrize("topology", [Topology(MESH, sites=4), Topology(CHAIN, sites=2), Topology(TREE, sites=5)])
@pytest.mark.parametrize("nodes", [1, 2])
def test_links_have_the_names_that_the_network_gives_them(topology, nodes):
    cables = {cable.name for cable in lay_out(topology, nodes=nodes, number="00").cables}

    assert set(link_names(topology, nodes=nodes)) == cables


def test_chance_is_the_seeds_alone():
    faults = Faults(nemesis=Nemesis(3, (FaultKind.STOP, FaultKind.RESTART, FaultKind.CUT), for_s=0.5))

    def drawn(seed, links=("a-b",)):
        return schedule_of(faults, seed=seed, nodes=3, links=links, measure_s=30.0)

    assert drawn(1) == drawn(1) != drawn(2)
    for seed in range(20):
        times = [each.at_s for each in drawn(seed)]
        assert times == sorted(times)
        assert all(later - earlier > 0.9 for earlier, later in itertools.pairwise(times))
        assert all(0 <= (each.node or 0) < 3 for each in drawn(seed))
        assert all(each.kind is not FaultKind.CUT for each in drawn(seed, links=()))
