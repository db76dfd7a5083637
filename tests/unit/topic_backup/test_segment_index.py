"""A segment's index with one bit flipped: records are read whole all the same, and it is found."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from breakglass.services.errors import DamagedBackup
from breakglass.services.pipeline.part_writer import PartTarget, PartTask
from breakglass.services.pipeline.stored_segments import runs_between, stored_segments
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.topic_backup.assembler import Assembler, TopicAssembler, assembling
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import segment_index_name
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.part import Addition, Missing, NewSegment
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_bytes import chunks
from breakglass.services.topic_backup.segment_index import IndexProof, SegmentIndex
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.extent import some_of
from tests.unit.pipeline.chunks import chunk_of
from tests.unit.topic_backup.store.stores import PLAIN, in_memory

SPARSE = (0, 1, 4, 5, 9, 17, 18, 40)
"""Gaps on both sides of a record: another offset would still rise."""
ORDERS = TopicIdentity("orders", "cluster")


def record(offset: int) -> Record:
    return Record(offset, TimestampType.CREATE, 1000 + offset, b"k", b"%d" % offset)


def back_up(folder: Folder, offsets: tuple[int, ...]) -> None:
    """One segment with a record at each of *offsets*."""
    records = [record(offset) for offset in offsets]
    opened: AbstractContextManager[Assembler] = (
        TopicAssembler(folder.path, ORDERS, max_segment_bytes=2**20)
        if isinstance(folder, LocalFolder)
        else assembling(folder, ORDERS, 2**20)
    )
    with opened as assembler:
        with PartTask(PartTarget(assembler.folder, assembler.run, 2**20), 0) as task:
            parts = [*task.take(chunk_of(records)), *task.finish()]
        new = [NewSegment(part) for part in parts]
        assembler.add([Addition(0, new, Missing(), offsets[-1] + 1)])
        assembler.commit()


@pytest.fixture(params=["on disk", "in an object store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    """Where the segment is: its reader maps the files of a disk, and fetches all others."""
    if request.param == "on disk":
        (tmp_path / "orders").mkdir()
        yield LocalFolder(tmp_path / "orders")
        return
    with in_memory() as store:
        yield store.folder("orders", PLAIN)


def index_of(folder: Folder) -> tuple[str, bytes]:
    """The name and content of the only segment's index."""
    manifest = read_manifest(folder)
    assert manifest is not None
    (segment,) = manifest.partitions[0].segments
    name = segment_index_name(segment.prefix)
    with folder.open(name) as file:
        return name, file.read()


def flip(folder: Folder, name: str, content: bytes, bit: int) -> None:
    """Write *content* with one bit changed."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    if isinstance(folder, LocalFolder):
        (folder.path / name).write_bytes(changed)
    else:
        folder.replace(name, [bytes(changed)])


def read(folder: Folder, *ranges: tuple[int, int]) -> list[list[tuple[int, bytes]]]:
    """The offsets and the bytes of the records in each of *ranges*, read one after another."""
    manifest = read_manifest(folder)
    assert manifest is not None
    stored = stored_segments(folder, manifest.partitions[0].segments)
    return [
        [
            (int(offset), run.data[run.bounds[at] : run.bounds[at + 1]].tobytes())
            for run in runs_between(stored, start, end)
            for at, offset in enumerate(run.offsets)
        ]
        for start, end in ranges
    ]


def true(offsets: tuple[int, ...], start: int, end: int) -> list[tuple[int, bytes]]:
    return [(offset, encode(record(offset))) for offset in offsets if start <= offset < end]


RANGES = [(0, 2), (2, 5), (5, 18), (18, 41), (0, 41), (4, 9), (10, 17), (3, 4)]


def test_no_flipped_bit_of_an_index_hides_a_record_or_gives_it_another_offset(
    folder: Folder,
) -> None:
    back_up(folder, SPARSE)
    name, content = index_of(folder)
    assert len(content) == 1 + 8 * 24
    expected = [true(SPARSE, start, end) for start, end in RANGES]
    for bit in some_of(range(8, 8 * len(content))):
        flip(folder, name, content, bit)
        assert read(folder, *RANGES) == expected, f"bit {bit}"


def test_every_flipped_bit_of_an_index_is_found_by_verify(folder: Folder) -> None:
    back_up(folder, SPARSE)
    name, content = index_of(folder)
    assert verify_files(folder).whole
    for bit in [*range(8), *some_of(range(8, 8 * len(content)))]:
        flip(folder, name, content, bit)
        found = verify_files(folder)
        assert [damage.repairable for damage in found.damages] == [True], f"bit {bit}"


def test_an_index_is_proved_however_the_file_is_cut_into_chunks(folder: Folder) -> None:
    back_up(folder, SPARSE)
    name, content = index_of(folder)
    prefix = name.removesuffix("_index")
    size = 1 + sum(len(encode(record(offset))) for offset in SPARSE)
    (whole,) = chunks(folder, f"{prefix}_records", size)
    flip(folder, name, content, 8 * 25 + 56)
    with folder.open(name) as file:
        damaged = file.read()
    for now, proved in [(content, True), (damaged, False)]:
        folder.replace(name, [now])
        for step in range(1, size + 1):
            with SegmentIndex(folder, prefix) as index:
                proof = IndexProof(index, len(SPARSE), size)
                for at in range(0, size, step):
                    proof.take(whole[at : at + step])
                assert proof.proved is proved


def test_records_that_are_fewer_than_committed_are_damage_if_no_index_is_there(
    folder: Folder,
) -> None:
    back_up(folder, SPARSE)
    name, _ = index_of(folder)
    folder.remove(name)
    manifest = read_manifest(folder)
    assert manifest is not None
    (segment,) = stored_segments(folder, manifest.partitions[0].segments)
    assert len(segment.walked()) == len(SPARSE)
    object.__setattr__(segment, "count", len(SPARSE) + 1)
    with pytest.raises(DamagedBackup):
        segment.walked()
