"""Space for a journal, on a file system of its own that is really full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, read
from breakglass.services.recovery.execution.record import journal_bytes
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.recovery.execution.conftest import Bench
from tests.unit.recovery.execution.conftest import bench as bench

DISK_BYTES = 8 * 1024 * 1024
ON_A_SMALL_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = 'mount -t tmpfs -o size=$1 none "$2" && exec "$3" -c "$4" "$2"'
FULL_IN_THE_MIDDLE = """
import errno, json, os, sys
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

folder = Path(sys.argv[1])
told = {}
item = {TopicPartition("orders", 1): {"padding": "x" * 10_000}}
with Journal.open("cluster", folder / "with") as journal:
    journal.reserve(2 * 1024 * 1024)
    fill(folder)
    for _ in range(100):
        journal.request("elect", item)
    told["entries"] = len(read(journal.path).entries)
    told["torn"] = read(journal.path).torn
    told["names"] = sorted(path.name for path in journal.path.parent.iterdir())
    try:
        while True:
            journal.request("elect", item)
    except StorageError as error:
        told["at last"] = str(error)
    told["whole"] = not read(journal.path).torn
(folder / "filler").unlink()
try:
    with Journal.open("cluster", folder / "with") as journal:
        journal.reserve(64 * 1024 * 1024)
except StorageError as error:
    told["refused"] = str(error)
with Journal.open("cluster", folder / "without") as journal:
    fill(folder)
    try:
        for _ in range(100):
            journal.request("elect", item)
    except StorageError as error:
        told["unreserved"] = str(error)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What journals said of a disk of 8 MiB that somebody else filled."""
    folder = tmp_path_factory.mktemp("small")
    arguments = ["sh", str(DISK_BYTES), str(folder), sys.executable, FULL_IN_THE_MIDDLE]
    ended = subprocess.run(
        [*ON_A_SMALL_DISK, MOUNT, *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    if not ended.stdout and "Traceback" not in ended.stderr:
        pytest.skip(f"no file system can be mounted here: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def test_what_was_reserved_is_written_though_others_fill_the_disk(told: dict[str, object]) -> None:
    assert (told["entries"], told["torn"]) == (101, False)


def test_past_the_reserve_a_full_disk_is_an_error_that_leaves_whole_lines(
    told: dict[str, object],
) -> None:
    assert "cannot be written (No space left on device)" in str(told["at last"])
    assert told["whole"]


def test_without_a_reserve_it_would_have_failed(told: dict[str, object]) -> None:
    assert "No space left on device" in str(told["unreserved"])


def test_too_small_a_disk_is_refused_with_what_is_needed_and_where(
    told: dict[str, object],
) -> None:
    assert "needs 67,108,864 bytes in " in str(told["refused"])


def test_the_reserve_is_no_file_that_anybody_finds(told: dict[str, object]) -> None:
    names = told["names"]
    assert isinstance(names, list)
    assert [str(name).endswith(".jsonl") for name in names] == [True]


def test_a_reserve_leaves_the_journal_as_it_is(tmp_path: Path) -> None:
    with Journal.open("cluster", tmp_path) as journal:
        before = journal.path.read_bytes()
        journal.reserve(1024 * 1024)
        assert journal.path.read_bytes() == before
        assert not read(journal.path).torn
    assert list(journal.path.parent.iterdir()) == [journal.path]


def test_a_reserve_that_cannot_be_had_leaves_a_journal_that_can_be_written(tmp_path: Path) -> None:
    with Journal.open("cluster", tmp_path) as journal:
        with pytest.raises(StorageError):
            journal.reserve(2**60)
        journal.note("still open")
    assert len(read(journal.path).entries) == 2


@pytest.mark.parametrize("count", [1, 12, 150])
def test_a_run_takes_no_more_than_was_reserved_for_it(bench: Bench, count: int) -> None:
    targets = bench.offline(count=count)
    before = bench.journal.path.stat().st_size
    bench.run(targets)
    taken = bench.journal.path.stat().st_size - before
    assert taken < journal_bytes(targets, rescued=False, limits=bench.limits) < 30 * taken


def test_nothing_to_elect_needs_no_room() -> None:
    assert journal_bytes([], rescued=True) == 0
