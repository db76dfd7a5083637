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


@pytest.mark.parametrize(
    ("chain", "key", "said"),
    [
        ("", "key", "no certificate"),
        ("chain", "", "holds 0"),
        ("chain", "key key", "holds 2"),
        ("chain", "locked", "set ssl.key.password"),
    ],
)
def test_pem_without_a_part_is_refused(client: Identity, chain: str, key: str, said: str) -> None:
    texts = {"chain": client.chain_pem, "key": client.key_pem(), "locked": client.key_pem("pw")}
    keys = Secret("".join(texts[word] for word in key.split()))
    assert said in reason(certificate_from_pem(Secret(texts.get(chain, "")), keys, None))


def test_a_traditional_key_keeps_its_encryption_headers() -> None:
    key = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
        "DEK-Info: AES-256-CBC,00FF\n\nQUJD\n-----END RSA PRIVATE KEY-----\n"
    )
    chain = Secret("-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----")
    certificate = certificate_from_pem(chain, Secret(key), Secret("pw"))
    assert isinstance(certificate, ClientCertificate)
    assert certificate.key_pem.reveal() == key
