"""Reads a bridge file: YAML with lines, its shape (model.py), what concerns several places of it, its values.

All problems are told at once, each with file, line, key, rule and the nearest valid name, as those of a study.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from brokerlab.bridge.model import FORMAT_VERSION, BridgePart, RoutePart
from brokerlab.bridge.steps import Message
from brokerlab.bridge.topics import check_template, outgoing_filters, overlap
from brokerlab.bridge.values import INFLIGHT, SILENT_INFLIGHT, Bridge, Broker, Route
from brokerlab.study.document import Document, KeyPath, Kind, read_document
from brokerlab.study.findings import validated
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.problems import RuleError, StudyError
from brokerlab.study.topics import check_subscribe_filter

KIND = Kind("a bridge file", "bridge: 1", "bridge, brokers, routes, …")
BACK = "-back"  # the name of the other direction
_HINT = "docs/bridge.md has all keys; `brokerlab bridge FILE --check` reads a file without starting anything"


def read_bridge(path: Path) -> Bridge:
    """The bridge in the file; StudyError names all that is wrong."""
    document = read_document(path, kind=KIND)
    _refuse_newer(document)
    part = validated(document, BridgePart)
    _check_names(document)
    _check_secrets(document)
    _check_topics(document)
    functions = _functions(document)
    if document.problems or part is None:
        raise StudyError(document.problems, hint=_HINT)
    brokers = {name: each.value(name) for name, each in part.brokers.items()}
    routes = [
        route for name, each in part.routes.items() for route in _directions(name, each, functions.__getitem__)
    ]  # fmt: skip
    routes = [_with_echo(_with_window(route, brokers), routes) for route in routes]
    _check_circles(document, brokers, routes)
    if document.problems:
        raise StudyError(document.problems, hint=_HINT)
    name = part.name or path.stem
    state = part.state or (path.parent / f"{path.stem}.state").absolute()
    return Bridge(name, brokers, tuple(routes), state, part.metrics.value())


def _refuse_newer(document: Document) -> None:
    version = document.get("bridge")
    if isinstance(version, int) and not isinstance(version, bool) and version > FORMAT_VERSION:
        rule = f"this brokerlab reads bridge files up to version {FORMAT_VERSION}"
        raise StudyError([document.problem(("bridge",), rule)], hint="install a newer brokerlab")


def _check_names(document: Document) -> None:
    """Routes lead from one of the file's brokers to one of them."""
    known = list(document.mapping("brokers"))
    for name in document.mapping("routes"):
        for key in ("from", "to"):
            path = ("routes", name, key)
            if isinstance(asked := document.get(*path), str) and asked not in known:
                close = nearest(asked, known)
                rule = "no such broker in brokers" + ("" if close else f"; there are {listed(known)}")
                document.add(path, rule, nearest_valid=close)


def _check_secrets(document: Document) -> None:
    for name in document.mapping("brokers"):
        broker = document.mapping("brokers", name)
        if "password" in broker and "user" not in broker:
            document.add(("brokers", name, "password"), "a password needs a user", of_key=True)
        is_encrypted = broker.get("transport") in ("tls", "wss")
        for key in ("authority", "certificate"):
            if key in broker and not is_encrypted:
                document.add(("brokers", name, key), "is for the transports tls and wss", of_key=True)


def _check_topics(document: Document) -> None:
    for name in document.mapping("routes"):
        path: KeyPath = ("routes", name, "topics")
        for topic_filter, template in document.mapping(*path).items():
            with _finding(document, (*path, topic_filter)):
                check_subscribe_filter(topic_filter)
                if isinstance(template, str):
                    check_template(topic_filter, template)
        if document.get("routes", name, "both") is True:
            for key in ("topics", "transform"):
                if key in document.mapping("routes", name):
                    rule = "cannot be turned round for `both`: write two routes"
                    document.add(("routes", name, key), rule, of_key=True)
        steps = document.get("routes", name, "transform")
        for number, step in enumerate(steps if isinstance(steps, list) else ()):
            if isinstance(step, dict) and len(step) != 1:
                document.add(("routes", name, "transform", number), "a step is a mapping of one key", of_key=True)


def _functions(document: Document) -> dict[str, Callable[[Message], Any]]:
    """The functions that the transformers call, by their dotted names; modules may lie beside the bridge file."""
    found: dict[str, Callable[[Message], Any]] = {}
    folder = str(Path(document.file).parent.absolute())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    for name in document.mapping("routes"):
        steps = document.get("routes", name, "transform")
        for number, step in enumerate(steps if isinstance(steps, list) else ()):
            dotted = step.get("python") if isinstance(step, dict) else None
            if isinstance(dotted, str) and "." in dotted:
                with _finding(document, ("routes", name, "transform", number, "python")):
                    found[dotted] = find_function(dotted)
    return found


def find_function(dotted: str) -> Callable[[Message], Any]:
    module_name, _, name = dotted.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except Exception as problem:
        raise RuleError(f"{module_name} cannot be imported: {type(problem).__name__}: {problem}") from problem
    function = getattr(module, name, None)
    if not callable(function):
        known = [each for each in vars(module) if callable(getattr(module, each)) and not each.startswith("_")]
        close = nearest(name, known)
        rule = f"{module_name} has no function {name}"
        raise RuleError(rule, nearest_valid=None if close is None else f"{module_name}.{close}")
    made: Callable[[Message], Any] = function
    return made


@contextlib.contextmanager
def _finding(document: Document, path: KeyPath) -> Iterator[None]:
    try:
        yield
    except RuleError as broken:
        document.add(path, broken.rule, nearest_valid=broken.nearest)


def _directions(name: str, part: RoutePart, function: Callable[[str], Callable[[Message], Any]]) -> Iterator[Route]:
    forward = Route(
        name,
        part.from_,
        part.to,
        part.subscribe,
        part.qos,
        part.retain,
        tuple(part.topics.items()),
        tuple(step.value(function) for step in part.transform),
        part.workers,
        part.connections,
        part.dead_letters or f"brokerlab-dead/{name}",
        part.inflight or 0,
        part.buffer,
    )
    yield forward
    if part.both:
        yield replace(
            forward, name=name + BACK, source=part.to, target=part.from_,
            dead_letters=part.dead_letters or f"brokerlab-dead/{name}{BACK}",
        )  # fmt: skip


def _feeds(first: Route, second: Route) -> bool:
    """Whether the second hears something that the first publishes."""
    outgoing = (*outgoing_filters(first.filters, first.topics), first.dead_letters)
    can_be_any = any(step.__class__.__name__ == "Call" for step in first.steps)
    return first.target == second.source and (
        can_be_any or any(overlap(ours, theirs) for ours in outgoing for theirs in second.filters)
    )


def _with_window(route: Route, brokers: dict[str, Broker]) -> Route:
    """Brokers of MQTT 3.1.1 do not say how many messages of QoS 2 they hold, and close when they have too many."""
    is_silent = route.qos == 2 and brokers[route.target].level < 5
    return replace(route, inflight=route.inflight or (SILENT_INFLIGHT if is_silent else INFLIGHT))


def _with_echo(route: Route, routes: list[Route]) -> Route:
    echoes = [each for each in routes if each.target == route.source and _feeds(route, each)]
    return replace(route, echo=echoes[0].name if echoes else None)


def _check_circles(document: Document, brokers: dict[str, Broker], routes: list[Route]) -> None:
    """Refuses circles that nothing would stop: MQTT 5.0 carries marks, older versions do not.

    There and back between two brokers is guarded at any version, unless two routes of one direction lead back.
    """
    for route in routes:
        backs = [each for each in routes if each.target == route.source and _feeds(route, each)]
        if len(backs) > 1 and brokers[route.target].level < 5:
            names = listed(each.name for each in backs)
            rule = f"{names} both hear what it publishes, which can be stopped with protocol 5.0 only"
            document.add(_place(document, route.name), rule, of_key=True)
    for circle in _circles(routes):
        old = [name for route in circle if brokers[name := route.source].level < 5]
        if old:
            names = " -> ".join(route.name for route in circle)
            rule = f"an endless loop: {names}; with protocol 5.0 at all of its brokers ({listed(old)}) it is stopped"
            document.add(_place(document, circle[0].name), rule, of_key=True)


def _place(document: Document, name: str) -> KeyPath:
    return ("routes", name if name in document.mapping("routes") else name.removesuffix(BACK))


def _circles(routes: list[Route]) -> list[list[Route]]:
    """Circles over three brokers or more, each once."""
    found: dict[frozenset[str], list[Route]] = {}

    def walk(way: list[Route]) -> None:
        for following in (each for each in routes if _feeds(way[-1], each)):
            if following is way[0] and len(way) > 2:
                found.setdefault(frozenset(each.name for each in way), list(way))
            elif following.source not in [each.source for each in way]:
                walk([*way, following])

    for route in routes:
        walk([route])
    return list(found.values())
