"""ejabberd, an XMPP server in Erlang, with mod_mqtt: MQTT 3.1.1 and 5.0, and nothing else of it.

Alone its Erlang has no listener for other nodes, and never the port mapper (epmd, see erlang.py). It is started without
its script, which changes the user. Who comes without a password is always refused; so where a study has no users, all
clients say the same name and password (Node.login), and ejabberd, which then admits anybody, does not look at them.
Users are put into its database before it starts, with the passwords in the clear, as ejabberd does by default; the
database is then in the private folder. Names that differ in case only are one user. Client certificates only stand
for a password with it; it keeps nobody out without one.

stock     mod_mqtt with its defaults: when 5,000 messages wait for a client it is cut off and loses them
lossless  no limit to what waits for a client, or to the retained messages that a filter brings (stock: 1,000)
tuned     lossless, and 1,000 clients may knock at once (stock: 5); its documentation names nothing else

The nodes of a cluster share users and sessions, and each has its own retained messages.

There is no durable: of MQTT only retained messages are on the disk, and sessions end with the process.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from brokerlab.brokers import erlang
from brokerlab.brokers.base import OPEN, Abilities, Found, Group, Missing, Node, Seat, Security
from brokerlab.brokers.cache import how_to_install
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.program import find_program
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import Debian
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

_LIBRARIES = Path("/usr/lib")
_CONFIG = "ejabberd.yml"
_DATA = "data"
_HOST = "localhost"  # of its users, not of its listener
_LOGIN = ("brokerlab", "brokerlab")
_READY_S, _STOP_S = 60.0, 10.0

_LOSSLESS: Mapping[str, object] = {"max_queue": "unlimited", "match_retained_limit": "infinity"}
_MODULE: Mapping[str, Mapping[str, object]] = {"stock": {}, "lossless": _LOSSLESS, "tuned": _LOSSLESS}
_LISTENER: Mapping[str, Mapping[str, object]] = {"stock": {}, "lossless": {}, "tuned": {"backlog": 1000}}

# What Debian's script gives to Erlang.
_ERLANG = ("+K", "true", "+P", "250000", "-noinput")
_ALONE = ("-sname", f"ejabberd@{_HOST}", *erlang.ALONE)
_ENVIRONMENT = {"ERL_MAX_PORTS": "32000", "ERL_MAX_ETS_TABLES": "1400"}

_KNOWN = {"auth_method": "internal"}
_ANYBODY = {"auth_method": "anonymous", "anonymous_protocol": "login_anon", "allow_multiple_connections": True}

# Makes the table that ejabberd's own storage of passwords makes and finds (ejabberd_auth_mnesia).
_USERS = """\
ok = filelib:ensure_dir(filename:join(mnesia:system_info(directory), "any")),
ok = mnesia:create_schema([node()]),
ok = mnesia:start(),
{{atomic, ok}} = mnesia:create_table(passwd, [{{disc_copies, [node()]}}, {{attributes, [us, password]}}]),
[ok = mnesia:dirty_write({{passwd, {{Name, <<"{host}">>}}, Password}}) || {{Name, Password}} <- [
{users}
]],
done.
"""


class Ejabberd:
    name = "ejabberd"
    source = Debian(("ejabberd",))
    abilities = Abilities(
        protocols=("3.1.1", "5.0"),
        presets=tuple(_MODULE),
        transports=tuple(Transport),
        has_credentials=True,
        has_permissions=True,
        has_clusters=True,
        is_scalable=True,
        licence="GPL-2.0-or-later",
    )

    def find(self) -> Found | Missing:
        hint = how_to_install(self.name)
        homes = sorted(_LIBRARIES.glob("*/ejabberd-*/ebin/ejabberd.app"))
        erlang = find_program("erl")
        if not homes or erlang is None:
            return Missing(f"the program {self.name} is not here", hint=hint)
        version = re.match(r"ejabberd-(\d+(?:\.\d+)*)", homes[-1].parents[1].name)
        return Found(str(homes[-1].parents[1]), version.group(1) if version else "unknown")

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        return self._node(choice, alone(folder, host, port, spare=0), security)

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        """Each node forgets at its joining what it knew, and takes the users of the first."""
        members = erlang.members("ejabberd", seats)
        joins = f"ejabberd_cluster join ['{members[0].name}']"
        nodes: list[Node] = []
        for seat, member in zip(seats, members, strict=True):
            own = of_seat(security, seat)
            node = self._node(choice, seat, own, member.arguments, home=erlang.home(own))
            nodes.append(
                replace(
                    node,
                    secrets={**node.secrets, **erlang.cookie_of(member, own)},
                    joins=(member.call(joins),) if nodes else (),
                )
            )
        return Group(tuple(nodes))

    def members(self, node: Node) -> int | None:
        """Asked over Erlang's own connections."""
        asked = erlang.asked_at(node.argv, "ejabberd_cluster get_nodes []")
        told = erlang.said_by(asked, node.env) if asked else None
        return None if told is None else told.count("ejabberd@")

    def _node(
        self,
        choice: BrokerChoice,
        seat: Seat,
        security: Security,
        distribution: tuple[str, ...] = _ALONE,
        home: Path | None = None,
    ) -> Node:
        check_choice(choice, self.abilities, security)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        here, data = seat.folder, seat.folder / _DATA
        database = _private(security) / "ejabberd" if security.users else data / "database"
        secrets: dict[Path, str | bytes] = {}
        prepared: tuple[str, ...] = ()
        if security.users:
            script = _private(security) / "ejabberd-users.erl"
            secrets[script] = _USERS.format(host=_HOST, users=",\n".join(_users(security.users)))
            prepared = ("-eval", f"{{ok, done}} = file:script({json.dumps(str(script))})")
        config = _config(seat.host, seat.port, security, preset=choice.preset)
        started = ("-mnesia", "dir", json.dumps(str(database)), *prepared, "-s", "ejabberd")
        return Node(
            argv=("erl", *distribution, *_ERLANG, *started),
            host=seat.host,
            port=seat.port,
            # JSON is YAML.
            files={_CONFIG: json.dumps(config, indent=2) + "\n"},
            secrets=secrets,
            env=_ENVIRONMENT
            | {
                "HOME": str(home or data),
                "TMPDIR": str(data),
                "ERL_LIBS": str(Path(found.program).parent),
                "ERL_CRASH_DUMP": str(data / "crash.dump"),
                "EJABBERD_CONFIG_PATH": str(here / _CONFIG),
                "EJABBERD_LOG_PATH": str(data / "ejabberd.log"),
            },
            scratch=(_DATA,),
            ready_s=_READY_S,
            stop_s=_STOP_S,
            login=None if security.users else _LOGIN,
        )


def _config(host: str, port: int, security: Security, *, preset: str) -> dict[str, Any]:
    """What it logs is for the console too; below `warning` that is a line for each client."""
    listener: dict[str, object] = {"port": port, "ip": host, **_LISTENER[preset]}
    listener |= (
        {"module": "ejabberd_http", "request_handlers": {"/mqtt": "mod_mqtt"}}
        if security.transport.is_framed
        else {"module": "mod_mqtt"}
    )
    if security.transport.is_encrypted:
        listener["tls"] = True
    module = dict(_MODULE[preset])
    if security.readable or security.writable:
        module["access_subscribe"] = _rules(security.readable)
        module["access_publish"] = _rules(security.writable)
    return {
        "hosts": [_HOST],
        "loglevel": "warning",
        **(_KNOWN if security.users else _ANYBODY),
        "certfiles": [str(security.certificate), str(security.key)] if security.transport.is_encrypted else [],
        "listen": [listener],
        "modules": {"mod_mqtt": module},
    }


def _rules(filters: tuple[str, ...]) -> dict[str, str]:
    """Without any rule everybody may do everything."""
    return dict.fromkeys(filters, "all") or {"#": "none"}


def _private(security: Security) -> Path:
    if security.folder is None:
        raise ValueError("a private folder is needed for passwords")
    return security.folder


def _users(users: Mapping[str, str]) -> Iterator[str]:
    """Terms of Erlang; as numbers, so that no character needs care."""
    for name, password in users.items():
        yield f"{{{_binary(name.lower())}, {_binary(password)}}}"


def _binary(text: str) -> str:
    return f"<<{','.join(map(str, text.encode()))}>>"
