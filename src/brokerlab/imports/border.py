"""Client logs of BORDER (B-10, B-20): a folder of an experiment, with a file for each broker's subscribers.

    e2e_b<broker>_<time>.txt    receiver_brk,receiver_id,src_brk,client_num,sent,msg_id,received,qos
    conn_b<broker>_<time>.txt   broker,client,conn,connack

Times are whole milliseconds of one host's clock.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from brokerlab.imports.base import Options, Reading, Source
from brokerlab.imports.messages import About, Arrivals, parts_of, reading_of
from brokerlab.imports.times import number_ns
from brokerlab.record.schemas import SESSIONS

_HEADERS = {
    "receiver_brk,receiver_id,src_brk,client_num,sent,msg_id,received,qos",
    "broker,client,conn,connack",
}
_RESOLUTION_NS = 1_000_000


class Border:
    name = "border"
    about = "BORDER's client logs: a folder with e2e_b*.txt and conn_b*.txt"
    is_folder_a_run = True

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        arrivals, sessions, levels = Arrivals(), list[dict[str, Any]](), set[int]()
        for source in sources:
            for number, line in source:
                fields = [field.strip() for field in line.split(",")]
                if line.replace(" ", "") in _HEADERS:
                    continue
                is_read = _add_session(sessions, fields) or _add_delivery(arrivals, levels, fields)
                if not is_read:
                    source.refuse(number, line, "neither a delivery nor a connection of BORDER")
        qos = min(levels) if len(levels) == 1 else options.qos
        about = About(qos=qos, resolution_ns=_RESOLUTION_NS)
        readings = [reading_of(part, about, options) for part in parts_of(arrivals, options.split_s) if len(part)]
        if sessions and len(readings) == 1:
            table = pa.Table.from_pylist(sessions, schema=SESSIONS)
            return [replace(readings[0], raw={**readings[0].raw, "sessions": table})]
        return readings


def _add_delivery(arrivals: Arrivals, levels: set[int], fields: list[str]) -> bool:
    if len(fields) != 8:
        return False
    broker, receiver, source, client, sent, message, received, qos = fields
    sent_ns, received_ns = number_ns(sent, "ms"), number_ns(received, "ms")
    if sent_ns is None or received_ns is None or qos not in ("0", "1", "2"):
        return False
    levels.add(int(qos))
    arrivals.add(f"{broker}/{receiver}", f"{source}/{client}", message, received_ns, intended_ns=sent_ns)
    return True


def _add_session(sessions: list[dict[str, Any]], fields: list[str]) -> bool:
    if len(fields) != 4:
        return False
    asked_ns, answered_ns = number_ns(fields[2], "ms"), number_ns(fields[3], "ms")
    if asked_ns is None or answered_ns is None:
        return False
    event = {"client": fields[1], "node": fields[0], "event": "connack", "at_ns": answered_ns}
    sessions.append({**event, "latency_ns": answered_ns - asked_ns})
    return True
