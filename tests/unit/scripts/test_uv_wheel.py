"""Fetching uv without pip, from an index on loopback."""

from __future__ import annotations

import base64
import hashlib
import io
import platform
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts.find_uv import new_enough
from scripts.uv_wheel import NoUv, Pin, choose_wheel, fetch_wheel

PROGRAM = b"#!/bin/sh\necho uv 9.9.9\n"
HERE = f"uv-9.9.9-py3-none-manylinux_2_17_{platform.machine()}.manylinux2014_{platform.machine()}"


def wheel() -> bytes:
    """Return a wheel with a program in it, as uv's is."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("uv-9.9.9.data/scripts/uv", PROGRAM)
    return packed.getvalue()


WHEEL = wheel()
PIN = Pin("9.9.9", frozenset({hashlib.sha256(WHEEL).hexdigest()}))


@dataclass
class Index:
    """A package index on loopback."""

    address: str
    environ: dict[str, str]
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Authorization header of every request."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """An index that holds the wheel, and remembers what it was asked."""
    pages = {
        "/simple/uv/": f'<a href="../../files/{HERE}.whl#sha256=0">{HERE}.whl</a>'.encode(),
        f"/files/{HERE}.whl": WHEEL,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append((self.path, self.headers["Authorization"]))
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *said: object) -> None:
            """Keep the tests' output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        place = f"127.0.0.1:{server.server_port}"
        address = f"http://{place}/simple"
        known = Index(place, {"HOME": str(tmp_path), "PATH": "", "UV_DEFAULT_INDEX": address})
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield known
        server.shutdown()
        serving.join()


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is reached without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_the_pinned_program_is_fetched_and_runs(index: Index, tmp_path: Path) -> None:
    target = tmp_path / "uv"
    fetch_wheel(PIN, target, index.environ)
    assert target.read_bytes() == PROGRAM
    assert new_enough(str(target))


def test_a_file_with_another_hash_is_refused(index: Index, tmp_path: Path) -> None:
    target = tmp_path / "uv"
    with pytest.raises(NoUv):
        fetch_wheel(Pin("9.9.9", frozenset({"0" * 64})), target, index.environ)
    assert not target.exists()


def test_an_index_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "UV_DEFAULT_INDEX": "http://me:secret@127.0.0.1:1/simple"}
    with pytest.raises(NoUv) as caught:
        fetch_wheel(PIN, tmp_path / "uv", environ)
    assert "secret" not in str(caught.value)


def test_a_login_in_the_address_is_sent_as_a_header(index: Index, tmp_path: Path) -> None:
    environ = {**index.environ, "UV_DEFAULT_INDEX": f"http://me:s%40t@{index.address}/simple"}
    fetch_wheel(PIN, tmp_path / "uv", environ)
    header = "Basic " + base64.b64encode(b"me:s@t").decode()
    assert index.asked == [("/simple/uv/", header), (f"/files/{HERE}.whl", header)]


def test_only_a_wheel_for_this_machine_is_chosen() -> None:
    others = ["win_amd64", "manylinux_2_17_s390x", "musllinux_1_1_mips"]
    page = "".join(f'<a href="x">uv-9.9.9-py3-none-{tag}.whl</a>' for tag in others)
    with pytest.raises(NoUv):
        choose_wheel(page, "9.9.9")
    found = choose_wheel(page + f'\n<a href="y?a&amp;b#sha256=0" >\n {HERE}.whl</a>', "9.9.9")
    assert found == (f"{HERE}.whl", "y?a&b")
