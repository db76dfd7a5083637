"""Whose certificates a download believes: those that are named, else those of the machine."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from breakglass.services.maven import repository
from breakglass.services.maven.repository import CERTIFICATES, trust_the_machine


def test_certificates_that_are_named_are_believed_else_those_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines, named = tmp_path / "ca-certificates.crt", tmp_path / "named.crt"
    machines.touch()
    named.touch()
    monkeypatch.setattr(repository, "SYSTEM_CERTIFICATES", (tmp_path / "absent.crt", machines))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr("ssl.get_default_verify_paths", lambda: SimpleNamespace(cafile=None))
    of_openssl, of_curl = {"SSL_CERT_FILE": str(named)}, {"CURL_CA_BUNDLE": "/some/authorities.pem"}
    assert believed({}) == str(machines)
    assert believed(of_openssl) == str(named)
    assert believed({CERTIFICATES: "/own.pem"}) == "/own.pem"
    assert believed(of_curl) is None, "requests reads it itself"
    machines.unlink()
    assert believed({"SSL_CERT_FILE": str(tmp_path / "absent.crt")}) is None


def believed(environ: dict[str, str]) -> str | None:
    trust_the_machine(environ)
    return environ.get(CERTIFICATES)
