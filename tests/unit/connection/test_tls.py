"""Kafka's ssl.* keys, and the key stores and trust stores of every kind that operators have."""

import logging
import os
import shlex
import socket
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from breakglass.services.connection.properties import Properties, Property, read_properties
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.security import ClientSecurity, confluent_config
from breakglass.services.connection.settings import ConnectionSettings, settings_from
from breakglass.services.connection.tls import (
    ClientCertificate,
    StoreProblem,
    TlsSettings,
    certificate_from_file,
    client_context,
    read_tls,
    trusted_from_file,
)
from breakglass.services.errors import BadConnectionSettings, ConnectFailed
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.connection.certificates import Identity
from tests.unit.connection.stores import Stores, pem_files, pem_inline, pkcs12, pkcs12_legacy
from tests.unit.connection.tls_server import GREETING, TlsServer, serving

DATA = Path(__file__).parent / "data"
PASSWORD = Secret("changeit")


def read(**values: str) -> TlsSettings:
    """The settings of keys given without ``ssl.`` and with _ for a dot."""
    entries = {
        f"ssl.{key.replace('_', '.')}": Property(Secret(value), f"f line {line}")
        for line, (key, value) in enumerate(values.items(), 1)
    }
    return read_tls(Properties(entries, "f"))


def test_names_are_checked_unless_switched_off_and_versions_are_chosen() -> None:
    assert read() == TlsSettings(None, None, check_hostname=True, versions=("TLSv1.2", "TLSv1.3"))
    assert read(endpoint_identification_algorithm="HTTPS").check_hostname
    assert not read(endpoint_identification_algorithm="").check_hostname
    assert read(enabled_protocols="TLSv1.3").versions == ("TLSv1.3",)
    assert read(enabled_protocols="TLSv1.2,TLSv1.1").versions == ("TLSv1.2",)
    assert read(enabled_protocols="").versions == ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"truststore_certificates": "x"}, "f line 1: ssl.truststore.certificates"),
        ({"keystore_key": "x"}, "ssl.keystore.type=PEM"),
        (
            {"truststore_type": "PEM", "truststore_certificates": "x", "truststore_location": "y"},
            "ssl.truststore.location",
        ),
        (
            {"truststore_type": "PEM", "truststore_location": "x", "truststore_password": "y"},
            "f line 3: ssl.truststore.password",
        ),
        (
            {"keystore_type": "PEM", "keystore_location": "x", "keystore_password": "y"},
            "ssl.keystore.password",
        ),
        ({"keystore_type": "PEM", "keystore_key": "x"}, "ssl.keystore.certificate"),
        ({"keystore_type": "PEM", "keystore_certificate_chain": "x"}, "ssl.keystore.key"),
        ({"truststore_password": "x"}, "ssl.truststore.location"),
        ({"keystore_password": "x"}, "ssl.keystore.location"),
        ({"truststore_type": "BKS"}, "JKS, PKCS12, PEM"),
        ({"truststore_location": "/nowhere.p12"}, "/nowhere.p12"),
        ({"enabled_protocols": "TLSv1.1"}, "TLSv1.2 and TLSv1.3"),
        ({"endpoint_identification_algorithm": "none"}, "ssl.endpoint"),
    ],
)
def test_what_cannot_work_is_refused_with_its_line(values: dict[str, str], said: str) -> None:
    with pytest.raises(BadConnectionSettings) as refused:
        read(**values)
    assert said in str(refused.value)


def reason(result: object) -> str:
    assert isinstance(result, StoreProblem)
    return result.reason


def test_stores_of_openssl_and_keytool_are_read_with_ciphers_old_and_new() -> None:
    for name in ("keytool-truststore.p12", "keytool-keystore.p12"):
        trusted = trusted_from_file(DATA / name, PASSWORD)
        assert isinstance(trusted, str)
        assert trusted.count("-----BEGIN CERTIFICATE-----") == 1
    for name in ("openssl-legacy.p12", "keytool-keystore.p12"):
        certificate = certificate_from_file(DATA / name, PASSWORD, None)
        assert isinstance(certificate, ClientCertificate)
        assert certificate.chain_pem.startswith("-----BEGIN CERTIFICATE-----")
        assert certificate.key_pem.reveal().startswith("-----BEGIN PRIVATE KEY-----")
        assert certificate.key_password is None


@pytest.mark.parametrize("kind", ["JKS", "JCEKS"])
def test_a_java_store_is_refused_with_the_command_to_convert_it(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "o'brien trust.jks"
    magic = {"JKS": b"\xfe\xed\xfe\xed", "JCEKS": b"\xce\xce\xce\xce"}[kind]
    store.write_bytes(magic + b"\0\0\0\2")
    refusal = reason(trusted_from_file(store, PASSWORD))
    assert reason(certificate_from_file(store, PASSWORD, None)) == refusal
    command = shlex.split(refusal.split("`")[1])
    converted = str(tmp_path / "o'brien trust.p12")
    assert command == [
        *("keytool", "-importkeystore", "-srckeystore", str(store), "-srcstoretype", kind),
        *("-destkeystore", converted, "-deststoretype", "PKCS12"),
    ]


def test_a_store_that_does_not_open_has_its_reason(tmp_path: Path) -> None:
    store, other = DATA / "keytool-truststore.p12", tmp_path / "x"
    other.write_bytes(b"\x00\x01")
    assert "JKS" in reason(trusted_from_file(DATA / "keytool-truststore.jks", PASSWORD))
    assert "with this" in reason(trusted_from_file(store, Secret("wrong")))
    assert "without" in reason(trusted_from_file(store, None))
    assert "PKCS12" in reason(trusted_from_file(other, PASSWORD))
    assert "No such file" in reason(trusted_from_file(tmp_path / "y", PASSWORD))
    assert "no private key" in reason(certificate_from_file(store, PASSWORD, None))


STORES = [pkcs12, pkcs12_legacy, pem_files, pem_inline]


def settings(folder: Path, server: TlsServer, text: str) -> ConnectionSettings:
    """The settings of a client properties file with *text* for that server."""
    file = folder / "client.properties"
    file.write_text(
        f"bootstrap.servers={server.host}:{server.port}\nsecurity.protocol=SSL\n"
        f"socket.connection.setup.timeout.ms={DEADLINE_SECONDS * 1000:.0f}\n{text}",
        encoding="latin-1",
    )
    return settings_from(read_properties(file))


def greeted(server: TlsServer, security: ClientSecurity, name: str) -> bytes:
    """What the server says to a client that connects and expects *name*."""
    plain = socket.create_connection((server.host, server.port), timeout=DEADLINE_SECONDS)
    with security.wrap(plain, name) as secured:
        return secured.recv(len(GREETING))


@pytest.fixture
def server(tmp_path: Path, root: Identity) -> Iterator[TlsServer]:
    """A server of b1.prod and 127.0.0.1 that wants to know who we are."""
    identity = root.signs("b1.prod", "b1.prod", "127.0.0.1")
    with serving(identity, tmp_path, trusting=root) as running:
        yield running


@pytest.mark.parametrize("stores", STORES, ids=lambda stores: stores.__name__)
def test_both_clients_and_the_broker_prove_who_they_are_with_the_whole_chain(
    tmp_path: Path, server: TlsServer, root: Identity, client: Identity, stores: Stores
) -> None:
    connection = settings(tmp_path, server, stores(tmp_path, root, client))
    assert greeted(server, ClientSecurity(connection), "b1.prod") == GREETING
    visit = server.visit()
    assert (visit.common_name, visit.version) == ("operator", "TLSv1.3")
    logger = logging.getLogger("test.confluent")
    producer = Producer(confluent_config(connection), logger=logger)
    assert server.visit().common_name == "operator"
    producer.poll(0)


def test_a_certificate_for_another_name_is_refused_unless_names_do_not_count(
    tmp_path: Path, server: TlsServer, root: Identity, client: Identity
) -> None:
    text = pkcs12(tmp_path, root, client)
    with pytest.raises(ConnectFailed, match=r"b2\.prod"):
        greeted(server, ClientSecurity(settings(tmp_path, server, text)), "b2.prod")
    text += "ssl.endpoint.identification.algorithm=\n"
    security = ClientSecurity(settings(tmp_path, server, text))
    assert greeted(server, security, "b2.prod") == GREETING


def test_an_authority_we_do_not_know_is_refused_with_the_setting_to_change(
    tmp_path: Path, server: TlsServer, client: Identity
) -> None:
    stranger = Identity.authority("Stranger")
    security = ClientSecurity(settings(tmp_path, server, pkcs12(tmp_path, stranger, client)))
    with pytest.raises(ConnectFailed, match=r"ssl\.truststore\.location"):
        greeted(server, security, "b1.prod")


def test_a_handshake_keeps_to_the_socket_s_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        plain = socket.create_connection(silent.getsockname())
        plain.settimeout(0.05)
        security = ClientSecurity(ConnectionSettings(bootstrap_servers=(), tls=TlsSettings()))
        with plain, pytest.raises(TimeoutError):
            security.wrap(plain, "b1")


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_key_is_never_in_a_file_in_the_clear(
    tmp_path: Path, client: Identity, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    seen: list[tuple[str, str, int]] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, path: str, password: str) -> None:
        seen.append((path, Path(path).read_text(), os.stat(path).st_mode & 0o077))
        load(context, path, password=password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    client_context(
        TlsSettings(certificate=ClientCertificate(client.chain_pem, Secret(client.key_pem())))
    )
    ((path, content, rights),) = seen
    assert path.startswith("/proc/self/fd/" if in_memory else str(tmp_path))
    assert "-----BEGIN ENCRYPTED PRIVATE KEY-----" in content
    assert "-----BEGIN PRIVATE KEY-----" not in content
    if not in_memory:
        assert rights == 0
    assert list(tmp_path.iterdir()) == []


def test_certificates_and_keys_that_do_not_open_or_do_not_fit_are_refused(client: Identity) -> None:
    chain, wrong = client.chain_pem, Secret("wrong")
    for certificate, said in (
        (ClientCertificate(chain, Secret(client.key_pem("pw")), wrong), "ssl.key.password"),
        (ClientCertificate(chain, Secret(Identity.authority().key_pem())), "certificate"),
        (ClientCertificate(chain, Secret("-----BEGIN PRIVATE KEY-----")), "PKCS8"),
    ):
        with pytest.raises(BadConnectionSettings, match=said):
            client_context(TlsSettings(certificate=certificate))
    pem = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"
    with pytest.raises(BadConnectionSettings, match=r"ssl\.truststore"):
        client_context(TlsSettings(trusted_pem=pem))
