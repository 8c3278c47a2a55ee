"""A certificate authority for one run, thrown away with it, and the certificates that it signs.

Nobody else ever trusts it, and its own key never leaves the memory of this process.
"""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_BEFORE = datetime.timedelta(days=1)  # clocks may differ
_AFTER = datetime.timedelta(days=30)  # longer than any run


class Authority:
    """Signs certificates for brokers and clients."""

    def __init__(self, name: str = "brokerlab, for one run") -> None:
        self._name = _named(name)
        self._key = generate_private_key(SECP256R1())
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = self._builder(self._name, self._key).add_extension(usage, critical=True)
        is_authority = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = builder.add_extension(is_authority, critical=True).sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """What others need to trust it; not a secret."""
        return self._certificate.public_bytes(Encoding.PEM)

    def broker(self, *hosts: str) -> tuple[bytes, bytes]:
        """(certificate, key) of a broker at these addresses or names, as PEM."""
        return self._issue(_named(hosts[0]), ExtendedKeyUsageOID.SERVER_AUTH, *map(_name_of, dict.fromkeys(hosts)))

    def client(self, name: str) -> tuple[bytes, bytes]:
        """(certificate, key) of a client, as PEM."""
        return self._issue(_named(name), ExtendedKeyUsageOID.CLIENT_AUTH, x509.DNSName(name))

    def _issue(self, subject: x509.Name, use: x509.ObjectIdentifier, *names: x509.GeneralName) -> tuple[bytes, bytes]:
        key = generate_private_key(SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(Encoding.PEM), _pem(key)

    def _builder(self, subject: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _AFTER)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )


def keep(folder: Path, name: str, *parts: bytes) -> Path:
    """A file that its owner alone can read."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_bytes(b"".join(parts))
    return path


def _name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
