"""Whether new clients are still served, after what the checks did to the broker."""

from threading import Event

from brokerlab.lab.probe.check import Check
from brokerlab.lab.probe.room import Place, Room
from brokerlab.lab.probe.values import NotKept
from brokerlab.load.packets import ConnAck, Connect

# Brokers share their clients among threads by their names, and one thread may hang while the others go on.
_CLIENTS = 16
_KEEP_ALIVE_S = 600  # rumqttd refuses those who ask for none


def _still_served(room: Room) -> str:
    peers = []
    for number in range(_CLIENTS):
        peers.append(room.raw(f"late{number}"))
        peers[-1].send(Connect(room.client_id(), _KEEP_ALIVE_S))
    for peer in peers:
        peer.answer(ConnAck)
    return f"{_CLIENTS} new clients got CONNACK"


STILL = Check(
    "connect.still", "New clients are served after all that", {3: "3.1", 4: "3.1.4", 5: "3.1.4"}, _still_served,
    is_alone=True,
)  # fmt: skip


def serves(place: Place, level: int, stop: Event) -> bool:
    with Room(place, level=level, name=STILL.id, stop=stop) as room:
        try:
            _still_served(room)
        except NotKept:
            return False
    return True
