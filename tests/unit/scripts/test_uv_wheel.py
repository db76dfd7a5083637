"""Fetching uv without pip, from an index on loopback."""

from __future__ import annotations

import hashlib
import platform
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts.find_uv import new_enough
from scripts.uv_wheel import NoUv, Pin, choose_wheel, fetch_wheel

PROGRAM = b"#!/bin/sh\necho uv 9.9.9\n"
HERE = f"uv-9.9.9-py3-none-manylinux_2_17_{platform.machine()}.manylinux2014_{platform.machine()}"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with a program in it, as uv's is, in the folder of an index."""
    path = tmp_path / "index" / "files" / f"{HERE}.whl"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("uv-9.9.9.data/scripts/uv", PROGRAM)
    page = tmp_path / "index" / "simple" / "uv" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="../../files/{HERE}.whl#sha256=0">{HERE}.whl</a>')
    return path


@pytest.fixture
def environ(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """What names the index."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    handler = partial(Quiet, directory=tmp_path / "index")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        address = f"http://127.0.0.1:{server.server_port}/simple"
        yield {"HOME": str(tmp_path), "PATH": "", "UV_DEFAULT_INDEX": address}
        server.shutdown()
        serving.join()


def test_the_pinned_program_is_fetched_and_one_with_another_hash_is_not(
    environ: dict[str, str], wheel: Path, tmp_path: Path
) -> None:
    target = tmp_path / "uv"
    with pytest.raises(NoUv):
        fetch_wheel(Pin("9.9.9", frozenset({"0" * 64})), target, environ)
    assert not target.exists()
    fetch_wheel(
        Pin("9.9.9", frozenset({hashlib.sha256(wheel.read_bytes()).hexdigest()})), target, environ
    )
    assert (target.read_bytes(), new_enough(str(target))) == (PROGRAM, True)


def test_an_index_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "UV_DEFAULT_INDEX": "http://me:secret@127.0.0.1:1/simple"}
    with pytest.raises(NoUv) as caught:
        fetch_wheel(Pin("9.9.9", frozenset()), tmp_path / "uv", environ)
    assert "secret" not in str(caught.value)


def test_only_a_wheel_for_this_machine_is_chosen() -> None:
    others = ["win_amd64", "manylinux_2_17_s390x", "musllinux_1_1_mips"]
    page = "".join(f'<a href="x">uv-9.9.9-py3-none-{tag}.whl</a>' for tag in others)
    with pytest.raises(NoUv):
        choose_wheel(page, "9.9.9")
    found = choose_wheel(page + f'\n<a href="y?a&amp;b#sha256=0" >\n {HERE}.whl</a>', "9.9.9")
    assert found == (f"{HERE}.whl", "y?a&b")
