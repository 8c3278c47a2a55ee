"""A picture of a network: sites with what stands on them, and the links between, drawn as SVG."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from brokerlab.record.manifest import Json

_WIDTH, _MARGIN = 760, 90
_BOX_WIDTH, _LINE_HEIGHT, _GAP = 118, 16, 26
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Site:
    number: int
    brokers: tuple[str, ...]


def picture(network: Json, labels: dict[str, str]) -> Markup:
    """The network that a manifest describes; `labels` are what to say of each cable between routers."""
    topology = network["topology"]
    sites = [
        Site(number, tuple(host["name"] for host in network["hosts"] if _is_broker(host, number)))
        for number in range(1, topology["sites"] + 1)
    ]
    places, height = _places(str(topology["shape"]), len(sites), int(topology["children"]))
    scale = _scale(places, max(map(_box_height, sites)))
    places, width, height = [(x * scale, y * scale) for x, y in places], _WIDTH * scale, height * scale
    cables = [cable["name"] for cable in network["cables"] if _joins_routers(cable["name"])]
    alike = {labels.get(cable, "") for cable in cables}
    lines = [_link(cable, places, "" if len(alike) == 1 else labels.get(cable, "")) for cable in cables]
    if len(alike) == 1 and (said := alike.pop()):
        lines.append(_text(width / 2, height + 12, f"each link between routers: {said}"))
        height += 24
    boxes = [_box(site, places[site.number - 1]) for site in sites]
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" font-size="12" '
        'font-family="system-ui, sans-serif" fill="currentColor" style="max-width: 100%; height: auto">{}{}</svg>'
    ).format(*(round(width), round(height)) * 2, Markup("").join(lines), Markup("").join(boxes))


def _is_broker(host: Json, site: int) -> bool:
    return bool(host["kind"] == "broker" and host["site"] == site)


def _joins_routers(cable: str) -> bool:
    first, _, second = cable.partition("-")
    return first.startswith("router") and second.startswith("router")


def _places(shape: str, sites: int, children: int) -> tuple[list[Point], float]:
    """The middle of each site, and how high the picture is."""
    if shape in ("chain", "site"):
        step = (_WIDTH - 2 * _MARGIN) / max(1, sites - 1)
        return [(_WIDTH / 2 if sites == 1 else _MARGIN + step * number, 60) for number in range(sites)], 120
    if shape == "tree":
        return _levels(sites, children)
    middle = [(0.0, 0.0)] if shape == "star" else []
    around = sites - len(middle)
    radius = max(120.0, 34.0 * around)
    ring = [
        (math.sin(2 * math.pi * number / around) * min(radius, 300), -math.cos(2 * math.pi * number / around) * radius)
        for number in range(around)
    ]
    top = radius + 50
    return [(_WIDTH / 2 + x, top + y) for x, y in (*middle, *ring)], 2 * top


def _scale(places: Sequence[Point], box_height: float) -> float:
    """How much wider and higher it must be drawn so that no two boxes touch."""
    apart = [(abs(x1 - x2), abs(y1 - y2)) for (x1, y1), (x2, y2) in itertools.combinations(places, 2)]
    needed = [
        min((_BOX_WIDTH + _GAP) / x if x else math.inf, (box_height + _GAP) / y if y else math.inf) for x, y in apart
    ]
    return max([1.0, *needed])


def _levels(sites: int, children: int) -> tuple[list[Point], float]:
    depths = [0]
    for site in range(2, sites + 1):
        depths.append(depths[(site - 2) // children] + 1)
    places = []
    for number, depth in enumerate(depths):
        own = [other for other, level in enumerate(depths) if level == depth]
        places.append((_WIDTH * (own.index(number) + 1) / (len(own) + 1), 60.0 + 130 * depth))
    return places, 120 + 130 * max(depths)


def _link(cable: str, places: Sequence[Point], label: str) -> Markup:
    first, second = (int(end.removeprefix("router")) for end in cable.split("-"))
    (x1, y1), (x2, y2) = places[first - 1], places[second - 1]
    # Not in the middle, where links cross and their labels would meet.
    line = Markup(
        '<line x1="{:.0f}" y1="{:.0f}" x2="{:.0f}" y2="{:.0f}" stroke="currentColor" stroke-width="1.5" opacity="0.6"/>'
    ).format(x1, y1, x2, y2)
    return line + _text(x1 + (x2 - x1) * 0.58, y1 + (y2 - y1) * 0.58, label) if label else line


def _text(x: float, y: float, words: str) -> Markup:
    """Words with a margin of paper, so that no line runs through them."""
    return Markup(
        '<text x="{:.0f}" y="{:.0f}" text-anchor="middle" paint-order="stroke" stroke-width="5" '
        'style="stroke: var(--paper, Canvas)">{}</text>'
    ).format(x, y, words)


def _words(site: Site) -> list[str]:
    return [f"site {site.number}", "router, switch", *site.brokers, "clients"]


def _box_height(site: Site) -> float:
    return _LINE_HEIGHT * len(_words(site)) + 10


def _box(site: Site, place: Point) -> Markup:
    words, height = _words(site), _box_height(site)
    x, y = place[0] - _BOX_WIDTH / 2, place[1] - height / 2
    texts = [
        Markup('<text x="{:.0f}" y="{:.0f}" text-anchor="middle"{}>{}</text>').format(
            place[0],
            y + _LINE_HEIGHT * (number + 1),
            Markup(' font-weight="600"') if number == 0 else "",
            word,
        )
        for number, word in enumerate(words)
    ]
    return Markup(
        '<rect x="{:.0f}" y="{:.0f}" width="{}" height="{}" rx="6" style="fill: var(--paper, Canvas)" '
        'stroke="currentColor"/>{}'
    ).format(x, y, _BOX_WIDTH, height, Markup("").join(texts))
