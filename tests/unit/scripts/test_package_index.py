"""What uv is told of proxies, mirrors and certificates that only pip knows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts import package_index
from scripts.package_index import PUBLIC_INDEX, index_url, pip_settings, uv_settings


@pytest.fixture(autouse=True)
def no_machine_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the configuration of the machine that runs the tests out of them."""
    machine_wide = package_index.pip_configuration_files

    def of_the_user(environ: dict[str, str]) -> list[Path]:
        return [file for file in machine_wide(environ) if not file.is_relative_to("/etc")]

    monkeypatch.setattr(package_index, "pip_configuration_files", of_the_user)
    monkeypatch.setattr(package_index, "SYSTEM_CERTIFICATES", tmp_path / "none")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a pip.conf."""
    folder = tmp_path / "home"
    (folder / ".config" / "pip").mkdir(parents=True)
    (folder / ".config" / "pip" / "pip.conf").write_text(
        "[global]\nindex-url = https://mirror.test/simple\nproxy = http://proxy.test:3128\n"
        "find-links =\n    /srv/a\n    /srv/b\n[install]\ntrusted-host = mirror.test\n"
    )
    return folder


def test_without_any_settings_the_public_index_is_used(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert uv_settings(environ) == {}
    assert index_url(environ) == PUBLIC_INDEX


def test_a_pip_conf_is_read_for_uv(home: Path) -> None:
    assert uv_settings({"HOME": str(home)}) == {
        "UV_DEFAULT_INDEX": "https://mirror.test/simple",
        "UV_FIND_LINKS": "/srv/a,/srv/b",
        "UV_INSECURE_HOST": "mirror.test",
        "HTTPS_PROXY": "http://proxy.test:3128",
    }


def test_pip_variables_win_over_its_file(home: Path) -> None:
    environ = {"HOME": str(home), "PIP_INDEX_URL": "https://other.test/simple"}
    assert index_url(environ) == "https://other.test/simple"


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_uv_variables_win_over_everything(home: Path, name: str) -> None:
    environ = {"HOME": str(home), "PIP_INDEX_URL": "https://b.test", name: "https://a.test"}
    assert index_url(environ) == "https://a.test"
    assert "UV_DEFAULT_INDEX" not in uv_settings(environ)


def test_a_second_index_is_searched_as_pip_does(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PIP_EXTRA_INDEX_URL": "https://b.test https://c.test"}
    assert uv_settings(environ) == {
        "UV_INDEX": "https://b.test https://c.test",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_pip_told_to_read_no_file_reads_none(home: Path) -> None:
    assert pip_settings({"HOME": str(home), "PIP_CONFIG_FILE": os.devnull}) == {}


def test_the_certificates_of_the_system_are_trusted_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.crt"
    bundle.touch()
    monkeypatch.setattr(package_index, "SYSTEM_CERTIFICATES", bundle)
    told = uv_settings({"HOME": str(tmp_path), "UV_SYSTEM_CERTS": "false"})
    assert told == {"UV_NATIVE_TLS": "true"}
