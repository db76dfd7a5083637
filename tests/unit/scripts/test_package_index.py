"""What uv is told of proxies, mirrors and certificates that only pip knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import package_index
from scripts.package_index import PUBLIC_INDEX, index_url, uv_settings


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
