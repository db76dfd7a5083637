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
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import FoundPartition, found_files
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.notes import note_verified
from breakglass.services.topic_backup.prune import PruneLimits, prunable, prune
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.segment_index import read_partition_index
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
from tests.unit.topic_backup.golden import GOLDEN
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


def found(folder: Path) -> dict[int, FoundPartition]:
    held = LocalFolder(folder)
    return {part.partition: part for part in found_files(held, held.names()).partitions}


@pytest.fixture
def rotated(tmp_path: Path) -> LocalFolder:
    """The original's own folder with 22 segments and more of each of three partitions."""
    shutil.copytree(GOLDEN / "rotation" / "rotation", tmp_path / "rotation")
    return LocalFolder(tmp_path / "rotation")


def test_without_an_index_the_figures_are_unknown(rotated: LocalFolder) -> None:
    first = PartitionReader(rotated, 0, None).segments[0].prefix
    rotated.remove(segment_index_name(first))
    part = found(rotated.path)[0]
    for figure in (part.records, part.first_offset, part.last_offset):
        assert isinstance(figure, Unknown)
        assert "backup repair" in figure.reason
    assert found(rotated.path)[1].records == 200


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
