"""A broker's log folder as a source: batches from disk, damage in its place, nothing written."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.divergence.log_source import INDEX_ENTRY, LogSource, open_log
from breakglass.services.divergence.source import (
    Extent,
    Item,
    Reading,
    RecordEntry,
    UnreadableRange,
    address,
)
from breakglass.services.errors import UsageError
from breakglass.services.record_batches import RecordBatch
from tests.fuzz.damage import Damage, damage
from tests.kit.extent import examples
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run

READING = Reading()


def tens(start: int, end: int, **how: object) -> list[bytes]:
    """Batches of ten records each."""
    return [batch(run(at, at + 10), **how) for at in range(start, end, 10)]  # type: ignore[arg-type]


def write(folder: Path, base: int, batches: Sequence[bytes], *, every: int = 3) -> Path:
    """A segment with an index entry for each *every*-th batch; returns the .log file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020}.log"
    path.write_bytes(b"".join(batches))
    index, position = b"", 0
    for number, one in enumerate(batches):
        first, last_delta = struct.unpack_from(">q", one)[0], struct.unpack_from(">i", one, 23)[0]
        if number % every == every - 1:
            index += INDEX_ENTRY.pack(first + last_delta - base, position)
        position += len(one)
    path.with_suffix(".index").write_bytes(index + bytes(80))
    return path


def opened(folder: Path) -> LogSource:
    return open_log("log:x", folder)


def offsets(items: Sequence[Item]) -> list[int]:
    return [item.offset for item in items if isinstance(item, RecordEntry)]


def damages(items: Sequence[Item]) -> list[tuple[int, int]]:
    return [(item.start, item.end) for item in items if isinstance(item, UnreadableRange)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """orders-0 with records 0 to 199 in two segments."""
    write(tmp_path / "orders-0", 0, tens(0, 100))
    write(tmp_path / "orders-0", 100, tens(100, 200))
    return tmp_path / "orders-0"


def test_any_stretch_is_read_and_zeros_behind_a_torn_end_are_none(folder: Path) -> None:
    with (folder / f"{100:020}.log").open("ab") as file:
        file.write(bytes(4_096))
    source = opened(folder)
    assert source.extent == Extent(0, 200)
    for start, end in ((0, 200), (95, 105), (37, 38), (199, 500), (60, 61)):
        assert offsets(list(source.read(start, end, READING))) == list(range(start, min(end, 200)))


def test_a_flipped_bit_costs_its_batch_alone(folder: Path) -> None:
    path = folder / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[4 * (len(content) // 10) + 90] ^= 0x10
    path.write_bytes(content)
    items = list(opened(folder).read(0, 200, READING))
    assert damages(items) == [(40, 50)]
    assert offsets(items) == [*range(40), *range(50, 200)]


@pytest.mark.parametrize(
    ("at", "bytes_"),
    [
        *((8, struct.pack(">i", 2**30)), (8, struct.pack(">i", -5)), (16, b"\x01")),
        *((0, struct.pack(">q", 10**12)), (0, struct.pack(">q", 3))),
        (23, struct.pack(">i", 2**30)),
    ],
)
def test_after_a_lying_header_the_index_finds_a_batch(folder: Path, at: int, bytes_: bytes) -> None:
    path = folder / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    place = 3 * (len(content) // 10) + at
    content[place : place + len(bytes_)] = bytes_
    path.write_bytes(content)
    items = list(opened(folder).read(0, 200, READING))
    assert damages(items) in ([(30, 50)], [(30, 40)])
    (_, end), *_ = damages(items)
    assert offsets(items) == [*range(30), *range(end, 200)]


@settings(max_examples=examples(60))
@given(spoil=damage(), suffix=st.sampled_from([".log", ".index"]))
def test_whatever_is_damaged_the_stream_is_in_order_and_ends(
    tmp_path_factory: pytest.TempPathFactory, spoil: Damage, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("log")
    write(folder, 0, tens(0, 100))
    path = write(folder, 100, tens(100, 200)).with_suffix(suffix)
    path.write_bytes(spoil(path.read_bytes()))
    items = list(opened(folder).read(0, 2**62, READING))
    places = [address(item) for item in items]
    assert places == sorted(set(places))
    assert offsets(items)[:100] == list(range(100))


def test_nothing_of_the_folder_is_written(folder: Path) -> None:
    for path in folder.iterdir():
        path.chmod(0o400)
    folder.chmod(0o500)
    try:
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        assert len(list(opened(folder).read(0, 200, READING))) == 200
        assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    finally:
        folder.chmod(0o700)


def test_what_is_no_log_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        opened(tmp_path / "none-0")
    with pytest.raises(UsageError, match="no log segments"):
        opened(tmp_path)


def test_stale_entries_of_an_index_neither_shorten_a_log_nor_lengthen_it(tmp_path: Path) -> None:
    """A log was cut and filled again; a kill left the entries of its former batches behind."""
    write(tmp_path, 0, tens(0, 160))
    (segment,) = tmp_path.glob("*.log")
    size = segment.stat().st_size
    valid, stale = struct.pack(">ii", 9, 0), struct.pack(">ii", 85, size - 7)
    for entries in (valid + stale, valid + struct.pack(">ii", 400, size * 3), stale):
        segment.with_suffix(".index").write_bytes(entries + bytes(80))
        log = open_log("log", tmp_path)
        assert log.extent.end == 160
        read = [item for item in log.whole_batches(0, Reading()) if isinstance(item, RecordBatch)]
        assert sum(len(batch.records) for batch in read) == 160
        late = [item for item in log.whole_batches(90, Reading()) if isinstance(item, RecordBatch)]
        assert sum(len(batch.records) for batch in late) == 70
        assert log.torn_at() is None
