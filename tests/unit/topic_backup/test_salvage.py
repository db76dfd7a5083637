"""Damaged segments: every record that is given was written, and what is missing is told."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from breakglass.console.backup import app
from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.divergence.opening import open_backup
from breakglass.services.divergence.source import Reading
from breakglass.services.pipeline.stored_segments import runs_between, stored_segments
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.assembler import TopicAssembler
from breakglass.services.topic_backup.catalog import read_status
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import found_files, read_held, read_sound
from breakglass.services.topic_backup.mending import mend
from breakglass.services.topic_backup.part import Addition, Missing
from breakglass.services.topic_backup.prune import PruneLimits, prune
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import _Decoder, encode
from breakglass.services.topic_backup.salvage import salvaged
from breakglass.services.topic_backup.segment_bytes import SegmentExtent
from breakglass.services.topic_backup.segment_index import reindex
from breakglass.services.topic_backup.segment_reader import FoundRecord, Proof
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.topic_writer import TopicWriter
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.extent import examples
from tests.unit.topic_backup.backups import (
    FIRST,
    INDEX,
    ORDERS,
    RECORDS,
    append_to,
    as_the_originals,
    back_up,
    manifest_of,
    overwrite,
    read,
)
from tests.unit.topic_backup.shapes import log, plain, run

RESUMED = Path(__file__).parents[2] / "golden" / "topic_backup_resumed"
CASES = sorted(path.stem for path in (RESUMED / "expected").glob("*.json"))
STRAY = "the beginning of the record behind it"
DOUBLE = "the record before it once more"

every_case = pytest.mark.parametrize("case", CASES)


def topic_of(case: str) -> Path:
    return RESUMED / case / "orders"


@every_case
def test_every_record_is_read_after_a_kill_and_a_resume_of_the_original(case: str) -> None:
    reader = PartitionReader(LocalFolder(topic_of(case)), 0, None)
    assert list(reader.records()) == read(topic_of("whole"))
    assert reader.salvaged
    assert not reader.damages
    assert all(STRAY in out.reason or DOUBLE in out.reason for out in reader.left_out)


@every_case
def test_verify_restore_diff_and_the_browser_read_the_same_records(case: str) -> None:
    folder = LocalFolder(topic_of(case))
    verified = verify_files(folder)
    assert (verified.whole, verified.records) == (False, 10)
    held = read_held(folder, "orders")
    stored = stored_segments(folder, held.partitions[0].segments)
    offsets = [int(offset) for each in runs_between(stored, 0, 100) for offset in each.offsets]
    assert (offsets, held.lost, held.salvaged) == (list(range(10)), (), True)
    source = open_backup("backup:x/orders/0", folder, 0)
    items = list(source.read(0, 100, Reading()))
    assert [item.offset for item in items if isinstance(item, RecordEntry)] == list(range(10))


@every_case
def test_reindex_to_another_folder_writes_a_mended_copy_and_changes_nothing(
    case: str, tmp_path: Path
) -> None:
    topic = tmp_path / "damaged" / "orders"
    shutil.copytree(topic_of(case), topic)
    before = {one.name: one.read_bytes() for one in topic.iterdir()}
    result = CliRunner().invoke(app, ["repair", str(topic), "--out", str(tmp_path / "mended")])
    assert result.exit_code == 1
    assert {one.name: one.read_bytes() for one in topic.iterdir()} == before
    mended = tmp_path / "mended" / "orders"
    assert (mended / RECORDS).read_bytes() == (topic_of("whole") / RECORDS).read_bytes()
    assert (mended / INDEX).read_bytes() == (topic_of("whole") / INDEX).read_bytes()
    assert marked(mended) == [(0, 10)]


TORN, OTHER = encode(plain(5))[:39], b"\x07" * 60


@pytest.mark.parametrize("stray", [*range(1, 9), 23, 39])
@pytest.mark.parametrize("of", [TORN, OTHER], ids=["of the next record", "of no record"])
def test_stray_bytes_behind_the_last_record_lose_none_by_any_reader(
    tmp_path: Path, of: bytes, stray: int
) -> None:
    topic = as_the_originals(back_up(tmp_path / "backup", run(0, 5)))
    append_to(topic / RECORDS, of[:stray])
    folder = LocalFolder(topic)
    (partition,) = found_files(folder, folder.names()).partitions
    assert (partition.records, partition.stray) == (5, stray)
    reader = PartitionReader(folder, 0, None)
    assert [record.offset for record in reader.records()] == list(range(5))
    # A writer leaves an offset as a whole: fewer bytes begin no record.
    expected = of is OTHER or stray < 8
    assert (reader.damages, reader.salvaged) == ([], expected)
    held = read_held(folder, "orders")
    assert (held.partitions[0].next_offset, held.lost) == (5, ())
    (mended,) = mend(folder, "orders", tmp_path / "mended").partitions
    assert (mended.records, mended.unproved[0].start, mended.unproved[-1].end) == (5, 0, 5)
    (segment,) = reindex(folder, 0)
    assert (segment.entries, segment.left_out) == (5, stray)
    with TopicWriter(tmp_path / "backup", ORDERS) as writer:
        assert writer.partition(0).next_offset == 5


@pytest.mark.parametrize("reader", ["salvaging", "committed"])
def test_a_record_with_thousands_of_headers_is_read_about_once(
    tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are loaded, and headers that are decoded, grow with the record alone."""
    headers = tuple((b"h%d" % number, bytes(800)) for number in range(5_000))
    one = plain(7)._replace(headers=headers)
    topic = back_up(tmp_path, [plain(6), one, plain(8)])
    if reader == "salvaging":
        as_the_originals(topic)
    decoded = 0
    header = _Decoder.header

    def counted(decoder: _Decoder) -> tuple[bytes, bytes | None]:
        nonlocal decoded
        decoded += 1
        return header(decoder)

    monkeypatch.setattr(_Decoder, "header", counted)
    assert read(topic)[1] == one
    assert decoded <= 4 * len(headers)


def damaged(tmp_path: Path) -> Path:
    """A backup in which one byte of a value differs from what was written."""
    topic = back_up(tmp_path / "damaged", run(0, 12), max_segment_bytes=160)
    content = bytearray((topic / RECORDS).read_bytes())
    content[content.index(b"value")] ^= 1
    (topic / RECORDS).write_bytes(bytes(content))
    return topic


def laundered(tmp_path: Path) -> Path:
    """A mended copy of a backup in which one byte of a value differs from what was written."""
    (mended,) = mend(LocalFolder(damaged(tmp_path)), "orders", tmp_path / "copy").partitions
    assert mended.salvaged
    return tmp_path / "copy" / "orders"


def marked(topic: Path) -> list[tuple[int, int]]:
    """What the manifest calls unproved; every reader has to say so."""
    folder = LocalFolder(topic)
    verified = verify_files(folder)
    assert (verified.damages, verified.salvaged, verified.whole) == ([], True, False)
    assert read_sound(read_held(folder, "orders"), {0}).salvaged
    (status,) = read_status(LocalStore(topic.parent))
    assert (status.salvaged, status.verified_now) == (True, False)
    return [(doubt.start, doubt.end) for doubt in manifest_of(topic).partitions[0].unproved]


def test_b15_what_a_mended_copy_could_not_prove_stays_marked_for_ever(tmp_path: Path) -> None:
    topic = laundered(tmp_path)
    unproved = marked(topic)
    assert unproved == [(0, 4)]
    back_up(tmp_path / "copy", run(12, 20), max_segment_bytes=160)
    assert marked(topic) == unproved
    with TopicAssembler(topic, ORDERS) as assembler:
        assembler.add([Addition(0, [], Missing(), assembler.partition(0).next_offset or 0)])
        assembler.commit()
    assert marked(topic) == unproved
    assert prune(LocalFolder(topic), PruneLimits(keep_segments=1))
    assert marked(topic) == unproved
    mend(LocalFolder(topic), "orders", tmp_path / "again")
    assert marked(tmp_path / "again" / "orders") == unproved


def by_a_run(topic: Path, start: int = 12) -> Path:
    with TopicAssembler(topic, ORDERS) as assembler:
        assert assembler.partition(0).next_offset == start
        assembler.commit()
    return topic


def by_a_rescue(topic: Path) -> Path:
    return back_up(topic.parent, run(12, 13), max_segment_bytes=160)


def by_reindex(topic: Path) -> Path:
    again = topic.parent.parent / "again"
    assert CliRunner().invoke(app, ["repair", str(topic), "--out", str(again)]).exit_code == 1
    return again / "orders"


@pytest.mark.parametrize("taken_up", [by_a_run, by_a_rescue, by_reindex])
@pytest.mark.parametrize("of", [laundered, damaged], ids=["a copy", "a backup"])
def test_b19_what_was_taken_up_without_a_manifest_stays_marked_for_ever(
    of: Callable[[Path], Path], taken_up: Callable[[Path], Path], tmp_path: Path
) -> None:
    """A flipped bit, and what a copy could not prove, would else be forgotten with the manifest."""
    topic = taken_up(as_the_originals(of(tmp_path)))
    assert marked(topic) == [(0, 12)]
    with TopicAssembler(topic, ORDERS) as assembler:
        assembler.add([Addition(0, [], Missing(), 20)])
        assembler.commit()
    assert marked(topic) == [(0, 12)]


@st.composite
def change(draw: st.DrawFn) -> tuple[str, int, int, bytes]:
    kind = draw(st.sampled_from(["cut", "insert", "double"]))
    size = draw(st.integers(1, 60))
    inserted = draw(st.one_of(st.just(bytes(size)), st.binary(min_size=size, max_size=size)))
    return kind, draw(st.integers(1, 400)), size, inserted


def changed(content: bytes, how: tuple[str, int, int, bytes]) -> bytes:
    kind, at, size, inserted = how
    at = 1 + at % max(len(content) - 1, 1)
    if kind == "cut":
        return content[:at] + content[at + size :]
    return content[:at] + (inserted if kind == "insert" else content[at : at + size]) + content[at:]


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(records=log(min_size=1), how=change(), of=st.sampled_from([RECORDS, INDEX]))
def test_cut_inserted_and_doubled_bytes_never_make_a_record_that_was_not_written(
    records: list[Record],
    how: tuple[str, int, int, bytes],
    of: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    topic = as_the_originals(back_up(tmp_path_factory.mktemp("b"), records))
    (topic / of).write_bytes(changed((topic / of).read_bytes(), how))
    pieces = salvaged(LocalFolder(topic), SegmentExtent(FIRST, 0, None))
    proved = (piece for piece in pieces if isinstance(piece, FoundRecord))
    read = [piece.record for piece in proved if piece.proof is not Proof.LAST]
    assert [record for record in records if record in read] == read


def test_without_an_index_records_are_walked_and_resumed_behind_stray_bytes(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 20)))
    (topic / INDEX).unlink()
    overwrite(topic / RECORDS, 1 + 40 * 7 + 8, b"\x09")
    reader = PartitionReader(LocalFolder(topic), 0, None)
    # Nothing proves where the record before the damage ends.
    assert list(reader.records()) == [*run(0, 6), *run(8, 20)]
    assert [damage.offsets for damage in reader.damages] == ["6..7"]
