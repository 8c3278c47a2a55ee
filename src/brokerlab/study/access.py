"""How clients get into the broker: transport, certificates, user names and passwords, as a study file says it."""

import csv
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

from pydantic import PlainValidator, ValidationInfo

from brokerlab.errors import UserError
from brokerlab.study import values as v
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.secret import Secret

_HEADER = ["user", "password"]
_LONGEST_BYTES = 65_535  # MQTT 3.1.1 section 1.5.3: the longest text


def read_transport(written: object) -> v.Transport:
    return v.Transport(check_name("transport", written, known=[str(transport) for transport in v.Transport]))


def read_certificates(written: object) -> v.Certificates:
    known = [str(choice) for choice in v.Certificates]
    return v.Certificates(check_name("choice of certificates", written, known=known))


def read_user(written: object) -> str:
    """A user's name; {client} in it is the number of the client."""
    text = _text(written)
    try:
        fields = [(name, spec, turned) for _, name, spec, turned in Formatter().parse(text) if name is not None]
    except ValueError as problem:
        raise RuleError(f"is no pattern: {problem}") from problem
    if any(field != ("client", "", None) for field in fields):  # {client:>9} and {client!r} neither
        raise RuleError("knows {client} alone, the number of the client", nearest_valid="device-{client}")
    if ":" in text:
        raise RuleError("must have no colon: brokers' password files separate with it")
    return text


def read_password(written: object) -> Secret:
    return Secret(_text(written))


def read_file(written: object, info: ValidationInfo) -> str:
    """A file with a line for each client; a name that is not absolute counts from the folder of the study."""
    folder: Path = (info.context or {}).get("folder", Path())
    path = (folder / _text(written)).absolute()
    try:
        for _ in users_in(path):
            pass
    except UserError as problem:
        raise RuleError(problem.message) from problem
    return str(path)


class CredentialsPart(Part):
    user: Annotated[str, PlainValidator(read_user)] = ""
    password: Annotated[Secret, PlainValidator(read_password)] = Secret()
    file: Annotated[str, PlainValidator(read_file)] = ""

    def value(self) -> v.Credentials | None:
        return v.Credentials(self.user, self.password, self.file) if self.user or self.file else None


def users_in(path: Path) -> Iterator[tuple[str, Secret]]:
    """User names and passwords of a CSV file, in order; a line `user,password` at its top is no user."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from _users(path, csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise UserError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from problem


def users_of(credentials: v.Credentials, count: int) -> list[tuple[str, str]]:
    """(user, password) of so many clients, in order."""
    if credentials.file:
        users = [(name, secret.reveal()) for name, secret in users_in(Path(credentials.file))]
        if len(users) < count:
            raise UserError(f"{credentials.file} has {len(users)} users, but the run has {count} clients")
        return users[:count]
    password = credentials.password.reveal()
    return [(credentials.user.format(client=number), password) for number in range(count)]


def written_credentials(credentials: v.Credentials) -> dict[str, Any]:
    """As in a study file, without what is secret."""
    if credentials.file:
        return {"file": credentials.file}
    return {"user": credentials.user, "password": str(credentials.password)}


def _users(path: Path, rows: Iterator[list[str]]) -> Iterator[tuple[str, Secret]]:
    seen: dict[str, int] = {}
    for line, row in enumerate(rows, start=1):
        if not row or (line == 1 and row == _HEADER):
            continue
        if len(row) != len(_HEADER) or not all(row) or ":" in row[0]:
            raise UserError(f"line {line} of {path} must be a user's name, without a colon, and a password")
        if any(len(each.encode()) > _LONGEST_BYTES for each in row):
            raise UserError(f"line {line} of {path} has a text of more than {_LONGEST_BYTES} B, which no packet holds")
        if row[0] in seen:
            raise UserError(f"line {line} of {path} has the user of line {seen[row[0]]} again")
        seen[row[0]] = line
        yield row[0], Secret(row[1])


def _text(written: object) -> str:
    if not isinstance(written, str) or not written or not written.isprintable():
        raise RuleError("must be a text of printable characters: write it in quotes")
    if len(written.encode()) > _LONGEST_BYTES:
        raise RuleError(f"must be at most {_LONGEST_BYTES} B long")
    return written
