"""How the publishers of a worker end: nothing that they retained stays behind, whoever has a connection or none."""

import contextlib
from collections.abc import Iterable, Sequence

from brokerlab.errors import RunError
from brokerlab.load import connection
from brokerlab.load.opening import open_one
from brokerlab.load.publisher import Publisher
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, WorkerSpec

_TIMEOUT_S = 5.0


def say_goodbye(here: Iterable[Publisher], every: Sequence[Publisher], spec: WorkerSpec, *, log: SessionLog) -> None:
    """`here` are those whose connection stands; for all others together one is made, where there is a need."""
    numbers = set()
    for publisher in here:
        connection.disconnect(publisher.client, publisher.stream, log=log, after=spec.workload)
        numbers.add(publisher.client.number)
    if spec.workload.retain and spec.workload.will is None:  # those with wills took it back when they left (parting.py)
        _clear_for([each.client for each in every if each.client.number not in numbers], spec, log)


def _clear_for(clients: Sequence[Client], spec: WorkerSpec, log: SessionLog) -> None:
    """Connects as the first of them, for the topics of all; that there is no connection is in the log by then."""
    with contextlib.suppress(RunError):
        if clients:
            session = open_one(clients[0], spec, timeout_s=_TIMEOUT_S, log=log)
            for client in clients[1:]:
                connection.clear_retained(client, session.stream, spec.workload)
            connection.disconnect(clients[0], session.stream, log=log, after=spec.workload)
