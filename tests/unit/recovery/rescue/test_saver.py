"""Rescue from a broker's log folder: whole partitions, damage named, and nothing written there."""

import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.source import Reading
from breakglass.services.errors import MalformedInput, StorageError
from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    PartitionState,
    TopicPartition,
    Unknown,
)
from breakglass.services.record_batches import RecordBatch
from breakglass.services.recovery.rescue.broker_folder import (
    RescuedPartitionFolder,
    read_broker_folder,
    rescues_in,
    running_broker,
)
from breakglass.services.recovery.rescue.past_leader import written_epochs
from breakglass.services.recovery.rescue.saver import LogRescue
from breakglass.services.recovery.rescue.spans import RESERVE_BYTES
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.summary import Gap, GapReason
from tests.kit.program import Ended, breakglass
from tests.unit.damage import Damage, cut, emptied, flipped, removed, replaced, swapped
from tests.unit.divergence.test_log_source import tens, write

CLUSTER, TOPIC_ID = "abcdefghijklmnopqrstuv", UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
TOPIC_ID_TEXT = "AQIDBAUGBwgJCgsMDQ4PEA"
HOLD = (
    "import fcntl, sys\n"
    "file = open(sys.argv[1], 'r+')\n"
    "fcntl.lockf(file, fcntl.LOCK_EX)\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)
"""Locks a file as Java's FileChannel does, until its stdin ends."""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder of `log.dirs` of b7: orders-0 with two segments, orders-1, and what is none."""
    root = tmp_path / "logs"
    write(root / "orders-0", 0, tens(0, 100))
    write(root / "orders-0", 100, tens(100, 200))
    write(root / "orders-1", 50, tens(50, 70))
    write(root / "my-clicks-12", 0, tens(0, 10))
    write(root / "__cluster_metadata-0", 0, tens(0, 10))
    write(root / f"orders-2.{'0' * 32}-delete", 0, tens(0, 10))
    for name in ("orders-0", "orders-1"):
        (root / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID_TEXT}\n")
    (root / "meta.properties").write_text(f"version=1\nnode.id=7\ncluster.id={CLUSTER}\n")
    (root / ".lock").touch()
    return root


def rescue(folder: Path, to: Path, *more: object) -> Ended:
    return breakglass("rescue", "--source", f"log:{folder}", "--store", to, *more)


def saved(ended: Ended) -> dict[str, Any]:
    """The partitions of the document."""
    return {f"{one['topic']}-{one['partition']}": one for one in ended.document["partitions"]}


def offsets(path: str) -> list[int]:
    ended = breakglass("backup", "cat", path)
    return [json.loads(line)["offset"] for line in ended.out.splitlines()]


def manifest(path: str) -> TopicManifest:
    found = read_manifest(LocalFolder(Path(path).parent))
    assert found is not None
    return found


def everything(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Every file and folder with its times of change and its bytes."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        told = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (told.st_mtime_ns, told.st_ctime_ns, told.st_mode, content)
    return found


def test_whole_partitions_are_saved_and_the_folder_is_as_it_was(logs: Path, tmp_path: Path) -> None:
    before = everything(logs)
    ended = rescue(logs, tmp_path / "saved", "--json")
    assert ended.code == 0, ended.err
    for name in ("__cluster_metadata-0", f"orders-2.{'0' * 32}-delete"):
        assert name in ended.err, "it is passed over and named"
    assert everything(logs) == before
    told = saved(ended)
    assert set(told) == {"orders-0", "orders-1", "my-clicks-12"}
    assert offsets(told["orders-0"]["path"]) == list(range(200))
    assert offsets(told["orders-1"]["path"]) == list(range(50, 70))
    assert (told["orders-1"]["start"], told["orders-1"]["end"]) == (50, 70)
    root = tmp_path / "saved" / f"cluster-{CLUSTER}"
    assert Path(told["orders-0"]["path"]).relative_to(root).parts[1:] == ("b7", "orders", "0")
    identity = manifest(told["orders-0"]["path"]).identity
    assert (identity.cluster_id, identity.topic_id) == (CLUSTER, TOPIC_ID)
    assert identity.origin["rescued from broker"] == "7"


def test_a_folder_that_does_not_say_whose_it_is_is_saved_all_the_same(
    logs: Path, tmp_path: Path
) -> None:
    (logs / "meta.properties").unlink()
    ended = rescue(logs, tmp_path / "saved", "--topics", "orders", "--json")
    assert (ended.code, ended.document["cluster_id"]) == (0, None)
    path = Path(saved(ended)["orders-0"]["path"])
    assert path.relative_to(tmp_path / "saved").parts[0] == "cluster-unknown"
    assert path.parts[-3:] == ("log", "orders", "0")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (".lock", 0),
        ("meta.properties", 0),
        ("cleaner-offset-checkpoint", 0),
        ("orders-0/partition.metadata", 0),
        ("orders-0/leader-epoch-checkpoint", 0),
        ("orders-0/00000000000000000000.index", 0),
        ("orders-0/00000000000000000000.log", 1),
        ("orders-0/00000000000000000100.log", 1),
    ],
)
def test_a_fifo_in_place_of_a_file_keeps_nobody_waiting(
    logs: Path, tmp_path: Path, name: str, code: int
) -> None:
    (logs / name).unlink(missing_ok=True)
    os.mkfifo(logs / name)
    ended = rescue(logs, tmp_path / "saved", "--topics", "orders", "--json")
    assert ended.code == code, ended.err
    assert offsets(saved(ended)["orders-1"]["path"]) == list(range(50, 70))
    assert isinstance(written_epochs(logs / "orders-0", 200), Unknown)


@pytest.mark.parametrize(
    ("written", "log_end", "known"),
    [
        ("0\n0\n", 0, True),
        ("0\n0\n", 10, False),
        ("0\n1\n", 0, False),
        ("1\n0\n", 0, False),
        ("", 0, True),
        ("", 10, False),
        ("0\n", 0, False),
    ],
    ids=[
        *("never written", "records without epoch", "cut off", "another version"),
        *("just made", "emptied", "torn"),
    ],
)
def test_r31_an_empty_checkpoint_is_whole_beside_a_log_that_never_had_a_record(
    tmp_path: Path, written: str, log_end: int, known: bool
) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(written)
    found = written_epochs(tmp_path, log_end)
    assert found == EpochHistory((), 0) if known else isinstance(found, Unknown)


def spoil(path: Path, at: int, content: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(content)] = content
    path.write_bytes(data)


def damaged_batch(logs: Path) -> None:
    spoil(logs / "orders-0" / f"{0:020}.log", 3 * len(tens(0, 10)[0]) + 80, b"\xff\x00\xff")


def segment_gone(logs: Path) -> None:
    write(logs / "orders-0", 300, tens(300, 310))


def torn_end(logs: Path, cut: int = 40) -> None:
    last = logs / "orders-0" / f"{100:020}.log"
    last.write_bytes(last.read_bytes()[:-cut])


def damaged_length(logs: Path) -> None:
    last = logs / "orders-0" / f"{100:020}.log"
    spoil(last, 9 * len(tens(0, 10)[0]) + 8, struct.pack(">i", 2**30))


@pytest.mark.parametrize(
    ("damage", "missing", "kept"),
    [
        pytest.param(damaged_batch, [(30, 40)], [*range(30), *range(40, 200)], id="a batch"),
        pytest.param(segment_gone, [(200, 300)], [*range(200), *range(300, 310)], id="a segment"),
        pytest.param(partial(torn_end, cut=1), None, range(190), id="the last byte"),
        pytest.param(partial(torn_end, cut=40), None, range(190), id="records of the last batch"),
        pytest.param(partial(torn_end, cut=100), None, range(190), id="a head of the last batch"),
        pytest.param(damaged_length, None, range(190), id="a length at the end"),
    ],
)
def test_what_is_damaged_is_missing_and_named_and_all_else_is_there(
    logs: Path,
    tmp_path: Path,
    damage: Callable[[Path], None],
    missing: list[tuple[int, int]] | None,
    kept: Sequence[int],
) -> None:
    damage(logs)
    ended = rescue(logs, tmp_path / "saved", "--topics", "orders", "--json")
    told = saved(ended)["orders-0"]
    assert (ended.code, told["rescued"], told["records"]) == (1, False, len(kept))
    assert offsets(told["path"]) == list(kept)
    assert told["missing"] or told["reason"]
    if missing:
        assert [(one["start"], one["end"]) for one in told["missing"]] == missing
        segments = manifest(told["path"]).partitions[0].segments
        lost = [gap for segment in segments for gap in segment.gaps]
        assert lost == [Gap(*span, GapReason.LOST) for span in missing]


def test_offsets_that_the_cleaner_removed_are_no_damage(logs: Path, tmp_path: Path) -> None:
    write(logs / "orders-0", 300, tens(300, 310))
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 200\n")
    assert rescue(logs, tmp_path / "saved").code == 0


class TestABrokerThatRuns:
    @pytest.fixture
    def broker(self, logs: Path) -> Iterator[int]:
        """A process that holds the lock of the folder."""
        command = [sys.executable, "-c", HOLD, str(logs / ".lock")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process.pid
            process.kill()

    def test_its_folder_is_refused_unless_told_otherwise(
        self, logs: Path, tmp_path: Path, broker: int
    ) -> None:
        for folder in (logs, logs / "orders-0"):
            ended = rescue(folder, tmp_path / "saved")
            assert ended.code == 3
            assert f"process {broker} " in ended.err
        assert not (tmp_path / "saved").exists()
        assert rescue(logs, tmp_path / "saved", "--while-running").code == 0

    def test_asking_takes_no_lock(self, logs: Path) -> None:
        assert running_broker(logs) is None
        descriptor = os.open(logs / ".lock", os.O_RDWR)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(descriptor)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--plan", "plan.json", "--source", "log:/var"),
        ("--source", "/var/lib/kafka"),
        ("--source", "log:"),
        ("--source", "log:/nowhere"),
        ("--plan", "plan.json", "--topics", "orders"),
    ],
)
def test_what_is_to_be_rescued_is_named_in_one_way(arguments: tuple[str, ...]) -> None:
    assert breakglass("rescue", *arguments).code == 2


def test_a_folder_of_no_partitions_is_refused(tmp_path: Path) -> None:
    assert rescue(tmp_path, tmp_path / "saved").code == 2


def test_a_full_disk_is_refused_before_anything_is_written(logs: Path, tmp_path: Path) -> None:
    source = read_broker_folder(logs)
    rescue = LogRescue(source, tmp_path / "saved", free=lambda _: RESERVE_BYTES)
    with pytest.raises(StorageError):
        list(rescue.run(source.replicas))
    assert not (tmp_path / "saved").exists()


def write_epochs(log: Path, starts: Mapping[int, int]) -> None:
    """The checkpoint of *starts*, by epoch, and a log of 200 records by these epochs."""
    lines = [f"{epoch} {start}" for epoch, start in starts.items()]
    (log / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    for old in (*log.glob("*.log"), *log.glob("*.index")):
        old.unlink()
    bounds = [*starts.values(), 200]
    batches = [
        one
        for epoch, start, end in zip(starts, bounds, bounds[1:], strict=False)
        for one in tens(start, min(end, 200), epoch=epoch)
    ]
    write(log, 0, batches)


@pytest.mark.parametrize("starts", [{0: 0}, {0: 0, 4: 150}, {0: 0, 2: 120, 4: 150}])
def test_r51_a_checkpoint_that_is_not_of_its_batches_proves_nothing(
    logs: Path, starts: Mapping[int, int]
) -> None:
    log = logs / "orders-0"
    write_epochs(log, starts)
    checkpoint = (log / "leader-epoch-checkpoint").read_bytes()
    write_epochs(log, {0: 0, 2: 100, 4: 150})
    assert isinstance(written_epochs(log, 200), EpochHistory)
    (log / "leader-epoch-checkpoint").write_bytes(checkpoint)
    assert isinstance(written_epochs(log, 200), Unknown)


def test_an_empty_segment_whose_index_names_batches_is_damage(logs: Path) -> None:
    log = logs / "orders-0"
    (log / f"{100:020}.log").write_bytes(b"")
    found = open_log("orders-0", log)
    read = list(found.whole_batches(0, Reading()))
    (damage,) = [one for one in read if isinstance(one, UnreadableRange)]
    assert (damage.start, damage.end) == (100, found.extent.end)
    assert found.extent.end > 100


def test_r51_an_epoch_that_a_power_cut_has_taken_is_no_epoch_of_the_log(logs: Path) -> None:
    log = logs / "orders-0"
    write_epochs(log, {0: 0, 2: 150, 5: 180, 8: 201})
    found = written_epochs(log, 160)
    assert isinstance(found, EpochHistory)
    assert found.ranges == (EpochRange(0, 0, 150), EpochRange(2, 150, 160))
    assert read_broker_folder(log).replicas[0].reached == 201
    (log / f"{230:020}.snapshot").touch()
    assert read_broker_folder(log).replicas[0].reached == 230
    (logs / "replication-offset-checkpoint").write_text("0\n1\norders 0 260\n")
    assert read_broker_folder(log).replicas[0].reached == 260


@pytest.mark.parametrize(
    "content",
    [None, "", "0\n2\n0 0\n", "1\n1\n0 0\n", "0\n1\nx y\n", "0\n2\n3 0\n2 100\n", "0\n0\n"],
)
def test_a_checkpoint_of_epochs_that_is_not_whole_proves_nothing(
    logs: Path, content: str | None
) -> None:
    if content is not None:
        (logs / "orders-0" / "leader-epoch-checkpoint").write_text(content)
    assert isinstance(written_epochs(logs / "orders-0", 200), Unknown)


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        pytest.param(155, range(155, 200), id="a batch that begins before is cut"),
        pytest.param(200, (), id="of what the leader holds whole nothing is saved"),
    ],
)
def test_a_log_is_saved_from_an_offset_on(
    logs: Path, tmp_path: Path, start: int, kept: Sequence[int]
) -> None:
    source = read_broker_folder(logs / "orders-0")
    starts = {source.replicas[0].partition: start}
    ((copied,),) = LogRescue(source, tmp_path / "saved", starts=starts).run(source.replicas)
    assert (copied.start, copied.end, copied.records) == (start, 200, len(kept))
    assert copied.whole
    assert (offsets(str(copied.path)) if copied.path else []) == list(kept)


@pytest.mark.parametrize(
    "harm",
    [
        flipped,
        lambda path, _: path.write_bytes(bytes(path.stat().st_size)),
        lambda path, _: path.write_bytes(path.read_bytes()[:2000]),
        removed,
    ],
    ids=["a bit is flipped", "zeros", "cut", "removed"],
)
def test_r48_a_rescue_whose_records_are_not_as_they_were_committed_holds_none(
    logs: Path, tmp_path: Path, harm: Damage
) -> None:
    source = read_broker_folder(logs / "orders-0")
    ((copied,),) = LogRescue(source, tmp_path / "saved").run(source.replicas)
    assert copied.path is not None
    rescued = RescuedPartitionFolder(copied.path.parent, source.replicas[0].partition)
    assert len(list(rescued.records(150, 180))) == 30
    harm(max(copied.path.parent.rglob("*_records")), tmp_path)
    with pytest.raises(StorageError):
        list(rescued.records(150, 180))


def test_a_manifest_that_cannot_be_read_hides_no_other_rescue(logs: Path, tmp_path: Path) -> None:
    source = read_broker_folder(logs)
    for name in ("one", "two"):
        list(LogRescue(source, tmp_path / name).run(source.replicas))
    orders = TopicPartition("orders", 0)
    states = {orders: PartitionState(orders, TOPIC_ID, 1, 4, (1, 2), (1,), (), ())}
    roots = [tmp_path / "one", tmp_path / "two"]
    assert len(rescues_in(roots, states)[orders]) == 2
    damaged = next(path for path in roots[0].rglob(MANIFEST) if path.parent.name == "orders")
    damaged.write_text("{")
    unread: list[Path] = []
    assert len(rescues_in(roots, states, lambda path, _: unread.append(path))[orders]) == 1
    assert unread == [damaged.parent]


@pytest.mark.parametrize("first", [2**63 - 5, 2**62, 2**31 + 150, -1])
def test_a_batch_whose_offsets_its_segment_cannot_have_is_damage(logs: Path, first: int) -> None:
    (segment,) = (logs / "orders-1").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[:8] = first.to_bytes(8, signed=True)
    segment.write_bytes(data)
    found = open_log("orders-1", segment.parent)
    assert 50 <= found.extent.end <= 70
    batches = [one for one in found.whole_batches(0, Reading()) if isinstance(one, RecordBatch)]
    assert {record.offset for batch in batches for record in batch.records} <= set(range(60, 70))


def test_a_segment_whose_name_is_no_offset_is_refused(logs: Path) -> None:
    (segment,) = (logs / "orders-1").glob("*.log")
    segment.rename(segment.with_name(f"{'9' * 20}.log"))
    with pytest.raises(MalformedInput):
        open_log("orders-1", segment.parent)


def one_byte_changed(path: Path, _: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-6] + bytes([content[-6] ^ 1]) + content[-5:])


EVERY = (removed, emptied, replaced, one_byte_changed, cut, swapped)


@pytest.mark.parametrize("damage", EVERY, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "second", "last"])
def test_a_damaged_log_is_never_rescued_as_a_whole(
    tmp_path: Path, place: int, damage: Damage
) -> None:
    folder = tmp_path / "logs" / "orders-0"
    paths = [write(folder, base, tens(base, base + 50)) for base in (0, 50, 100)]
    damage(paths[place], paths[(place + 1) % 3])
    ended = rescue(tmp_path / "logs", tmp_path / "saved", "--json")
    assert ended.code == 1, ended.out
