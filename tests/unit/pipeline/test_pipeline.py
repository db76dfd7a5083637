"""A backup wherever it ends or fails, its gaps, its pace, and the indexes that are rebuilt."""

import errno
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from breakglass.services.errors import ConsentMissing, StorageError, UsageError
from breakglass.services.guard import act as guard
from breakglass.services.guard.act import ConsentOutdated, Front, GuardedRun
from breakglass.services.guard.journal import JournalView, list_journals
from breakglass.services.guard.steps import REBUILD_INDEXES
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
from breakglass.services.model import EpochHistory, EpochRange
from breakglass.services.pipeline import continuous
from breakglass.services.pipeline.acts.files import RebuildIndexes
from breakglass.services.pipeline.backup_context import BackupRun, Meter
from breakglass.services.pipeline.part_writer import (
    Budget,
    Pace,
    PartTarget,
    PartTask,
)
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.pipeline.topic_copy import epoch_starts, holes, merged_gaps, new_segments
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.assembler import TopicAssembler
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.group_history import read_offsets
from breakglass.services.topic_backup.layout import records_name, segment_prefix
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.part import Addition, Missing, NewSegment, SegmentPart
from breakglass.services.topic_backup.prune import PruneLimits, prune
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_index import read_partition_index
from breakglass.services.topic_backup.summary import EpochStart, Gap, GapReason
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.clock import Clock
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.pipeline.chunks import chunk_of
from tests.unit.topic_backup import shapes
from tests.unit.topic_backup.backups import RECORDS, as_the_originals, back_up, offsets
from tests.unit.topic_backup.crash_points import CrashPoints
from tests.unit.topic_backup.shapes import plain

ORDERS = TopicIdentity("orders", "cluster", UUID(int=1), 2)
SEGMENT_BYTES = 400
COMMITS = (4, 9, 20, 23)
"""Where each run ends: a first segment, one appended to it, several, another one appended."""
TRUTH = [
    Record(offset, TimestampType.CREATE, offset, b"k", b"v%d" % offset) for offset in range(33)
]


def written(folder: Path, partition: int, start: int, end: int) -> list[SegmentPart]:
    """Records *start* to *end* as a task writes them."""
    target = PartTarget(LocalFolder(folder), secrets.token_hex(8), SEGMENT_BYTES)
    with PartTask(target, attempt=0) as task:
        return [*task.take(chunk_of(TRUTH[start:end], partition)), *task.finish()]


def run(path: Path, end: int) -> None:
    """Back up partition 0 to *end*, and an empty partition 1; with the offset of a group."""
    with TopicAssembler(path, ORDERS, max_segment_bytes=SEGMENT_BYTES) as assembler:
        start = assembler.partition(0).next_offset or 0
        assembler.partition(1)
        parts = written(path, 0, start, end)
        assembler.add([Addition(0, [NewSegment(part) for part in parts], Missing(), end)])
        assembler.commit()
        group_history.update(assembler.folder, {0: {"group": end}}, at_ms=10**13 + end)


def committed(folder: LocalFolder) -> int:
    manifest = read_manifest(folder)
    return (manifest.partitions[0].next_offset or 0) if manifest else 0


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashPoints:
    """What can be left of `COMMITS`, one after the other."""
    points = CrashPoints(tmp_path / "orders", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        for end in COMMITS:
            run(points.folder, end)
    return points


def test_wherever_a_run_ends_its_commits_are_whole_and_the_next_one_loses_and_doubles_nothing(
    points: CrashPoints, tmp_path: Path
) -> None:
    assert len(points.states) > 60
    seen = set()
    for before, path in points.materialized(tmp_path / "left"):
        folder = LocalFolder(path)
        seen.add(committed(folder))
        if read_manifest(folder):
            assert verify_files(folder).whole, before
            assert offsets(folder) == list(range(committed(folder))), before
        run(path, len(TRUTH))
        manifest = read_manifest(folder)
        assert manifest is not None
        assert list(PartitionReader(folder, 0, manifest.partition(0)).records()) == TRUTH, before
        assert verify_files(folder).whole, before
        for part in manifest.partitions:
            named = [(segment.prefix, segment.start_offset) for segment in part.segments]
            assert list(read_partition_index(folder, part.partition)) == named, before
        assert read_offsets(folder, 0) == {"group": len(TRUTH)}, before
        assert [name for name in folder.names() if name.startswith(".")] == [], before
        segments = sum(len(part.segments) for part in manifest.partitions)
        assert len(list(path.glob("segment_*"))) == 2 * segments, before
    assert seen == {0, *COMMITS}


def test_a_prune_that_ends_anywhere_leaves_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had not removed yet is no part of the backup, and no later run takes it up."""
    points = CrashPoints(tmp_path / "orders", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        run(points.folder, 30)
        points.states.clear()
        assert len(prune(LocalFolder(points.folder), PruneLimits(keep_bytes=500))) == 2
    for before, path in points.materialized(tmp_path / "left"):
        folder = LocalFolder(path)
        left = offsets(folder)
        assert left == list(range(left[0], 30)), before
        run(path, len(TRUTH))
        again = offsets(folder)
        assert again == list(range(again[0], len(TRUTH))), before
        assert again[0] <= left[0], before
        assert verify_files(folder).whole, before


MOST_OPERATIONS = 500
ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)


@dataclass(slots=True)
class Faults:
    """Counts operations, and lets one of them fail."""

    failing: int | None = None
    """Its number; None: none does."""
    error: int = errno.ENOSPC
    count: int = 0
    failed: str = ""
    """What failed."""

    def inject(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("open", "pwrite", "fsync", "ftruncate"):
            patch.setattr(os, name, self._counted(getattr(os, name)))
        for name in ("replace", "unlink"):
            patch.setattr(Path, name, self._counted(getattr(Path, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.failing:
                self.failed = f"{call.__name__} {given}"
                raise OSError(self.error, os.strerror(self.error))
            return call(*given, **named)

        return counted


def attempt(folder: Path, faults: Faults) -> str:
    """Runs until one fails; returns what it said."""
    with pytest.MonkeyPatch.context() as patch:
        faults.inject(patch)
        for end in COMMITS:
            try:
                run(folder, end)
            except (StorageError, OSError) as error:  # As it is where a task of Spark writes.
                return str(error)
    return ""


@pytest.mark.slow
# The process of a task ends when an operation of it fails, with the files that it has open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_whatever_fails_is_said_and_the_last_commit_is_whole(tmp_path: Path) -> None:
    whole = Faults()
    assert attempt(tmp_path / "whole" / "orders", whole) == ""
    assert 60 < whole.count < MOST_OPERATIONS
    seen = set()
    for number in range(1, whole.count + 1):
        path = tmp_path / str(number) / "orders"
        error = ERRORS[number % len(ERRORS)]
        faults = Faults(number, error)
        said = attempt(path, faults)
        assert os.strerror(error) in said, faults.failed
        folder = LocalFolder(path)
        if path.is_dir() and read_manifest(folder):
            assert verify_files(folder).whole, faults.failed
            assert offsets(folder) == list(range(committed(folder))), faults.failed
            seen.add(committed(folder))
        run(path, len(TRUTH))
        assert offsets(folder) == list(range(len(TRUTH))), faults.failed
        assert verify_files(folder).whole, faults.failed
        assert [name for name in folder.names() if name.startswith(".")] == [], faults.failed
    assert seen == set(COMMITS)


CONTROL, ABORTED = GapReason.CONTROL, GapReason.ABORTED


def indexed_part(folder: Path, *offsets: int) -> SegmentPart:
    """A part of records with these *offsets*, whose index is in *folder*."""
    name = f"index-{offsets[0]}"
    entries = np.array([[offset, 1, 1] for offset in offsets], ">i8")
    (folder / name).write_bytes(b"\x01" + entries.tobytes())
    return SegmentPart(0, "r", name, len(offsets), offsets[0], offsets[-1], 0, 0, 0, 1, "")


def test_holes_before_in_between_and_behind(tmp_path: Path) -> None:
    parts = [indexed_part(tmp_path, 2, 3, 7), indexed_part(tmp_path, 9, 10)]
    assert list(holes(LocalFolder(tmp_path), [], 4, 9)) == [(4, 9)]
    assert list(holes(LocalFolder(tmp_path), parts, 0, 13)) == [(0, 2), (4, 7), (8, 9), (11, 13)]


def test_a_gap_belongs_to_the_segment_before_whose_last_record_it_begins(tmp_path: Path) -> None:
    parts = [indexed_part(tmp_path, 2, 3, 7), indexed_part(tmp_path, 9, 10)]
    gaps = [Gap(0, 2, CONTROL), Gap(4, 7, ABORTED), Gap(8, 9, CONTROL), Gap(11, 13, CONTROL)]
    segments, behind = new_segments(parts, gaps, EpochHistory((), 0))
    assert [segment.before.counts for segment in segments] == [
        {"control": 2, "aborted": 3},
        {"control": 1},
    ]
    assert behind.counts == {"control": 2}
    touching = [Gap(0, 2, CONTROL), Gap(2, 3, CONTROL), Gap(3, 4, ABORTED), Gap(6, 7, ABORTED)]
    assert list(merged_gaps(touching)) == [Gap(0, 3, CONTROL), *touching[2:]]


def test_epochs_begin_with_the_first_record(tmp_path: Path) -> None:
    history = EpochHistory((EpochRange(0, 0, 5), EpochRange(4, 5, 9), EpochRange(6, 9, 20)), 0)
    found = epoch_starts(indexed_part(tmp_path, 3, 8), history)
    assert found == (EpochStart(0, 3), EpochStart(4, 5))


class PacedTime(Clock):
    """Goes on while somebody waits, who looks up every second."""

    def wait(self, seconds: float) -> None:
        assert seconds <= 1.0
        self.advance(seconds)


def test_it_takes_as_long_as_the_rate_says() -> None:
    time = PacedTime()
    pace = Pace(1000.0, clock=time, wait=time.wait)
    for _ in range(10):
        pace.spend(500)
    assert time.now == 1_005.0
    Pace(None, clock=time, wait=time.wait).spend(10**12)
    assert time.now == 1_005.0, "without a rate it never waits"


def test_jobs_make_up_for_the_time_between_them_and_never_pass_their_rate_together() -> None:
    time = PacedTime()
    budget = Budget(1000.0, time)
    written = 0
    for idle in (0.0, 0.5, 1.0):
        time.now += idle
        pace = Pace(1000.0, budget.credit(), time, time.wait)
        for _ in range(6):
            pace.spend(500)
        budget.spend(3000)
        written += 3000
        assert written <= 1000.0 * (time.now - 1_000.0)
    assert time.now == 1_009.0


def test_a_run_that_is_overdue_is_reported_while_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "OVERDUE_SECONDS", 0.0)
    monkeypatch.setattr(continuous, "SHAPE_SECONDS", 0.01)
    reported = threading.Event()
    reports: list[Behind | CaughtUpAgain] = []

    def report(change: Behind | CaughtUpAgain) -> None:
        reports.append(change)
        reported.set()

    def hang(_: Meter) -> BackupRun:
        assert reported.wait(DEADLINE_SECONDS)
        raise UsageError("the broker answers at last")

    with pytest.raises(UsageError, match="at last"):
        continuous.follow(
            hang,
            WantedTopics(names=("orders",)),
            lambda _: None,
            lambda: False,
            every=0.0,
            lag=LagAlarm(report),
        )
    assert [str(change).partition(": ")[2] for change in reports] == ["a run is still not finished"]


PHRASE = "rebuild 1 index of orders"


def test_indexes_are_rebuilt_once_agreed_to_and_the_journal_has_it(tmp_path: Path) -> None:
    topic = back_up(tmp_path / "store", shapes.run(0, 3))
    act = GuardedRun(RebuildIndexes(str(topic)), Front(state_folder=tmp_path / "state"))
    frozen = act.freeze()
    assert [asked.phrase for asked in frozen.asked] == [PHRASE]
    assert frozen.targets == ("orders-0",)
    with pytest.raises(ConsentMissing):
        act.carry_out(None, frozen, ["rebuild it"])
    (rebuilt,) = act.carry_out(None, frozen, [PHRASE]).value
    assert rebuilt.entries == 3
    (view,) = list_journals(frozen.cluster_id, tmp_path / "state")
    assert isinstance(view, JournalView)
    assert [(step.name, [str(name) for name in step.items]) for step in view.steps] == [
        (REBUILD_INDEXES, ["orders-0"])
    ]


def test_another_segment_since_the_consent_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "FRESH_SECONDS", 0.0)
    topic = as_the_originals(back_up(tmp_path / "store", shapes.run(0, 3)))
    act = GuardedRun(RebuildIndexes(str(topic)), Front(state_folder=tmp_path / "state"))
    frozen = act.freeze()
    before = {path: path.read_bytes() for path in topic.iterdir() if path.is_file()}
    other = topic / records_name(segment_prefix(0, 3))
    other.write_bytes((topic / RECORDS).read_bytes())
    with pytest.raises(ConsentOutdated, match="orders-0: it was"):
        act.carry_out(None, frozen, [PHRASE])
    assert all(path.read_bytes() == bytes_ for path, bytes_ in before.items())


ROOT = Path(__file__).parents[3]
RECORD = encode(plain(7))


def test_a_task_brings_no_pandas(tmp_path: Path) -> None:
    """Which would cost each of Spark's Python workers more than a second."""
    script = f"""
import sys
from importlib import import_module
from pathlib import Path
import numpy as np
from breakglass.services.pipeline.daemon import WANTED
for name in WANTED:
    import_module(name)
from breakglass.services.pipeline.verify import StretchComparison
from breakglass.services.pipeline.part_writer import PartTarget, PartTask, RecordChunk
from breakglass.services.topic_backup.folder import LocalFolder
record = bytes.fromhex({RECORD.hex()!r})
longs = (np.array([7]), np.array([0]), np.array([0, len(record)]))
chunk = RecordChunk(3, *longs, memoryview(record))
with PartTask(PartTarget(LocalFolder(Path({str(tmp_path)!r})), "run", 1000), 0) as task:
    (part,) = [*task.take(chunk), *task.finish()]
comparison = StretchComparison(3, ())
comparison.take(chunk)
print(part.count, comparison.found.counts, "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 {'extra': 1} False\n"
