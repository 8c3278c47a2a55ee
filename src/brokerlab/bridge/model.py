"""The shape of a bridge file, as pydantic models with the file's own key names; file.py has what concerns two places.

bridge: 1
brokers: {plant: {address: "192.0.2.1:1883"}, cloud: {address: "broker.example.org:8883", transport: tls}}
routes: {up: {from: plant, to: cloud, subscribe: "plant/#", qos: 1}}
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainValidator, ValidationInfo

from brokerlab.bridge import steps as s
from brokerlab.bridge import values as v
from brokerlab.study import factors, quantity, readers
from brokerlab.study.access import read_transport
from brokerlab.study.factor import read_qos, read_whole
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.secret import Secret
from brokerlab.study.topics import check_subscribe_filters
from brokerlab.study.values import Transport

FORMAT_VERSION = 1
KINDS = ("number", "whole", "text", "truth")
LASTING, PER_MESSAGE = "persistent", "per message"
_HIGHEST_PORT = 65_535
_PROTOCOLS = ("3.1.1", "5.0")
_ENVIRONMENT = "env:"
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def read_version(written: object) -> int:
    if isinstance(written, bool) or written != FORMAT_VERSION:
        raise RuleError(f"must be {FORMAT_VERSION}, the version of the format of bridge files")
    return FORMAT_VERSION


def read_address(written: object) -> tuple[str, int]:
    host, colon, port = written.rpartition(":") if isinstance(written, str) else ("", "", "")
    is_bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    host = host.removeprefix("[").removesuffix("]")
    if not (host and colon and port.isdecimal() and 0 < int(port) <= _HIGHEST_PORT) or is_bare_ipv6:
        raise RuleError("an address is written host:port, for example 192.0.2.1:1883")
    try:
        host.encode("idna")  # as a socket will; it refuses empty levels, as in "a..b", and those above 63 bytes
    except UnicodeError as problem:
        raise RuleError(f"no host is called {host!r}") from problem
    return host, int(port)


def read_protocol(written: object) -> str:
    text = str(written) if isinstance(written, float | int) else written
    return check_name("MQTT version", "5.0" if text == "5" else text, known=_PROTOCOLS)


def read_password(written: object) -> Secret:
    if not isinstance(written, str) or not written.startswith(_ENVIRONMENT) or written == _ENVIRONMENT:
        raise RuleError("must be env:NAME: a password stands in the environment, and not in a file")
    return Secret(written)


def read_file(written: object, info: ValidationInfo) -> Path:
    """A file that is there; its name counts from the bridge file's folder."""
    if not isinstance(written, str) or not written:
        raise RuleError("must be the name of a file")
    path = _folder(info) / written
    if not path.is_file():
        raise RuleError("no such file")
    return path.absolute()


def read_place(written: object, info: ValidationInfo) -> Path:
    """A path that need not be there."""
    if not isinstance(written, str) or not written:
        raise RuleError("must be a path")
    return (_folder(info) / written).absolute()


def _folder(info: ValidationInfo) -> Path:
    return Path((info.context or {}).get("folder", "."))


def whole(least: int, most: int) -> Callable[[object], int]:
    return lambda written: read_whole(written, least=least, most=most)


def read_seconds(written: object) -> int:
    seconds = quantity.read_seconds(written)
    if seconds != int(seconds) or not 1 <= seconds <= 2**32 - 2:
        raise RuleError("must be whole seconds, at least one: MQTT counts so")
    return int(seconds)


def read_every_s(written: object) -> float:
    seconds = quantity.read_seconds(written)
    if seconds < 0.1:
        raise RuleError("must be at least 100 ms")
    return seconds


def read_buffer_bytes(written: object) -> int:
    size_bytes = quantity.read_bytes(written)
    if not 2**16 <= size_bytes <= 2**32:
        raise RuleError("must be from 64 KiB to 4 GiB")
    return size_bytes


def read_filters(written: object) -> tuple[str, ...]:
    found = check_subscribe_filters(written)
    return (found,) if isinstance(found, str) else found


def read_topic(written: object) -> str:
    if not isinstance(written, str) or not written or any(character in written for character in "+#\0"):
        raise RuleError("must be a topic, without wildcards")
    return written


def read_connections(written: object) -> bool:
    return check_name("kind of connections", written, known=(LASTING, PER_MESSAGE)) == LASTING


def read_conversion(written: object) -> s.Conversion:
    mapping: Any = {"to": written} if isinstance(written, str) else written
    if not isinstance(mapping, dict) or "to" not in mapping:
        raise RuleError(f"must be one of {', '.join(KINDS)}, or a mapping with to, factor, offset and digits")
    for key in mapping:
        check_name("key of a conversion", key, known=("to", "factor", "offset", "digits"))
    numbers = {key: mapping[key] for key in ("factor", "offset", "digits") if key in mapping}
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers.values()):
        raise RuleError("factor, offset and digits are numbers")
    if not isinstance(numbers.get("digits", 0), int):
        raise RuleError("digits is a whole number")
    return s.Conversion(check_name("kind of value", mapping["to"], known=KINDS), **numbers)


def read_rows(written: object) -> str:
    return check_name("number of rows", written, known=("one", "many"))


def read_separator(written: object) -> str:
    if not isinstance(written, str) or len(written) != 1 or written in '"\r\n':
        raise RuleError("must be one character")
    return written


def read_dotted(written: object) -> str:
    if not isinstance(written, str) or not _DOTTED.fullmatch(written):
        raise RuleError("must be a function by its dotted name, such as module.function")
    return written


Text = Annotated[str, PlainValidator(readers.read_text)]
Names = Annotated[list[Text], Field(min_length=1)]
Separator = Annotated[str, PlainValidator(read_separator)]
Place = Annotated[Path, PlainValidator(read_place)]
Present = Annotated[Path, PlainValidator(read_file)]
Seconds = Annotated[int, PlainValidator(read_seconds)]


class BrokerPart(Part):
    address: Annotated[tuple[str, int], PlainValidator(read_address)]
    id: Text | None = None
    protocol: Annotated[str, PlainValidator(read_protocol)] = "3.1.1"
    transport: Annotated[Transport, PlainValidator(read_transport)] = Transport.TCP
    path: Text = "/mqtt"
    authority: Present | None = None
    certificate: Present | None = None
    user: Text | None = None
    password: Annotated[Secret, PlainValidator(read_password)] | None = None
    keep_alive: Seconds = 60
    session_expiry: Seconds = 86_400

    def value(self, name: str) -> v.Broker:
        host, port = self.address
        return v.Broker(
            name, host, port, self.id or f"{host}:{port}", self.protocol, self.transport, self.path, self.authority,
            self.certificate, self.user, self.password, min(self.keep_alive, 0xFFFE), self.session_expiry,
        )  # fmt: skip


class CsvToJsonPart(Part):
    columns: list[Text] = Field(default=[])
    separator: Separator = ","
    rows: Annotated[str, PlainValidator(read_rows)] = "one"


class JsonToCsvPart(Part):
    columns: Names
    separator: Separator = ","
    header: bool = False


class StepPart(Part):
    """A mapping of one key, which names the step."""

    select: Names | None = None
    rename: dict[Text, Text] | None = None
    convert: dict[Text, Annotated[s.Conversion, PlainValidator(read_conversion)]] | None = None
    csv_to_json: CsvToJsonPart | None = None
    json_to_csv: JsonToCsvPart | None = None
    python: Annotated[str, PlainValidator(read_dotted)] | None = None

    def value(self, function: Callable[[str], Callable[[s.Message], Any]]) -> s.Step:
        """The step; `function` finds the user's."""
        if self.select is not None:
            return s.Select(tuple(self.select))
        if self.rename is not None:
            return s.Rename(self.rename)
        if self.convert is not None:
            return s.Convert(self.convert)
        if (rows := self.csv_to_json) is not None:
            return s.CsvToJson(tuple(rows.columns), rows.separator, rows.rows == "many")
        if (table := self.json_to_csv) is not None:
            return s.JsonToCsv(tuple(table.columns), table.separator, table.header)
        if self.python is None:
            raise ValueError("a step without a key")
        return s.Call(self.python, function(self.python))


class RoutePart(Part):
    from_: Text = Field(alias="from")
    to: Text
    subscribe: Annotated[tuple[str, ...], PlainValidator(read_filters)]
    qos: Annotated[int, PlainValidator(read_qos)] = 1
    both: bool = False
    retain: bool = True
    topics: dict[Text, Text] = Field(default={})
    transform: list[StepPart] = Field(default=[])
    workers: Annotated[int, PlainValidator(whole(1, v.MOST_WORKERS))] = 1
    connections: Annotated[bool, PlainValidator(read_connections)] = True
    dead_letters: Annotated[str, PlainValidator(read_topic)] | None = None
    inflight: Annotated[int, PlainValidator(whole(1, 65_535))] | None = None
    buffer: Annotated[int, PlainValidator(read_buffer_bytes)] = 16 * 2**20


class MetricsPart(Part):
    port: Annotated[int, PlainValidator(whole(1, _HIGHEST_PORT))] | None = None
    host: Text = "127.0.0.1"
    file: Place | None = None
    every: Annotated[float, PlainValidator(read_every_s)] = 10.0

    def value(self) -> v.Metrics:
        return v.Metrics(self.port, self.host, self.file, self.every)


class BridgePart(Part):
    bridge: Annotated[int, PlainValidator(read_version)]
    name: Annotated[str, PlainValidator(factors.read_name)] | None = None
    brokers: dict[Annotated[str, PlainValidator(factors.read_name)], BrokerPart] = Field(min_length=1)
    routes: dict[Annotated[str, PlainValidator(factors.read_name)], RoutePart] = Field(min_length=1)
    state: Place | None = None
    metrics: MetricsPart = MetricsPart()
