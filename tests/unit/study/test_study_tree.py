"""A mesh in, a tree without loops out; loops are refused by name (F-05, F-09)."""

import pytest

from brokerlab.study.problems import RuleError
from brokerlab.study.tree import NoTreeError, chain, check_pairs, hops, loop_in, mesh, spanning_tree, star, way_between


def test_mesh_without_costs_becomes_a_star():
    assert spanning_tree(range(5), mesh(5)) == star(5) == ((0, 1), (0, 2), (0, 3), (0, 4))


def test_tree_takes_the_cheapest_links():
    # 0 and 1 are 10 ms apart, and so are 2 and 3; between the two pairs only 1-2 is not slow.
    costs = {(0, 1): 10, (0, 2): 90, (0, 3): 95, (1, 2): 50, (1, 3): 80, (2, 3): 10}

    assert spanning_tree(range(4), costs) == ((0, 1), (1, 2), (2, 3))


def test_tree_without_a_lost_node_reaches_all_others():
    tree = spanning_tree([0, 1, 3, 4], mesh(5))

    assert tree == ((0, 1), (0, 3), (0, 4))
    assert not loop_in(tree)


def test_bridges_that_stand_are_kept_whatever_they_cost():
    # Node 0 of the chain 2-0-1-3-4 is lost: 1-3 and 3-4 stand, and 2 is joined to the cheapest.
    costs = mesh(5) | {(1, 3): 99.0, (3, 4): 99.0, (2, 4): 0.5}

    assert spanning_tree([1, 2, 3, 4], costs, keep=[(1, 3), (3, 4)]) == ((1, 3), (2, 4), (3, 4))


def test_lost_centre_of_a_star_is_replaced_by_the_lowest_number():
    assert spanning_tree([1, 2, 3, 4], mesh(5), keep=[]) == ((1, 2), (1, 3), (1, 4))


def test_nodes_that_nothing_joins_have_no_tree():
    with pytest.raises(NoTreeError, match="2 and 3"):
        spanning_tree(range(4), {(0, 1): 1, (2, 3): 1})


@pytest.mark.parametrize(
    ("pairs", "loop"),
    [
        ([(0, 1), (1, 2), (2, 0)], (2, 1, 0, 2)),
        ([(0, 1), (1, 0)], (1, 0, 1)),  # both ends open a bridge: F-09
        ([(2, 2)], (2, 2)),
        (chain(5), ()),
        (star(5), ()),
    ],
)
def test_loop_is_named(pairs, loop):
    assert loop_in(pairs) == loop


def test_hops_between_the_ends_of_a_chain_are_counted():
    assert way_between(chain(4), 3, 0) == (3, 2, 1, 0)
    assert way_between(chain(4), 1, 1) == (1,)
    assert way_between([(0, 1)], 0, 2) == ()
    assert hops(chain(3), 3) == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


@pytest.mark.parametrize(
    ("pairs", "nodes", "rule"),
    [
        ([(0, 1), (1, 2), (2, 0)], 3, "2 - 1 - 0 - 2"),
        ([(0, 1), (1, 3)], 3, "no node 3"),
        ([(0, 1)], 3, "node 0 to node 2"),
    ],
)
def test_bridges_written_by_hand_are_checked(pairs, nodes, rule):
    with pytest.raises(RuleError, match=rule):
        check_pairs(pairs, nodes)
