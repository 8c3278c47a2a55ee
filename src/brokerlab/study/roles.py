"""The roles that clients play in a workload, beside publishing for others: the keys role, echo, probe and start."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study import quantity
from brokerlab.study import values as v
from brokerlab.study.factor import FactorKind, read_qos
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name

_LONGEST_PROBE_S = 3600.0


def read_role(written: object) -> str:
    return check_name("role", written, known=[role.value for role in v.Roles])


def read_start(written: object) -> str:
    return check_name("way to start", written, known=[start.value for start in v.Start])


def read_every_s(written: object) -> float:
    every_s = quantity.read_seconds(written)
    if not 0.001 <= every_s <= _LONGEST_PROBE_S:
        raise RuleError("must be from 1 ms to 1 h")
    return every_s


def read_site(written: object) -> int:
    if not isinstance(written, int) or isinstance(written, bool) or written < 1:
        raise RuleError("must be the number of a site of the topology, from 1")
    return written


class EchoPart(Part):
    qos: Annotated[int, PlainValidator(read_qos)] = int(v.Echo().qos)
    site: Annotated[int, PlainValidator(read_site)] | None = None

    def value(self) -> v.Echo:
        return v.Echo(qos=v.Qos(self.qos), site=self.site)


class ProbePart(Part):
    every: Annotated[float, PlainValidator(read_every_s)] = v.Probe().every_s
    qos: Annotated[int, PlainValidator(read_qos)] = int(v.Probe().qos)

    def value(self) -> v.Probe:
        return v.Probe(every_s=self.every, qos=v.Qos(self.qos))


def written(workload: v.Workload) -> dict[str, Any]:
    """The keys of a study file, in its order; a role's own keys stand there only with the role."""
    content: dict[str, Any] = {"role": workload.role.value}
    if workload.echo != v.Echo():
        site = {} if workload.echo.site is None else {"site": workload.echo.site}
        content["echo"] = {"qos": int(workload.echo.qos), **site}
    if workload.probe is not None:
        content["probe"] = {"every": quantity.seconds_text(workload.probe.every_s), "qos": int(workload.probe.qos)}
    if workload.start is not v.Start.CLOCK:
        content["start"] = workload.start.value
    return content


KINDS = (
    FactorKind("role", ("role",), read_role, str, lambda workload, level: replace(workload, role=v.Roles(str(level)))),
    FactorKind(
        "echo_qos",
        ("echo", "qos"),
        read_qos,
        int,
        lambda workload, level: replace(workload, echo=replace(workload.echo, qos=v.Qos(int(level)))),
    ),
    FactorKind(
        "start", ("start",), read_start, str, lambda workload, level: replace(workload, start=v.Start(str(level)))
    ),
)
