"""A file that many sessions append to has whole lines, also while one of them makes it shorter."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.guard.shared_lines import append_lines, shorten


def test_lines_are_appended_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "below" / "lines"
    append_lines(path, b"one\n", "lines")
    append_lines(path, b"two\n", "lines")
    assert path.read_bytes() == b"one\ntwo\n"
    assert path.stat().st_mode & 0o077 == 0


def test_a_line_that_a_crash_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntw")
    append_lines(path, b"three\n", "lines")
    assert path.read_bytes().splitlines() == [b"one", b"tw", b"three"]


def test_what_is_appended_while_the_file_is_made_shorter_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"old\n")
    begun = threading.Event()

    def add() -> None:
        begun.set()
        append_lines(path, b"new\n", "lines")

    adding = threading.Thread(target=add)

    def kept(_: bytes) -> bytes:
        adding.start()
        begun.wait()
        return b"short\n"

    shorten(path, kept, "lines")
    adding.join()
    assert path.read_bytes() == b"short\nnew\n"
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("else")])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "lines"
    make(path)
    with pytest.raises(StorageError, match="lines"):
        append_lines(path, b"one\n", "lines")
