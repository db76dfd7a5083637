"""Kafka's ssl.* keys: what they turn into, and which combinations Kafka refuses too."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.connection.properties import Properties, Property
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.tls import TlsSettings, read_tls
from breakglass.services.errors import BadConnectionSettings
from tests.unit.connection.certificates import Identity


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


def test_stores_are_read_into_memory(tmp_path: Path, root: Identity, client: Identity) -> None:
    (tmp_path / "trust.p12").write_bytes(root.trust_store("t"))
    (tmp_path / "key.p12").write_bytes(client.key_store("k"))
    settings = read(
        truststore_location=str(tmp_path / "trust.p12"),
        truststore_password="t",
        keystore_location=str(tmp_path / "key.p12"),
        keystore_password="k",
        keystore_type="PKCS12",
    )
    assert settings.trusted_pem == root.pem
    assert settings.certificate is not None
    assert settings.certificate.chain_pem == client.chain_pem


def test_pem_may_be_written_into_the_properties(root: Identity, client: Identity) -> None:
    settings = read(
        truststore_type="PEM",
        truststore_certificates=root.pem,
        keystore_type="pem",
        keystore_certificate_chain=client.chain_pem,
        keystore_key=client.key_pem("pw"),
        key_password="pw",
    )
    assert settings.trusted_pem == root.pem
    assert settings.certificate is not None
    assert settings.certificate.key_password == Secret("pw")


@pytest.mark.parametrize(
    ("named", "kept"),
    [("TLSv1.3", ("TLSv1.3",)), ("TLSv1.2,TLSv1.1", ("TLSv1.2",)), ("", ("TLSv1.2", "TLSv1.3"))],
)
def test_enabled_protocols_choose_tls_versions(named: str, kept: tuple[str, ...]) -> None:
    assert read(enabled_protocols=named).versions == kept


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"truststore_certificates": "x"}, "f line 1: ssl.truststore.certificates needs ssl.trus"),
        ({"keystore_key": "x"}, "ssl.keystore.key needs ssl.keystore.type=PEM"),
        (
            {"truststore_type": "PEM", "truststore_certificates": "x", "truststore_location": "y"},
            "ssl.truststore.location are both set",
        ),
        (
            {"truststore_type": "PEM", "truststore_location": "x", "truststore_password": "y"},
            "f line 3: ssl.truststore.password does not go with PEM",
        ),
        (
            {"keystore_type": "PEM", "keystore_location": "x", "keystore_password": "y"},
            "ssl.keystore.password does not go with PEM",
        ),
        ({"keystore_type": "PEM", "keystore_key": "x"}, "is set without ssl.keystore.certificate"),
        (
            {"keystore_type": "PEM", "keystore_certificate_chain": "x"},
            "is set without ssl.keystore.key",
        ),
        ({"truststore_password": "x"}, "is set without ssl.truststore.location"),
        ({"keystore_password": "x"}, "is set without ssl.keystore.location"),
        ({"truststore_type": "BKS"}, "choose one of JKS, PKCS12, PEM"),
        ({"truststore_location": "/nowhere.p12"}, "/nowhere.p12 cannot be read (No such file"),
        ({"enabled_protocols": "TLSv1.1"}, "names neither of TLSv1.2 and TLSv1.3"),
        ({"endpoint_identification_algorithm": "none"}, "or nothing behind the ="),
    ],
)
def test_what_cannot_work_is_refused_with_its_line(values: dict[str, str], said: str) -> None:
    with pytest.raises(BadConnectionSettings) as refused:
        read(**values)
    assert said in str(refused.value)
