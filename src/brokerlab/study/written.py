"""A study written back as a study file: everything spelled out, defaults and settings included.

What is written reads back to an equal Study; a test holds that.
"""

from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from brokerlab.study import ensemble, faults, limits, mqtt5, pause, quantity, roles, subscriptions, topology_part, wills
from brokerlab.study.access import written_credentials
from brokerlab.study.arrivals import KEYS
from brokerlab.study.factors import FACTORS
from brokerlab.study.life import written_life
from brokerlab.study.readers import FORMAT_VERSION
from brokerlab.study.values import (
    Analysis,
    Arrivals,
    BrokerChoice,
    Payload,
    Record,
    Replay,
    Scenario,
    Schedule,
    Study,
    Topics,
    Workload,
)


def study_yaml(study: Study) -> str:
    """The resolved study as the text of a study file; the same study gives the same text."""
    content = {
        "brokerlab": FORMAT_VERSION,
        "study": study.name,
        "goals": {"question": _escaped(study.goals.question), "rank_by": study.goals.rank_by},
        "system": {
            "brokers": {broker.name: _broker(broker) for broker in study.system.brokers},
            "ensemble": _on_one_line(ensemble.written_ensemble(study.system.ensemble)),
            **_flat({"limits": written} if (written := limits.written(study.system.limits)) else {}),
        },
        "metrics": _list(study.metrics),
        "scenario": _scenario(study.scenario),
        "deploy": _deploy(study),
        "analysis": _analysis(study.analysis),
        "present": {"beside": _list(study.present.beside)},
    }
    return _text(content)


def _broker(broker: BrokerChoice) -> dict[str, Any]:
    written: dict[str, Any] = {"driver": broker.driver, "preset": broker.preset, "optional": broker.optional}
    return written | {"options": _escaped(broker.options)} if broker.options else _on_one_line(written)


def _scenario(scenario: Scenario) -> dict[str, Any]:
    return {
        "workload": _workload(scenario.workload),
        "variables": {
            factor.name: _list(FACTORS[factor.name].written(level) for level in factor.levels)
            for factor in scenario.variables
        },
        **_flat(ensemble.written_placement(scenario.workload.placement)),
        **_flat({"topology": topology_part.written(scenario.topology)}),
        **_flat(faults.written(scenario.faults)),
    }


def _workload(workload: Workload) -> dict[str, Any]:
    return {
        "publishers": workload.publishers,
        "subscribers": workload.subscribers,
        "topics": _on_one_line(_topics(workload.topics)),
        "payload": _payload(workload),
        "schedule": _on_one_line(_schedule(workload.schedule, own_times=_has_own_times(workload))),
        "qos": int(workload.qos),
        "retain": workload.retain,
        "protocol": workload.protocol,
        "transport": str(workload.transport),
        "certificates": str(workload.certificates),
        "permissions": workload.permissions,
        "clients": _on_one_line(written_life(workload.clients)),
        **_flat(roles.written(workload)),
        **_flat(wills.written(workload.will)),
        **_flat(pause.written(workload.pause)),
        **_flat(mqtt5.written(workload.mqtt5)),
        **_flat(subscriptions.written(workload.subscriptions)),
    } | (
        {"credentials": _on_one_line(_escaped(written_credentials(workload.credentials)))}
        if workload.credentials
        else {}
    )


def _payload(workload: Workload) -> Any:
    """One size where that is all there is to say."""
    payload, size = workload.payload, quantity.bytes_text(workload.payload_bytes)
    if payload == Payload():
        return size
    template = {} if payload.template is None else {"template": DoubleQuotedScalarString(payload.template)}
    if payload.replay is not None:
        return _on_one_line(_replay(payload.replay))
    if payload.mix:
        shares = {quantity.bytes_text(part): quantity.percent_text(share) for part, share in payload.mix}
        sizes: dict[str, Any] = {"mix": _on_one_line(shares)}
    elif payload.each:
        sizes = {"each": _list(quantity.bytes_text(part) for part in payload.each)}
    else:
        sizes = {"size": size}
    return _on_one_line(sizes | {"content": payload.content.value} | template)


def _flat(keys: dict[str, Any]) -> dict[str, Any]:
    """The same keys, each mapping on one line."""
    return {key: _on_one_line(part) if isinstance(part, dict) else part for key, part in keys.items()}


def _has_own_times(workload: Workload) -> bool:
    return workload.payload.replay is not None and workload.payload.replay.time is not None


def _replay(replay: Replay) -> dict[str, Any]:
    header = {"header": replay.header} if replay.record is Record.CSV else {}
    named = {name: value for name, value in (("time", replay.time), ("key", replay.key)) if value is not None}
    return {
        "file": DoubleQuotedScalarString(replay.file),
        "record": replay.record.value,
        **header,
        **{name: DoubleQuotedScalarString(value) for name, value in named.items()},
        "split": replay.split.value,
        "repeat": replay.repeat,
        "sha256": DoubleQuotedScalarString(replay.sha256),
    }


def _topics(topics: Topics) -> dict[str, Any]:
    subscribe = topics.subscribe
    written = {
        "publish": topics.publish,
        "subscribe": subscribe if isinstance(subscribe, str) else _list(subscribe),
        "count": topics.count,
        "depth": topics.depth,
        "length": None if topics.length_bytes is None else quantity.bytes_text(topics.length_bytes),
    }
    if topics.reply != Topics().reply:
        written |= {"reply": topics.reply}
    if topics.share:
        written |= {"share": _list(topics.share)}
    written |= {"subscribe_at": topics.subscribe_at.value}
    return {key: value for key, value in written.items() if value is not None}


def _schedule(schedule: Schedule, *, own_times: bool) -> dict[str, Any]:
    """Only what the arrivals use: a rate beside `saturate` would be refused, or beside a file with its own times."""
    every = {
        "rate": quantity.per_s_text(schedule.rate_per_s),
        "window": schedule.window,
        "jitter": quantity.percent_text(schedule.jitter_percent),
        "burst": schedule.burst,
        "to": quantity.per_s_text(schedule.to_per_s),
        "rates": _list(quantity.per_s_text(rate) for rate in schedule.rates_per_s),
        "store": quantity.seconds_text(schedule.store_s),
        "within": quantity.seconds_text(schedule.within_s),
        "speed": schedule.speed,
        "p99": quantity.milliseconds_text(schedule.p99_ms),
        "from": quantity.per_s_text(schedule.from_per_s),
        "precision": quantity.percent_text(schedule.precision_percent),
        "trial": quantity.seconds_text(schedule.trial_s),
    }
    unused = {"inflight"} | ({"rate" if own_times else "speed"} if schedule.arrivals is Arrivals.REPLAY else set())
    keys = [key for key in KEYS[schedule.arrivals] if key not in unused]
    limit = {} if schedule.inflight is None else {"inflight": schedule.inflight}
    return {"arrivals": schedule.arrivals.value} | {key: every[key] for key in keys} | limit


def _deploy(study: Study) -> dict[str, Any]:
    deploy, is_captured = study.deploy, bool(study.deploy.captures) or "traffic" in study.metrics
    phases = {"idle": quantity.seconds_text(deploy.phases.idle_s)} if deploy.phases.idle_s else {}
    phases |= {
        "warmup": quantity.seconds_text(deploy.phases.warmup_s),
        "measure": quantity.seconds_text(deploy.phases.measure_s),
        "drain": quantity.seconds_text(deploy.phases.drain_s),
    }
    if study.scenario.workload.schedule.arrivals is Arrivals.REPLAY:
        del phases["measure"]  # the file says how long it lasts
    return {
        "repetitions": deploy.repetitions,
        "seed": deploy.seed,
        "phases": _on_one_line(phases),
        "load_on": deploy.load_on,
    } | ({"captures": _list(deploy.captures)} if is_captured else {})


def _analysis(analysis: Analysis) -> dict[str, Any]:
    guards = {
        "generator_cpu": quantity.percent_text(analysis.guards.generator_cpu_percent),
        "schedule_lag_p99": quantity.milliseconds_text(analysis.guards.schedule_lag_p99_ms),
        "subscriber_cpu": quantity.percent_text(analysis.guards.subscriber_cpu_percent),
        "receive_lag_p99": quantity.milliseconds_text(analysis.guards.receive_lag_p99_ms),
        "steal": quantity.percent_text(analysis.guards.steal_percent),
        "swap_growth": quantity.bytes_text(analysis.guards.swap_growth_bytes),
        "clock_step": quantity.milliseconds_text(analysis.guards.clock_step_ms),
        "socket_backlog": quantity.bytes_text(analysis.guards.socket_backlog_bytes),
        "throttled": quantity.percent_text(analysis.guards.throttled_percent),
        "stalled": quantity.percent_text(analysis.guards.stalled_percent),
    }
    return {
        "confidence": quantity.percent_text(analysis.confidence_percent),
        "late": quantity.seconds_text(analysis.late_s),
        "guards": _on_one_line(guards),
    }


def _text(content: dict[str, Any]) -> str:
    yaml = YAML()
    yaml.width = 100_000  # no folding: a long question stays one line, which diffs better
    stream = StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()


def _escaped(content: Any) -> Any:
    """The same, with texts in double quotes where YAML would otherwise change what cannot be printed."""
    if isinstance(content, str):
        return content if content.isprintable() else DoubleQuotedScalarString(content)
    if isinstance(content, Mapping):
        return {key: _escaped(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_escaped(value) for value in content]
    return content


def _on_one_line(content: dict[str, Any]) -> CommentedMap:
    mapping = CommentedMap(content)
    mapping.fa.set_flow_style()
    return mapping


def _list(items: Iterable[Any]) -> CommentedSeq:
    sequence = CommentedSeq(items)
    sequence.fa.set_flow_style()
    return sequence
