"""Space for a journal, on a file system of its own that is really full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, read
from breakglass.services.recovery.execution.record import journal_bytes
from tests.unit.recovery.execution.conftest import Bench
from tests.unit.recovery.execution.conftest import bench as bench

DISK_BYTES = 8 * 1024 * 1024
ON_A_SMALL_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = 'mount -t tmpfs -o size=$1 none "$2" && exec "$3" -c "$4" "$2"'
FULL_IN_THE_MIDDLE = """
import errno, os, sys
from pathlib import Path
from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, read
from breakglass.services.model import TopicPartition

def fill(folder):
    descriptor = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    for size in (1 << 20, 4096, 1):
        try:
            while True:
                os.write(descriptor, bytes(size))
        except OSError as error:
            assert error.errno == errno.ENOSPC
    os.close(descriptor)

def refused(act):
    try:
        act()
    except StorageError as error:
        return str(error)
    raise AssertionError("nothing was refused")

def write(journal, count):
    for _ in range(count):
        journal.request("elect", {TopicPartition("orders", 1): {"padding": "x" * 10_000}})

folder = Path(sys.argv[1])
with Journal.open("cluster", folder / "with") as journal:
    journal.reserve(2 * 1024 * 1024)
    fill(folder)
    write(journal, 100)
    view = read(journal.path)
    assert (len(view.entries), view.torn) == (101, False)
    assert [path.suffix for path in journal.path.parent.iterdir()] == [".jsonl"]
    print("reserved")
    assert "No space left on device" in refused(lambda: write(journal, 100_000))
    assert not read(journal.path).torn
(folder / "filler").unlink()
with Journal.open("cluster", folder / "with") as journal:
    assert "67,108,864" in refused(lambda: journal.reserve(64 * 1024 * 1024))
    print("refused")
with Journal.open("cluster", folder / "without") as journal:
    fill(folder)
    refused(lambda: write(journal, 100))
    print("unreserved")
"""


def test_what_was_reserved_is_written_though_others_fill_the_disk(tmp_path: Path) -> None:
    arguments = ["sh", str(DISK_BYTES), str(tmp_path), sys.executable, FULL_IN_THE_MIDDLE]
    ended = subprocess.run([*ON_A_SMALL_DISK, MOUNT, *arguments], capture_output=True, text=True)
    if not ended.stdout and "Traceback" not in ended.stderr:
        pytest.skip(f"no file system can be mounted here: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["reserved", "refused", "unreserved"]


def test_a_reserve_leaves_the_journal_as_it_is_whether_it_is_had_or_not(tmp_path: Path) -> None:
    with Journal.open("cluster", tmp_path) as journal:
        before = journal.path.read_bytes()
        journal.reserve(1024 * 1024)
        with pytest.raises(StorageError):
            journal.reserve(2**60)
        assert journal.path.read_bytes() == before
        journal.note("still open")
    assert len(read(journal.path).entries) == 2


@pytest.mark.parametrize("count", [1, 150])
def test_a_run_takes_no_more_than_was_reserved_for_it(bench: Bench, count: int) -> None:
    targets = bench.offline(count=count)
    before = bench.journal.path.stat().st_size
    bench.run(targets)
    taken = bench.journal.path.stat().st_size - before
    assert taken < journal_bytes(targets, rescued=False, limits=bench.limits) < 30 * taken
