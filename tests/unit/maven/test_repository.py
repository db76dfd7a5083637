"""Whose certificates a download believes: those that are named, else those of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.maven import repository
from breakglass.services.maven.repository import CERTIFICATES, trust_the_machine


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only store of certificates that this machine has."""
    file = tmp_path / "ca-certificates.crt"
    file.touch()
    monkeypatch.setattr(repository, "SYSTEM_CERTIFICATES", (tmp_path / "absent.crt", file))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr("ssl.get_default_verify_paths", NoPaths)
    return file


class NoPaths:
    """What Python says where OpenSSL has no file of certificates."""

    cafile = None


def test_the_store_of_the_machine_is_believed_where_nothing_is_named(store: Path) -> None:
    environ: dict[str, str] = {}
    trust_the_machine(environ)
    assert environ == {CERTIFICATES: str(store)}


def test_a_store_that_openssl_is_given_goes_before_that_of_the_machine(
    store: Path, tmp_path: Path
) -> None:
    named = tmp_path / "named.crt"
    named.touch()
    environ = {"SSL_CERT_FILE": str(named)}
    trust_the_machine(environ)
    assert environ[CERTIFICATES] == str(named)


@pytest.mark.parametrize("name", [CERTIFICATES, "CURL_CA_BUNDLE"])
def test_what_requests_is_given_stays(store: Path, name: str) -> None:
    environ = {name: "/some/authorities.pem"}
    trust_the_machine(environ)
    assert environ == {name: "/some/authorities.pem"}


def test_a_machine_without_a_store_leaves_requests_its_own(store: Path, tmp_path: Path) -> None:
    store.unlink()
    environ = {"SSL_CERT_FILE": str(tmp_path / "absent.crt")}
    trust_the_machine(environ)
    assert CERTIFICATES not in environ
