"""Kafka's ssl.* keys, and the key stores and trust stores of every kind that operators have."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from breakglass.services.connection.properties import Properties, Property
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.tls import (
    ClientCertificate,
    StoreProblem,
    TlsSettings,
    certificate_from_file,
    certificate_from_pem,
    read_tls,
    trusted_from_file,
)
from breakglass.services.errors import BadConnectionSettings
from tests.unit.connection.certificates import Identity

DATA = Path(__file__).parent / "data"
PASSWORD = Secret("changeit")


def read(**values: str) -> TlsSettings:
    """Return the settings of keys given without ``ssl.`` and with _ for a dot."""
    entries = {
        f"ssl.{key.replace('_', '.')}": Property(Secret(value), f"f line {line}")
        for line, (key, value) in enumerate(values.items(), 1)
    }
    return read_tls(Properties(entries, "f"))


def test_without_any_key_the_system_is_trusted_and_names_are_checked() -> None:
    assert read() == TlsSettings(None, None, check_hostname=True, versions=("TLSv1.2", "TLSv1.3"))


@pytest.mark.parametrize(("value", "checked"), [("https", True), ("HTTPS", True), ("", False)])
def test_an_empty_algorithm_accepts_any_host_name(value: str, checked: bool) -> None:
    assert read(endpoint_identification_algorithm=value).check_hostname is checked


@pytest.mark.parametrize(
    ("named", "kept"),
    [("TLSv1.3", ("TLSv1.3",)), ("TLSv1.2,TLSv1.1", ("TLSv1.2",)), ("", ("TLSv1.2", "TLSv1.3"))],
)
def test_enabled_protocols_choose_tls_versions(named: str, kept: tuple[str, ...]) -> None:
    assert read(enabled_protocols=named).versions == kept


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
    """Return why a store was refused."""
    assert isinstance(result, StoreProblem)
    return result.reason


@pytest.mark.parametrize("name", ["keytool-truststore.p12", "keytool-keystore.p12"])
def test_a_store_of_keytool_is_read(name: str) -> None:
    trusted = trusted_from_file(DATA / name, PASSWORD)
    assert isinstance(trusted, str)
    assert trusted.count("-----BEGIN CERTIFICATE-----") == 1


@pytest.mark.parametrize("name", ["openssl-legacy.p12", "keytool-keystore.p12"])
def test_a_key_store_of_openssl_or_keytool_is_read_with_ciphers_old_and_new(name: str) -> None:
    certificate = certificate_from_file(DATA / name, PASSWORD, None)
    assert isinstance(certificate, ClientCertificate)
    assert certificate.chain_pem.startswith("-----BEGIN CERTIFICATE-----")
    assert certificate.key_pem.reveal().startswith("-----BEGIN PRIVATE KEY-----")
    assert certificate.key_password is None


@pytest.mark.parametrize("kind", ["JKS", "JCEKS"])
def test_a_java_store_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, kind: str
) -> None:
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


def test_a_store_that_keytool_wrote_as_jks_is_known_as_such() -> None:
    assert "JKS" in reason(trusted_from_file(DATA / "keytool-truststore.jks", PASSWORD))


@pytest.mark.parametrize(("password", "said"), [(Secret("wrong"), "with this"), (None, "without")])
def test_a_password_that_does_not_open_is_told_from_one_that_is_missing(
    password: Secret | None, said: str
) -> None:
    assert said in reason(trusted_from_file(DATA / "keytool-truststore.p12", password))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "x"
    store.write_bytes(b"\x00\x01")
    assert "PKCS12" in reason(trusted_from_file(store, PASSWORD))
    assert "No such file" in reason(trusted_from_file(tmp_path / "y", PASSWORD))


def test_a_trust_store_has_no_key_to_give() -> None:
    store = DATA / "keytool-truststore.p12"
    assert "no private key" in reason(certificate_from_file(store, PASSWORD, None))


@pytest.mark.parametrize(
    ("chain", "key", "said"),
    [
        ("", "key", "no certificate"),
        ("chain", "", "holds 0"),
        ("chain", "key key", "holds 2"),
        ("chain", "locked", "set ssl.key.password"),
    ],
)
def test_pem_that_lacks_something_is_refused(
    client: Identity, chain: str, key: str, said: str
) -> None:
    texts = {"chain": client.chain_pem, "key": client.key_pem(), "locked": client.key_pem("pw")}
    keys = Secret("".join(texts[word] for word in key.split()))
    assert said in reason(certificate_from_pem(Secret(texts.get(chain, "")), keys, None))


def test_a_traditional_key_keeps_its_encryption_headers() -> None:
    key = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
        "DEK-Info: AES-256-CBC,00FF\n\nQUJD\n-----END RSA PRIVATE KEY-----\n"
    )
    certificate = certificate_from_pem(
        Secret("-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----"),
        Secret(key),
        Secret("pw"),
    )
    assert isinstance(certificate, ClientCertificate)
    assert certificate.key_pem.reveal() == key
