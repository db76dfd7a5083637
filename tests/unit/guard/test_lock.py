"""One process at a time changes a cluster, and the second one is told who the first is."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from breakglass.services.errors import AlreadyRunning, StorageError
from breakglass.services.guard.lock import ClusterLock, append_lines, file_name, operator, shorten

CLUSTER = "4L6g3nShT-eMCtK--X86sw"

HOLDER = """
import pathlib, sys
from breakglass.services.guard.lock import ClusterLock
lock = ClusterLock.acquire(sys.argv[1], pathlib.Path(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_is_named_until_it_is_killed_and_other_clusters_are_free(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", HOLDER, CLUSTER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        ClusterLock.acquire("another", tmp_path).release()
        with pytest.raises(AlreadyRunning) as told:
            ClusterLock.acquire(CLUSTER, tmp_path)
        holder.kill()
    message = str(told.value)
    assert f"{operator()} (process {holder.pid})" in message
    assert CLUSTER in message
    assert datetime.fromisoformat(message.split("since ")[1].split(": wait")[0]).tzinfo
    lock = ClusterLock.acquire(CLUSTER, tmp_path)
    lock.release()
    lock.release()
    ClusterLock.acquire(CLUSTER, tmp_path).release()


def test_a_holder_that_has_not_signed_yet_is_told_of_all_the_same(tmp_path: Path) -> None:
    lock = ClusterLock.acquire(CLUSTER, tmp_path)
    for signature in (b"", b"{", b"[]"):
        (tmp_path / f"{file_name(CLUSTER)}.lock").write_bytes(signature)
        with pytest.raises(AlreadyRunning):
            ClusterLock.acquire(CLUSTER, tmp_path)
    lock.release()


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = ClusterLock.acquire(CLUSTER, tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        close_fds=False,
    ):
        lock.release()
        ClusterLock.acquire(CLUSTER, tmp_path).release()


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / f"{file_name(CLUSTER)}.lock").symlink_to(target)
    with pytest.raises(StorageError):
        ClusterLock.acquire(CLUSTER, tmp_path)
    assert target.read_text() == "precious"


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
