"""Where Spark runs, as it is written: on this machine, on a cluster, or behind Spark Connect.

    local, local[4], local[*]     this machine; the default
    spark://HOST:PORT             a standalone cluster
    yarn                          as HADOOP_CONF_DIR says
    k8s://https://HOST:PORT       Kubernetes
    sc://HOST:PORT                Spark Connect: no Java is needed here

Loads no Spark.
"""

import re
from dataclasses import dataclass

from brokerlab.errors import UserError

VARIABLE = "BROKERLAB_SPARK"

_KINDS = (
    ("local", re.compile(r"local(\[(\*|[1-9]\d*)(,\d+)?\])?")),
    ("cluster", re.compile(r"spark://[^/\s:]+:\d+(,[^/\s:]+:\d+)*|yarn|k8s://\S+")),
    ("connect", re.compile(r"sc://[^/\s:]+(:\d+)?(/;\S*)?")),
)
_ON_THIS_MACHINE = re.compile(r"spark://(127\.0\.0\.1|localhost):\d+")


@dataclass(frozen=True, slots=True)
class Master:
    url: str
    kind: str  # local | cluster | connect

    @property
    def needs_java(self) -> bool:
        return self.kind != "connect"

    @property
    def is_here(self) -> bool:
        """Whether all of Spark's processes are on this machine for sure."""
        return self.kind == "local" or _ON_THIS_MACHINE.fullmatch(self.url) is not None


def master_of(url: str | None) -> Master:
    """The place that a URL names; all cores of this machine without one."""
    written = url or "local[*]"
    for kind, pattern in _KINDS:
        if pattern.fullmatch(written):
            return Master(written, kind)
    raise UserError(
        f"{written!r} is no place for Spark to run (--master, {VARIABLE})",
        hint="local[*], spark://HOST:PORT, yarn, k8s://https://HOST:PORT or sc://HOST:PORT",
    )
