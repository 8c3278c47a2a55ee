"""What the brokers in Java have in common: a Java to run on, a heap, key stores, and files that launchers read.

A Java is told by the file `release` beside it, so that looking for brokers starts none.
"""

import base64
import os
import re
import shutil
import string
from collections.abc import Iterator, Mapping
from pathlib import Path

from brokerlab.brokers.base import Found, Missing, Node, Seat, Security
from brokerlab.brokers.cache import how_to_install, installed
from brokerlab.brokers.telling import page_text, prometheus
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice

OLDEST_JAVA = 17  # what Artemis and ActiveMQ 6 are compiled for
INSTALLED = Path("/usr/lib/jvm")  # where Debian puts them
_PACKAGE = "openjdk-17-jre-headless"
JAVA_HINT = f"on Debian: apt-get install {_PACKAGE}; elsewhere install Java {OLDEST_JAVA} or newer and set JAVA_HOME"
LAUNCHERS = Path(__file__).with_name("launchers")

# A Java broker takes seconds of CPU time to start and to stop; on a busy machine they last many times longer.
READY_S = 120.0
STOP_S = 20.0

# No secret: the stores lie in the private folder of the run, next to the key in plain PEM.
STORE_PASSWORD = "brokerlab"  # noqa: S105
_KEYS = "broker.p12"
_TRUSTED = "authority.p12"

_PLAIN = frozenset(string.ascii_letters + string.digits + "-_.,")
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)  # up to Java 8 it says 1.8.0_x


def find_java(env: Mapping[str, str] = os.environ, *, installed: Path = INSTALLED) -> Path | None:
    """The first Java that is new enough: JAVA_HOME's, PATH's, then Debian's own place."""
    return next((program for program in _candidates(env, installed) if _major(program) >= OLDEST_JAVA), None)


def find_broker(name: str, *needed: str, version: str) -> Found | Missing:
    """The installed broker, of which the files `needed` must be there; its version is that of its source."""
    if find_java() is None:
        return Missing(f"there is no Java {OLDEST_JAVA} or newer", hint=JAVA_HINT)
    place = installed(name)
    if place is None:
        return Missing("it is not installed", hint=how_to_install(name))
    for path in needed:
        if not (place / path).exists():
            return Missing(f"{place / path} is not there", hint=how_to_install(name))
    return Found(str(place), version)


def require(choice: BrokerChoice, found: Found | Missing) -> tuple[Path, Path]:
    """The Java and the folder of a broker that is to be started."""
    java = find_java()
    if isinstance(found, Missing) or java is None:
        reason, hint = (found.reason, found.hint) if isinstance(found, Missing) else ("there is no Java", JAVA_HINT)
        raise UserError(f"broker {choice.name}: {reason}", hint=hint)
    return java, Path(found.program)


def options(choice: BrokerChoice, *, folder: Path, first_mib: int, most_mib: int) -> tuple[str, ...]:
    """The heap that Java begins with and may grow to, which the option heap_mib makes one fixed size; and its manners.

    Temporary files go to the node's folder, and no file in /tmp tells other programs about this one.
    Java would listen on 127.0.0.1 as an address of IPv6 unless it were told to prefer the other.
    """
    asked = choice.options.get("heap_mib")
    if asked is not None:
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise UserError(
                f"broker {choice.name}: heap_mib is {asked!r}", hint="it is a whole number of mebibytes, such as 1024"
            )
        first_mib = most_mib = asked
    return (
        f"-Xms{first_mib}m",
        f"-Xmx{most_mib}m",
        "-XX:-UsePerfData",
        f"-Djava.io.tmpdir={folder}",
        "-Djava.net.preferIPv4Stack=true",
    )


def node(
    argv: tuple[str, ...],
    seat: Seat,
    *,
    files: Mapping[str, str],
    secrets: Mapping[Path, str | bytes],
    scratch: tuple[str, ...] = (),
    page: str | None = None,
) -> Node:
    """A node that takes as long as Java does; its launcher tells counters at `page`, host:port."""
    return Node(
        argv=argv,
        host=seat.host,
        port=seat.port,
        files=files,
        secrets=secrets,
        scratch=scratch,
        ready_s=READY_S,
        stop_s=STOP_S,
        page=f"http://{page}/metrics" if page else None,
    )


def members_on(page: str | None) -> int | None:
    """How many members a launcher's page tells; None when it does not answer, or is of a node that is alone."""
    told = prometheus(page_text(page or "") or "").get("members")
    return None if told is None else int(told)


def key_store_path(security: Security) -> Path:
    return private(security) / _KEYS


def trust_store_path(security: Security) -> Path:
    return private(security) / _TRUSTED


def stores(security: Security) -> dict[Path, str | bytes]:
    """The broker's key and certificate as PKCS12, and the authority of its clients where they must have one."""
    made: dict[Path, str | bytes] = {}
    if security.transport.is_encrypted and security.certificate and security.key:
        made[key_store_path(security)] = _key_store(security.certificate.read_bytes(), security.key.read_bytes())
        if security.authority:
            made[trust_store_path(security)] = _trust_store(security.authority.read_bytes())
    return made


def private(security: Security) -> Path:
    """The folder for what is secret."""
    if security.folder is None:
        raise ValueError("a private folder is needed for passwords and for key stores")
    return security.folder


def words(*rows: tuple[str, ...]) -> str:
    """A file of rows for a launcher, each word in Base64, so that a name or a password may hold anything."""
    return "".join(" ".join(base64.b64encode(word.encode()).decode() for word in row) + "\n" for row in rows)


def properties(pairs: Mapping[str, str]) -> str:
    """A file of Java properties."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in pairs.items())


def _escaped(text: str) -> str:
    """Anything that is not a plain letter or digit as its number, in units of UTF-16 as Java has them."""
    units = text.encode("utf-16-be")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(chr(pair[1]) if pair[0] == 0 and chr(pair[1]) in _PLAIN else f"\\u{pair.hex()}" for pair in pairs)


def _candidates(env: Mapping[str, str], installed: Path) -> Iterator[Path]:
    if home := env.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if program := shutil.which("java", path=env.get("PATH")):
        yield Path(program)
    yield from sorted(installed.glob("*/bin/java"))


def _major(program: Path) -> int:
    """17 of Java 17.0.1; 0 where it does not say, or is not there."""
    try:
        release = (program.resolve(strict=True).parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        return 0
    match = _VERSION.search(release)
    return int(match.group(1)) if match else 0


def _key_store(certificate: bytes, key: bytes) -> bytes:
    # Loaded where it is needed: most runs are not encrypted, and start faster without it.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        BestAvailableEncryption,
        load_pem_private_key,
        pkcs12,
    )

    own, *chain = x509.load_pem_x509_certificates(certificate)
    loaded = load_pem_private_key(key, password=None)
    if not isinstance(loaded, RSAPrivateKey | EllipticCurvePrivateKey):
        raise TypeError(f"a key store cannot hold a {type(loaded).__name__}")
    sealed = BestAvailableEncryption(STORE_PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(b"broker", loaded, own, chain or None, sealed)


def _trust_store(authority: bytes) -> bytes:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12  # noqa: PLC0415

    trusted = [
        pkcs12.PKCS12Certificate(each, f"authority-{number}".encode())
        for number, each in enumerate(x509.load_pem_x509_certificates(authority))
    ]
    return pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(STORE_PASSWORD.encode()))
