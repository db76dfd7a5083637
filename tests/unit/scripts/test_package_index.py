"""What uv learns of proxies and mirrors that only pip knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import package_index
from scripts.package_index import PUBLIC_INDEX, index_url, uv_settings


def test_a_pip_conf_of_the_user_is_read_for_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".config" / "pip" / "pip.conf"
    monkeypatch.setattr(package_index, "pip_configuration_files", lambda _: [file])
    monkeypatch.setattr(package_index, "SYSTEM_CERTIFICATES", tmp_path / "none")
    environ = {"HOME": str(tmp_path)}
    assert (uv_settings(environ), index_url(environ)) == ({}, PUBLIC_INDEX)
    file.parent.mkdir(parents=True)
    file.write_text(
        "[global]\nindex-url = https://mirror.test/simple\nproxy = http://proxy.test:3128\n"
        "find-links =\n    /srv/a\n    /srv/b\n[install]\ntrusted-host = mirror.test\n"
    )
    assert uv_settings(environ) == {
        "UV_DEFAULT_INDEX": "https://mirror.test/simple",
        "UV_FIND_LINKS": "/srv/a,/srv/b",
        "UV_INSECURE_HOST": "mirror.test",
        "HTTPS_PROXY": "http://proxy.test:3128",
    }
