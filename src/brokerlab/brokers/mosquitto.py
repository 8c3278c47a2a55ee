"""Mosquitto, a broker in C with one thread.

Stock is Mosquitto without a configuration file, but for what a run needs:

    listener, allow_anonymous   since 2.0 Mosquitto serves nobody without them
    user                        the one who runs it: otherwise a Mosquitto started by root changes its user,
                                at which the kernel forgets that it shall die with us
    sys_interval 1              its counters are at most 1 s old instead of 10 s, or each run would wait for them
"""

import os
import pwd
from pathlib import Path

from brokerlab.brokers.base import Abilities, Counter, Found, Missing, Node
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.program import find_program, version_said_by
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Qos

_PROGRAM = "mosquitto"
_HINT = "apt-get install mosquitto"
_SYSTEM_PROGRAMS = Path("/usr/sbin")  # Debian's place for it, not on the PATH of every user

_CONFIG = """\
listener {port} {host}
allow_anonymous true
sys_interval 1
"""


class Mosquitto:
    name = "mosquitto"
    abilities = Abilities(protocols=("3.1", "3.1.1", "5.0"))

    def find(self) -> Found | Missing:
        program = find_program(_PROGRAM, _SYSTEM_PROGRAMS)
        if program is None:
            return Missing(f"the program {_PROGRAM} is not here", hint=_HINT)
        version = version_said_by(program, "-h", r"mosquitto version (\S+)")
        if version is None:
            return Missing(f"{program} does not say its version", hint=_HINT)
        return Found(program, version)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int) -> Node:
        check_choice(choice, self.abilities)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        return Node(
            argv=(found.program, "-c", str(folder.absolute() / "mosquitto.conf")),
            host=host,
            port=port,
            files={"mosquitto.conf": _CONFIG.format(host=host, port=port) + _user_line()},
        )

    def counters(self) -> tuple[Counter, ...]:
        """Seen on 2.0.11; the contract suite looks again."""
        return (
            Counter(
                "$SYS/broker/publish/messages/received",
                equals="publications",
                qos=(Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE),
                note="Mosquitto leaves publications at QoS 2 and retained ones out of this counter",
            ),
            Counter(
                "$SYS/broker/publish/bytes/received",
                equals="payload_bytes",
                qos=(Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE, Qos.EXACTLY_ONCE),
                note="payload bytes, which the readiness proof has none of",
            ),
        )


def _user_line() -> str:
    try:
        return f"user {pwd.getpwuid(os.geteuid()).pw_name}\n"
    except KeyError:
        return ""  # a user without a name is not root, and only root's Mosquitto changes its user
