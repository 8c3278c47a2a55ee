"""The brokers in Java as they are described; nothing is started here."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from brokerlab.brokers import java
from brokerlab.brokers.base import Found, Missing, Security
from brokerlab.brokers.cache import RECEIPT, place_of
from brokerlab.brokers.registry import DRIVERS
from brokerlab.brokers.source import Archive, Maven
from brokerlab.errors import UserError
from brokerlab.lab.certificates import Authority, keep
from brokerlab.study.values import BrokerChoice, Transport

pytestmark = pytest.mark.unit
HOST, PORT = "127.0.0.1", 18830
PASSWORD = "p4ss: #wörd="
INSTALLABLE = sorted(name for name, each in DRIVERS.items() if isinstance(each.source, Maven | Archive))


def a_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/false\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A cache in which every Java broker has the files that its driver looks for, and a Java."""
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java", "17.0.1")))
    jars = ("artemis-boot.jar", "moquette-broker-0.17.jar", "apollo-broker-1.7.1.jar")
    files = ("classes/HiveMq.class", "classes/ActiveMq.class", "classes/Mica.class", "classes/Artemis.class")
    for name in INSTALLABLE:
        for file in (*files, *(f"{at}/{jar}" for jar in jars for at in ("lib", "dist/lib")), RECEIPT):
            path = place_of(name) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")


@pytest.fixture
def secured(tmp_path):
    """As much as there is: TLS with client certificates, and a user who may not do everything."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    authority = Authority()
    certificate, key = authority.broker(HOST)
    return Security(
        transport=Transport.TLS,
        certificate=keep(private, "broker.pem", certificate),
        key=keep(private, "broker.key", key),
        authority=keep(private, "authority.pem", authority.pem),
        users={"alice": PASSWORD},
        folder=private,
        readable=("a/#",),
        writable=("a/+/b",),
    )


def described(name, folder, security, **choice):
    driver = DRIVERS[name]
    if security.transport not in driver.abilities.transports:
        security = replace(security, transport=Transport.TCP)
    if not driver.abilities.has_client_certificates:
        security = replace(security, authority=None)
    if not driver.abilities.has_permissions:
        security = replace(security, readable=(), writable=())
    return driver.node(BrokerChoice(name, name, **choice), folder=folder, host=HOST, port=PORT, security=security)


def test_java_is_the_first_that_is_new_enough_and_told_without_starting_it(tmp_path):
    old, new = a_java(tmp_path / "old", "11.0.2"), a_java(tmp_path / "jvm" / "new", "21.0.1")
    env = {"JAVA_HOME": str(old), "PATH": ""}

    assert java.find_java(env, installed=tmp_path / "jvm") == new / "bin" / "java"
    assert java.find_java(env, installed=tmp_path / "nothing") is None
    assert java.find_java({"JAVA_HOME": str(a_java(tmp_path / "8", "1.8.0_402")), "PATH": ""}, installed=old) is None


@pytest.mark.parametrize("name", INSTALLABLE)
def test_broker_that_is_not_installed_is_missing_with_the_command_that_gets_it(installed, name):
    assert isinstance(DRIVERS[name].find(), Found)
    (place_of(name) / RECEIPT).unlink()

    assert DRIVERS[name].find() == Missing("it is not installed", hint=f"brokerlab brokers install {name}")


@pytest.mark.parametrize("name", INSTALLABLE)
def test_no_secret_stands_in_files_arguments_or_environment(installed, secured, name, tmp_path):
    node = described(name, tmp_path / "0", secured)

    shown = "\n".join([*node.argv, *node.files.values(), *node.env, *node.env.values()])
    assert PASSWORD not in shown
    assert base64.b64encode(PASSWORD.encode()).decode() not in shown
    assert "p4ss" not in shown
    assert node.secrets
    assert {path.parent for path in node.secrets} == {secured.folder}


@pytest.mark.parametrize("name", INSTALLABLE)
def test_preset_changes_what_is_started(installed, name, tmp_path):
    nodes = [
        described(name, tmp_path / "0", Security(folder=tmp_path), preset=preset)
        for preset in DRIVERS[name].abilities.presets
    ]

    assert len({(node.argv, str(node.files)) for node in nodes}) == len(nodes)
    assert all(f"-Djava.io.tmpdir={tmp_path / '0'}" in node.argv for node in nodes)


def test_heap_is_one_size_where_it_is_asked_for(installed, tmp_path):
    node = described("hivemq", tmp_path / "0", Security(), options={"heap_mib": 300})

    assert {"-Xms300m", "-Xmx300m"} < set(node.argv)
    for wrong in (0, "1 GiB", True):
        with pytest.raises(UserError, match="heap_mib is"):
            described("hivemq", tmp_path / "0", Security(), options={"heap_mib": wrong})


def test_key_store_holds_key_and_certificate_and_trust_store_the_authority(secured):
    made = java.stores(secured)

    key, own, _ = pkcs12.load_key_and_certificates(made[java.key_store_path(secured)], java.STORE_PASSWORD.encode())
    trusted = pkcs12.load_pkcs12(made[java.trust_store_path(secured)], java.STORE_PASSWORD.encode())
    assert key.public_key() == own.public_key()
    assert len(trusted.additional_certs) == 1
    own.verify_directly_issued_by(trusted.additional_certs[0].certificate)


def test_properties_and_words_hold_any_text():
    assert java.properties({"a b": "p=ö#"}) == "a\\u0020b=p\\u003d\\u00f6\\u0023\n"
    assert java.words(("a b", "")) == "YSBi \n"


def test_artemis_permits_what_a_wider_filter_permits(installed, secured, tmp_path):
    """Of the settings that match it takes the closest alone, so each one says all."""
    text = described("artemis", tmp_path / "0", secured).files["broker.xml"]

    settings = {part.split('"')[0]: part for part in text.split('<security-setting match="')[1:]}
    can = {match: ("consume" in part, "send" in part) for match, part in settings.items()}
    assert can == {"#": (False, False), "a.#": (True, False), "a.*.b": (True, True)}
