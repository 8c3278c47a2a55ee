"""The picture of a network in the report, and its links against their claims (F-05)."""

import itertools
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from brokerlab.report.networks import links, topology

DIRECTION = {"delay_ms": 2.5, "rate_bits_per_s": 1e6, "loss_percent": 0.0}
LINK = {
    "run_id": "c/1", "link": "router1>router2", "kind": "userspace", "claimed_rtt_ms": 5.0, "measured_rtt_ms": 5.02,
    "claimed_rate_bits_per_s": 1e6, "measured_rate_bits_per_s": 0.99e6, "claimed_loss_percent": 0.0,
    "measured_loss_percent": 0.0, "is_as_claimed": True,
}  # fmt: skip


def manifest(shape, sites):
    return {
        "network": {
            "topology": {"shape": shape, "sites": sites, "children": 2},
            "hosts": [{"kind": "broker", "site": 1, "name": "broker<0>"}],
            "cables": [
                {"name": "router1-router2", "link": {"there": DIRECTION, "back": DIRECTION}},
                {"name": "switch1-broker0", "link": {"there": DIRECTION, "back": DIRECTION}},
            ],
        }
    }


@pytest.mark.parametrize(("shape", "sites"), [("mesh", 5), ("chain", 2), ("star", 4), ("tree", 7), ("graph", 3)])
def test_picture_has_a_box_for_each_site_and_a_line_for_each_link(shape, sites):
    drawn = topology(SimpleNamespace(manifests={"c/1": manifest(shape, sites)}))

    picture = ElementTree.fromstring(str(drawn))
    kinds = [element.tag.rpartition("}")[2] for element in picture.iter()]
    words = "".join(picture.itertext())
    assert (kinds.count("rect"), kinds.count("line")) == (sites, 1)
    assert "5 ms · 1 Mbit/s" in words
    assert "broker<0>" in words


@pytest.mark.parametrize(
    ("shape", "sites"), [("star", 4), ("star", 9), ("chain", 10), ("tree", 15), ("mesh", 3), ("mesh", 8), ("graph", 5)]
)
def test_no_two_sites_of_a_picture_touch(shape, sites):
    drawn = topology(SimpleNamespace(manifests={"c/1": manifest(shape, sites)}))

    picture = ElementTree.fromstring(str(drawn))
    boxes = [
        tuple(float(each.get(name)) for name in ("x", "y", "width", "height"))
        for each in picture.iter()
        if each.tag.endswith("rect")
    ]
    assert len(boxes) == sites
    assert all(x >= 0 and y >= 0 for x, y, _, _ in boxes)
    width, height = float(picture.get("width")), float(picture.get("height"))
    assert all(x + wide <= width and y + high <= height for x, y, wide, high in boxes)
    for (x1, y1, wide1, high1), (x2, y2, wide2, high2) in itertools.combinations(boxes, 2):
        assert x1 + wide1 < x2 or x2 + wide2 < x1 or y1 + high1 < y2 or y2 + high2 < y1


def test_no_picture_on_loopback():
    assert topology(SimpleNamespace(manifests={"c/1": {}})) is None


def test_links_show_the_span_of_what_was_measured():
    rows = [LINK, LINK | {"run_id": "c/2", "measured_rtt_ms": 6.0, "is_as_claimed": False}, LINK | {"kind": "veth"}]

    ((row,),) = links(SimpleNamespace(network=rows)).blocks

    assert [entry.text for entry in row] == [
        "router1 → router2", "userspace", "5", "5.02 to 6.00", "1", "0.990", "0", "0", "1/2",
    ]  # fmt: skip
    assert row[-1].mark == "bad"
