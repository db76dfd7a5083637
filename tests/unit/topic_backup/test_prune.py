"""Pruning backups, and what Kafka Backup's files say without a manifest."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from breakglass.console.backup import app
from breakglass.services.errors import DamagedBackup, Refused, UsageError
from breakglass.services.model import Unknown
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.topic_backup.catalog import read_status
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import FoundPartition, found_files
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.notes import note_verified
from breakglass.services.topic_backup.prune import PruneLimits, prunable, prune
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.segment_index import read_partition_index
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.topic_writer import TopicWriter
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.waiting import wait_until
from tests.unit.topic_backup.backups import (
    RECORDS,
    as_the_originals,
    back_up,
    cut_to,
    offsets,
    overwrite,
)
from tests.unit.topic_backup.golden import GOLDEN, WHOLE, GoldenPartition, partitions
from tests.unit.topic_backup.shapes import run

SEGMENT_BYTES = 87
"""Of two records."""


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """A topic of ten records of a second each, two in a segment."""
    with TopicWriter(tmp_path, TopicIdentity("t"), max_segment_bytes=50) as writer:
        for number in range(10):
            stamp = 1000 * number
            record = Record(number, TimestampType.CREATE, stamp, b"k", b"v" * 10)
            writer.partition(0).append(record)
        writer.commit()
    return LocalFolder(tmp_path / "t")


@pytest.mark.parametrize(
    ("limits", "gone"),
    [
        (PruneLimits(older_than_ms=5000), [0, 2]),
        (PruneLimits(keep_bytes=3 * SEGMENT_BYTES), [0, 2]),
        (PruneLimits(keep_bytes=0), [0, 2, 4, 6]),
        (PruneLimits(), []),
    ],
    ids=["all of whose records are old", "beyond the newest bytes", "all but the last", "none"],
)
def test_segments_go_by_a_limit(folder: LocalFolder, limits: PruneLimits, gone: list[int]) -> None:
    assert verify_files(folder).bytes == 5 * SEGMENT_BYTES
    assert [one.first_offset for one in prunable(folder, limits, at_ms=9000)] == gone


def test_what_stays_is_whole_and_goes_on(folder: LocalFolder) -> None:
    gone = prune(folder, PruneLimits(keep_bytes=0))
    assert len(gone) == 4
    assert offsets(folder) == [8, 9]
    assert verify_files(folder).whole
    assert [entry.start_offset for entry in read_partition_index(folder, 0)] == [8]
    with TopicWriter(folder.path.parent, TopicIdentity("t")) as writer:
        assert writer.partition(0).next_offset == 10
    assert prune(folder, PruneLimits(keep_bytes=0)) == ()


def test_a_backup_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no manifest"):
        prunable(LocalFolder.create(tmp_path / "t"), PruneLimits(keep_bytes=0))


def test_the_status_counts_what_is_there(folder: LocalFolder) -> None:
    (topic,) = read_status(LocalStore(folder.path.parent))
    (partition,) = topic.partitions
    assert (partition.first_offset, partition.last_offset, partition.next_offset) == (0, 9, 10)
    assert (partition.records, partition.segments, partition.damage) == (10, 5, ())
    assert (topic.generation, topic.commit, topic.verified_now) == (1, 1, False)


def found(folder: Path) -> dict[int, FoundPartition]:
    held = LocalFolder(folder)
    return {part.partition: part for part in found_files(held, held.names()).partitions}


@pytest.fixture
def rotated(tmp_path: Path) -> LocalFolder:
    """The original's own folder with 22 segments and more of each of three partitions."""
    shutil.copytree(GOLDEN / "rotation" / "rotation", tmp_path / "rotation")
    return LocalFolder(tmp_path / "rotation")


def offsets_of(folder: LocalFolder, number: int) -> list[int]:
    """The offsets of the records that the folder gives back."""
    reader = PartitionReader(folder, number, None)
    read = [record.offset for record in reader.records()]
    assert not reader.left_out
    return read


@pytest.mark.parametrize("golden", partitions(*WHOLE), ids=str)
def test_the_indexes_say_what_the_originals_classes_read(golden: GoldenPartition) -> None:
    part = found(golden.folder)[golden.partition]
    read = [record.offset for record in golden.records]
    assert part.records == len(read)
    assert part.first_offset == (read[0] if read else None)
    assert part.last_offset == (read[-1] if read else None)
    assert part.segments == len(golden.segments)
    assert part.damage == ()


def test_groups_are_counted_once() -> None:
    folder = LocalFolder(GOLDEN / "consumer_offsets" / "orders")
    saved: set[str] = set()
    for path in Path(folder.where()).glob("consumer_offsets_*"):
        saved |= json.loads(path.read_bytes() or b"{}").keys()
    assert found_files(folder, folder.names()).groups == len(saved) > 0


def test_without_an_index_the_figures_are_unknown(rotated: LocalFolder) -> None:
    first = PartitionReader(rotated, 0, None).segments[0].prefix
    rotated.remove(segment_index_name(first))
    part = found(rotated.path)[0]
    for figure in (part.records, part.first_offset, part.last_offset):
        assert isinstance(figure, Unknown)
        assert "backup repair" in figure.reason
    assert found(rotated.path)[1].records == 200


def test_missing_and_short_segments_are_damage(rotated: LocalFolder) -> None:
    segments = PartitionReader(rotated, 0, None).segments
    gone, short = records_name(segments[3].prefix), records_name(segments[5].prefix)
    rotated.remove(gone)
    cut_to(rotated.path / short, 10)
    told = found(rotated.path)[0].damage
    assert len(told) == 2
    assert gone in told[0]
    assert "it has 10 bytes" in told[1]


def test_status_prints_what_is_known_and_nothing_as_0(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(5, 15)))
    result = CliRunner().invoke(app, ["list", "--store", str(tmp_path)])
    assert result.exit_code == 0
    row = result.stdout.splitlines()[1].split()
    assert row == ["orders-0", "5-14", "?", "10", row[4], "1", "?", "?", "no"]

    document = json.loads(
        CliRunner().invoke(app, ["list", "--store", str(tmp_path), "--json"]).stdout
    )
    (partition,) = document["topics"][0]["partitions"]
    assert (partition["records"], partition["last_offset"]) == (10, 14)
    assert [partition[name] for name in ("next_offset", "lag", "gaps", "lost")] == [None] * 4
    assert set(partition["unknown"]) == {"next_offset", "lag", "gaps", "lost"}

    cut_to(topic / RECORDS, 60)
    assert CliRunner().invoke(app, ["list", "--store", str(tmp_path)]).exit_code == 1


def test_what_is_left_of_an_originals_folder_is_whole(rotated: LocalFolder) -> None:
    named = read_partition_index(rotated, 2)
    gone = prune(rotated, PruneLimits(before_offset=50))
    assert {segment.partition for segment in gone} == {0, 1, 2}
    assert all(segment.last_offset is not None for segment in gone)
    assert max(segment.last_offset or 0 for segment in gone) < 50
    left = offsets_of(rotated, 2)
    assert left == list(range(left[0], 200))
    assert 0 < left[0] <= 50
    dropped = {segment.prefix for segment in gone}
    assert read_partition_index(rotated, 2) == tuple(
        entry for entry in named if entry.prefix not in dropped
    )
    assert not any(records_name(prefix) in rotated.names() for prefix in dropped)
    assert verify_files(rotated).whole
    assert prune(rotated, PruneLimits(before_offset=50)) == ()


def test_the_newest_record_says_how_old_a_segment_is(rotated: LocalFolder) -> None:
    every = list(PartitionReader(rotated, 0, None).records())
    newest = max(record.timestamp or 0 for record in every)
    assert prunable(rotated, PruneLimits(older_than_ms=0), at_ms=0) == ()
    limits, at = PruneLimits(older_than_ms=1), newest - 10
    for segment in prunable(rotated, limits, at_ms=at):
        assert segment.max_timestamp is not None
        assert segment.max_timestamp < at - 1
    all_old = prunable(rotated, PruneLimits(older_than_ms=1), at_ms=2**60)
    assert len(all_old) == sum(part.segments - 1 for part in found(rotated.path).values())


def test_so_many_segments_are_kept(rotated: LocalFolder) -> None:
    """As completed_segments.py of the original keeps them."""
    gone = prune(rotated, PruneLimits(keep_segments=2))
    assert gone
    assert {part.segments for part in found(rotated.path).values()} == {2}


def test_a_damaged_segment_stays_with_all_later_ones(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 10), max_segment_bytes=90))
    folder = LocalFolder(topic)
    before = prunable(folder, PruneLimits(before_offset=100))
    overwrite(topic / records_name(before[1].prefix), 1 + 8, b"\x09")
    assert prunable(folder, PruneLimits(before_offset=100)) == before[:1]


def test_an_empty_segment_goes_with_old_ones(tmp_path: Path) -> None:
    """A limit of 0 with a first offset above 0 leaves the original's first segment empty."""
    topic = as_the_originals(back_up(tmp_path, run(5, 8), max_segment_bytes=0))
    gone = prune(LocalFolder(topic), PruneLimits(before_offset=7))
    assert [one.records for one in gone] == [0, 1, 1]
    assert offsets_of(LocalFolder(topic), 0) == [7]
    assert verify_files(LocalFolder(topic)).whole


def test_an_index_that_cannot_be_read_is_said_before_anything_goes(rotated: LocalFolder) -> None:
    cut_to(rotated.path / "index_partition_001", 30)
    names = rotated.names()
    with pytest.raises(DamagedBackup):
        prune(rotated, PruneLimits(keep_segments=1))
    assert rotated.names() == names


def test_a_folder_that_lost_its_manifest_is_not_the_originals(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 10), max_segment_bytes=1)
    note_verified(LocalFolder(topic), 1, "files", None, whole=True)
    as_the_originals(topic)
    with pytest.raises(UsageError):
        prunable(LocalFolder(topic), PruneLimits(keep_segments=1))


HOLD = "import sys; file = open(sys.argv[1], 'ab'); print('open', flush=True); sys.stdin.read()"


def test_nothing_goes_while_the_connector_has_files_open(rotated: LocalFolder) -> None:
    held = rotated.path / "index_partition_000"
    names = set(rotated.names())
    command = [sys.executable, "-c", HOLD, str(held)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as connector:
        try:
            assert connector.stdout is not None
            assert connector.stdout.readline() == b"open\n"
            with pytest.raises(Refused):
                prune(rotated, PruneLimits(keep_segments=1))
            words = ["prune", "--store", str(rotated.path.parent), "--keep-segments", "1"]
            assert CliRunner().invoke(app, words).exit_code == 0
            result = CliRunner().invoke(app, [*words, "--write", "--consent", "any"])
            assert isinstance(result.exception, Refused)
            assert set(rotated.names()) == names
        finally:
            connector.communicate()
    wait_until(lambda: bool(prune(rotated, PruneLimits(keep_segments=1))), "the file to be closed")
