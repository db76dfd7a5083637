"""Fetching uv without pip, from an index on loopback."""

from __future__ import annotations

import base64
import hashlib
import io
import platform
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts.find_uv import PINS, cache_folder, find_uv, new_enough
from scripts.uv_wheel import NoUv, Pin, choose_wheel, fetch_wheel, read_pin, request_for, runs_here

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
    with pytest.raises(NoUv, match="does not have the pinned hash"):
        fetch_wheel(Pin("9.9.9", frozenset({"0" * 64})), target, index.environ)
    assert not target.exists()


def test_a_version_the_index_lacks_is_said_with_the_way_out(index: Index, tmp_path: Path) -> None:
    with pytest.raises(NoUv, match=r"no uv 9\.9\.8 .* install uv yourself"):
        fetch_wheel(Pin("9.9.8", PIN.hashes), tmp_path / "uv", index.environ)


def test_an_index_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "UV_DEFAULT_INDEX": "http://me:secret@127.0.0.1:1/simple"}
    with pytest.raises(NoUv, match=r"from 127\.0\.0\.1 .*UV_DEFAULT_INDEX") as caught:
        fetch_wheel(PIN, tmp_path / "uv", environ)
    assert "secret" not in str(caught.value)


def test_a_login_in_the_address_is_sent_as_a_header(index: Index, tmp_path: Path) -> None:
    environ = {**index.environ, "UV_DEFAULT_INDEX": f"http://me:s%40t@{index.address}/simple"}
    fetch_wheel(PIN, tmp_path / "uv", environ)
    header = "Basic " + base64.b64encode(b"me:s@t").decode()
    assert index.asked == [("/simple/uv/", header), (f"/files/{HERE}.whl", header)]


def test_an_index_that_is_not_a_web_address_is_refused() -> None:
    with pytest.raises(NoUv, match="not an http address"):
        request_for("file:///etc/passwd")


def test_only_a_wheel_for_this_machine_is_chosen() -> None:
    others = ["win_amd64", "manylinux_2_17_s390x", "musllinux_1_1_mips"]
    page = "".join(f'<a href="x">uv-9.9.9-py3-none-{tag}.whl</a>' for tag in others)
    with pytest.raises(NoUv):
        choose_wheel(page, "9.9.9")
    found = choose_wheel(page + f'\n<a href="y?a&amp;b#sha256=0" >\n {HERE}.whl</a>', "9.9.9")
    assert found == (f"{HERE}.whl", "y?a&b")


def test_the_pins_of_this_project_name_a_version_and_its_hashes() -> None:
    pin = read_pin(PINS)
    assert pin.version[0].isdigit()
    assert len(pin.hashes) > 10


def test_pins_without_uv_are_said_to_be_broken(tmp_path: Path) -> None:
    (tmp_path / "uv.txt").write_text("# empty\n")
    with pytest.raises(NoUv, match=r"uv\.txt pins no uv"):
        read_pin(tmp_path / "uv.txt")


def test_a_uv_on_path_is_taken_unless_it_does_not_run(tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "uv"
    shim.parent.mkdir()
    shim.write_bytes(PROGRAM)
    shim.chmod(0o755)
    assert find_uv({"PATH": str(shim.parent)}) == shim
    shim.write_text("#!/bin/sh\nexit 127\n")
    assert not new_enough(str(shim))
    shim.write_text("#!/bin/sh\necho uv 0.4.30\n")
    assert not new_enough(str(shim))


def test_a_uv_fetched_before_is_taken_without_a_network(tmp_path: Path) -> None:
    environ = {"PATH": "", "HOME": str(tmp_path), "UV_DEFAULT_INDEX": "http://127.0.0.1:1"}
    cached = cache_folder(environ) / f"uv-{read_pin(PINS).version}" / "uv"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(PROGRAM)
    assert find_uv(environ) == cached


def test_wheels_of_another_libc_do_not_run_here() -> None:
    libc = "musllinux_1_1" if platform.libc_ver()[0] else "manylinux_2_17"
    assert not runs_here(f"uv-9.9.9-py3-none-{libc}_{platform.machine()}.whl")


def test_the_fetched_program_is_what_the_shell_would_run(index: Index, tmp_path: Path) -> None:
    target = tmp_path / "uv"
    fetch_wheel(PIN, target, index.environ)
    said = subprocess.run([target, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == "uv 9.9.9\n"
