"""Which role a worker plays, by the name of its node."""

from collections.abc import Callable
from functools import partial

from brokerlab.load.echoing import Echoing
from brokerlab.load.filtering import Filtering
from brokerlab.load.idling import Idling
from brokerlab.load.looping import Looping
from brokerlab.load.parting import Parting
from brokerlab.load.publishing import Publishing
from brokerlab.load.role import Role
from brokerlab.load.spec import WorkerSpec
from brokerlab.load.starting import Starting
from brokerlab.load.subscribing import Subscribing

_ROLES: dict[str, Callable[..., Role]] = {
    "publishers": Publishing,
    "subscribers": Subscribing,
    "loops": Looping,
    "probe": Looping,
    "devices": Echoing,
    "idle": Idling,
    "filters": Filtering,
}


def role_of(spec: WorkerSpec) -> Callable[..., Role]:
    role = _ROLES[spec.node.partition("/")[0]]
    if role is Publishing and any(client.will for client in spec.clients):
        return Parting  # never beside a remote start: study/will_rules.py
    return partial(Starting, role) if spec.awaits_start else role
