"""Fetching uv without pip: only the pinned program for this machine, and no password is shown."""

from __future__ import annotations

import hashlib
import platform
import zipfile
from pathlib import Path

import pytest

from scripts import uv_wheel
from scripts.find_uv import new_enough
from scripts.uv_wheel import NoUv, Pin, choose_wheel, fetch_wheel

HERE = f"uv-9.9.9-py3-none-manylinux_2_17_{platform.machine()}.manylinux2014_{platform.machine()}"
OTHERS = ("win_amd64", "manylinux_2_17_s390x", "musllinux_1_1_mips")


def test_an_index_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "UV_DEFAULT_INDEX": "http://me:secret@127.0.0.1:1/simple"}
    with pytest.raises(NoUv) as caught:
        fetch_wheel(Pin("9.9.9", frozenset()), tmp_path / "uv", environ)
    assert "secret" not in str(caught.value)


def test_the_pinned_program_is_fetched_and_one_with_another_hash_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, target = tmp_path / "wheel", tmp_path / "uv"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("uv-9.9.9.data/scripts/uv", b"#!/bin/sh\necho uv 9.9.9\n")
    wheel = file.read_bytes()
    page = f'<a href="../../files/{HERE}.whl#sha256=0">{HERE}.whl</a>'.encode()
    index = {"https://x/simple/uv/": page, f"https://x/files/{HERE}.whl": wheel}
    monkeypatch.setattr(uv_wheel, "download", lambda address, _: index[address])
    environ = {"UV_DEFAULT_INDEX": "https://x/simple"}
    with pytest.raises(NoUv):
        fetch_wheel(Pin("9.9.9", frozenset({"0" * 64})), target, environ)
    assert not target.exists()
    fetch_wheel(Pin("9.9.9", frozenset({hashlib.sha256(wheel).hexdigest()})), target, environ)
    assert new_enough(str(target))


def test_only_a_wheel_for_this_machine_is_chosen() -> None:
    page = "".join(f'<a href="x">uv-9.9.9-py3-none-{tag}.whl</a>' for tag in OTHERS)
    with pytest.raises(NoUv):
        choose_wheel(page, "9.9.9")
    found = choose_wheel(page + f'\n<a href="y?a&amp;b#sha256=0" >\n {HERE}.whl</a>', "9.9.9")
    assert found == (f"{HERE}.whl", "y?a&b")
