"""Where Spark runs, as it is written: on this machine, on a cluster, or behind Spark Connect.

    local, local[4], local[*]     this machine; the default
    spark://HOST:PORT             a standalone cluster
    yarn                          as HADOOP_CONF_DIR says
    k8s://https://HOST:PORT       Kubernetes
    sc://HOST:PORT                Spark Connect: no Java is needed here

Loads no Spark.
"""

import os
import re
import socket
from dataclasses import dataclass

from brokerlab.errors import UserError

VARIABLE = "BROKERLAB_SPARK"

_KINDS = (
    ("local", re.compile(r"local(\[(\*|[1-9]\d*)(,\d+)?\])?")),
    ("cluster", re.compile(r"spark://[^/\s:]+:\d+(,[^/\s:]+:\d+)*|yarn|k8s://\S+")),
    ("connect", re.compile(r"sc://[^/\s:]+(:\d+)?(/;\S*)?")),
)
_CONNECT_PORT = 15002  # unless the URL tells another
_ANSWER_S = 5.0
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  # of gRPC, which Spark Connect speaks
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

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where one must listen, if they are in the URL."""
        if self.kind == "local" or not self.url.startswith(("spark://", "sc://")):
            return ()
        places = self.url.partition("://")[2].partition("/")[0].split(",")
        parts = [place.partition(":") for place in places]
        return tuple((host, int(port) if port else _CONNECT_PORT) for host, _, port in parts)

    def require_answer(self) -> None:
        """UserError where nobody listens, within seconds: Spark itself goes on asking for minutes."""
        if self.kind == "connect" and any(os.environ.get(name) for name in _PROXIES):
            return  # it need not be reached from here
        problems = []
        for host, port in self.addresses:
            try:
                socket.create_connection((host, port), timeout=_ANSWER_S).close()
            except OSError as problem:
                problems.append(f"{host}:{port}: {problem.strerror or problem}")
            else:
                return
        if problems:
            raise UserError(
                f"no Spark answers at {self.url}: {'; '.join(problems)}",
                hint="start one with Spark's sbin/start-master.sh or start-connect-server.sh, or give another --master",
            )


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
