"""Backups in a store, read in ranges by tasks, and compared with what a topic holds."""

import resource
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain, repeat
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from breakglass.services.errors import AlreadyRunning, DamagedBackup, UsageError
from breakglass.services.pipeline.part_writer import PartTarget, PartTask, RecordChunk
from breakglass.services.pipeline.restore.options import partition_plan
from breakglass.services.pipeline.stored_segments import (
    StoredSegment,
    runs_between,
    stored_segments,
)
from breakglass.services.pipeline.verify import (
    ContentVerified,
    PartitionVerified,
    StretchComparison,
)
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.topic_backup import segment_bytes
from breakglass.services.topic_backup.address import indexes_at, partition_of
from breakglass.services.topic_backup.assembler import Assembler, TopicAssembler, assembling
from breakglass.services.topic_backup.catalog import held_topics, read_status
from breakglass.services.topic_backup.folder import Folder, LocalFolder, read_whole
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest, read_manifest
from breakglass.services.topic_backup.notes import note_verified
from breakglass.services.topic_backup.part import Addition, Missing, NewSegment
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.store import store as store_module
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import Store
from breakglass.services.topic_backup.summary import PartitionSummary
from breakglass.services.topic_backup.verification import verify_files
from tests.unit.pipeline.chunks import chunk_of
from tests.unit.topic_backup.backups import back_up as of_records
from tests.unit.topic_backup.shapes import run
from tests.unit.topic_backup.store.stores import BOTH, KEY, PLAIN, in_memory, on_disk

LIMIT = 400
ORDERS = TopicIdentity("orders", "cluster")
FORMS = {"in memory, plain": PLAIN, "on disk, compressed and encrypted": BOTH}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> StoredForm:
    return FORMS[request.param]


@pytest.fixture
def store(request: pytest.FixtureRequest, form: StoredForm, tmp_path: Path) -> Iterator[Store]:
    """A place where folders are such that nothing is changed in them."""
    if "disk" in request.node.callspec.params["form"]:
        yield on_disk(tmp_path / "backup")
    else:
        with in_memory() as store:
            yield store


def opened(store: Store, form: StoredForm) -> Assembler:
    folder = store.folder("orders", form)
    return assembling(folder, ORDERS, LIMIT).__enter__()


def add(assembler: Assembler, start: int, end: int) -> None:
    """Records *start* to *end* as a task writes them."""
    target = PartTarget(assembler.folder, assembler.run, LIMIT)
    with PartTask(target, attempt=3) as task:
        parts = [*task.take(chunk_of(run(start, end))), *task.finish()]
    new = [NewSegment(part) for part in parts]
    assembler.add([Addition(0, new, Missing(), end)])


def back_up(store: Store, form: StoredForm, start: int, end: int) -> TopicManifest:
    folder = store.folder("orders", form)
    with assembling(folder, ORDERS, LIMIT) as assembler:
        add(assembler, start, end)
        return assembler.commit()


def stored(store: Store) -> list[StoredSegment]:
    folder = store.folder("orders")
    manifest = read_manifest(folder)
    assert manifest is not None
    return stored_segments(folder, manifest.partitions[0].segments)


def offsets(store: Store, start: int = 0, end: int = 10**6) -> list[int]:
    return [
        int(offset) for run in runs_between(stored(store), start, end) for offset in run.offsets
    ]


def test_runs_add_up_and_every_way_of_reading_finds_them(store: Store, form: StoredForm) -> None:
    back_up(store, form, 0, 25)
    manifest = back_up(store, form, 25, 40)
    assert manifest.commit == 2
    assert [topic.name for topic in held_topics(store)] == ["orders"]
    folder = store.folder("orders")
    reader = partition_of(f"{store.where('orders')}/0", key=KEY)
    assert list(reader.records()) == list(run(0, 40))
    assert [record.offset for record in reader.records(7, 12)] == [7, 8, 9, 10, 11]
    assert reader.left_out == []
    found = verify_files(folder)
    assert (found.whole, found.records, found.damages) == (True, 40, [])
    (status,) = read_status(store)
    assert (status.partitions[0].records, status.partitions[0].next_offset) == (40, 40)


def test_b18_few_files_are_open_however_many_segments_a_backup_has(tmp_path: Path) -> None:
    """Two files of each of 300 segments are more than the 256 that this process may open."""
    folder = LocalFolder(of_records(tmp_path, run(0, 600), max_segment_bytes=41))
    manifest = read_manifest(folder)
    assert manifest is not None
    segments = stored_segments(folder, manifest.partitions[0].segments)
    assert len(segments) == 300
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert partition_plan(0, segments, ((0, 600),)).records == 600
        for segment in segments:
            # As of a partition of its own, which is not read to its end.
            (half,) = runs_between([segment], segment.first_offset, segment.last_offset)
            assert half.offsets.tolist() == [segment.first_offset]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def values(folder: Folder, held: PartitionSummary, start: int) -> Iterator[bytes]:
    reader = PartitionReader(folder, 0, held)
    yield from (found.record.value or b"" for found in reader.found(start))
    if reader.damages:
        raise DamagedBackup(folder.where(), 0, str(reader.damages[0]))


READERS: dict[str, Callable[[Folder, PartitionSummary, StoredSegment], Iterable[bytes]]] = {
    "a restore": lambda _, __, first: (one.data.tobytes() for one in first.reader.runs(0, 20)),
    "without the index": lambda _, __, first: (b"" for _ in first.walked()),
    "records": lambda folder, held, _: values(folder, held, 0),
    "records from an offset": lambda folder, held, _: values(folder, held, 5),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("true", [1, 2, 3])
def test_b36_what_a_store_gives_later_is_held_against_the_bytes_that_were_checked(
    store: Store, form: StoredForm, monkeypatch: pytest.MonkeyPatch, reader: str, true: int
) -> None:
    """The store answers truly so many times, and then with other records of the same size."""
    held = back_up(store, form, 0, 20).partitions[0]
    folder, (first, *_) = store.folder("orders"), stored(store)
    name, open_file = records_name(first.prefix), type(folder).open
    content = read_whole(folder, name, 10**6)
    answers = chain([content] * true, repeat(content.replace(b"value", b"other")))

    def changed(folder: Any, asked: str) -> BinaryIO:
        return BytesIO(next(answers)) if asked == name else open_file(folder, asked)

    segment_bytes._blocks.clear()
    monkeypatch.setattr(type(folder), "open", changed)
    try:
        found = list(READERS[reader](folder, held, first))
    except DamagedBackup:
        return
    assert b"other" not in b"".join(found)


def test_indexes_that_are_gone_are_done_without_and_made_anew(
    store: Store, form: StoredForm
) -> None:
    back_up(store, form, 0, 25)
    folder = store.folder("orders")
    (first, *_) = stored(store)
    folder.remove(segment_index_name(first.prefix))
    assert offsets(store) == list(range(25))
    assert not verify_files(folder).whole
    indexes_at(store.where("orders"), KEY).rebuild()
    assert verify_files(folder).whole


def test_a_run_that_did_not_commit_is_no_part_of_the_backup_and_goes(
    store: Store, form: StoredForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(store, form, 0, 5)
    killed = opened(store, form)
    add(killed, 5, 12)
    assert offsets(store) == list(range(5))
    left = set(store.names("orders"))
    monkeypatch.setattr(store_module, "_LOOKED", {})
    back_up(store, form, 5, 9)
    assert offsets(store) == list(range(9))
    assert not {text for text in left if "0000000005_records" in text} & set(store.names("orders"))


@pytest.mark.parametrize("kept", [0, 1], ids=["without a manifest", "with an older one"])
def test_b19_no_run_removes_the_files_of_a_manifest_that_is_gone(
    store: Store, form: StoredForm, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_LOOKED", {})
    back_up(store, form, 0, 5)
    back_up(store, form, 5, 9)
    folder = store.folder("orders")
    note_verified(folder, 2, "files", None, whole=True)
    for number in range(2, kept, -1):
        folder.remove(store_module.version_name(number))
    left = set(store.names("orders"))
    with pytest.raises(UsageError, match="lost its last manifest"):
        back_up(store, form, 9, 12)
    assert set(store.names("orders")) == left
    (status,) = read_status(store)
    assert (status.damaged, verify_files(folder).whole) == (True, False)


def test_what_is_damaged_is_not_joined(store: Store, form: StoredForm) -> None:
    folder = store.folder("orders", form)
    with assembling(folder, ORDERS, 2**20) as assembler:
        add(assembler, 0, 2)
        (segment,) = assembler.commit().partitions[0].segments
    with folder.open(records_name(segment.prefix)) as file:
        content = bytearray(file.read())
    content[30] ^= 1
    folder.replace(records_name(segment.prefix), [bytes(content)])
    with pytest.raises(DamagedBackup), assembling(folder, ORDERS, 2**20) as assembler:
        add(assembler, 2, 4)


def test_of_two_runs_that_race_one_commits(store: Store, form: StoredForm) -> None:
    back_up(store, form, 0, 5)
    one, other = opened(store, form), opened(store, form)
    add(one, 5, 12)
    add(other, 5, 9)
    assert other.commit().commit == 2
    with pytest.raises(AlreadyRunning):
        one.commit()
    assert offsets(store) == list(range(9))
    assert verify_files(store.folder("orders")).whole


def record(offset: int, value: bytes = b"v") -> Record:
    return Record(offset, TimestampType.CREATE, 1000 + offset, b"k%d" % offset, value)


def assembled(root: Path, *records: Record, limit: int = 100) -> list[StoredSegment]:
    """A backup of *records*, assembled from parts."""
    path = root / "t"
    with TopicAssembler(path, TopicIdentity("t"), max_segment_bytes=limit) as assembler:
        with PartTask(PartTarget(LocalFolder(path), "run", limit), 0) as task:
            parts = [*task.take(chunk_of(records)), *task.finish()]
        segments = [NewSegment(part) for part in parts]
        assembler.add([Addition(0, segments, Missing(), records[-1].offset + 1)])
        manifest = assembler.commit()
    assert len(manifest.partitions[0].segments) > 1
    return stored_segments(LocalFolder(path), manifest.partitions[0].segments)


def compared(segments: list[StoredSegment], *chunks: RecordChunk) -> PartitionVerified:
    comparison = StretchComparison(0, segments)
    for one in chunks:
        comparison.take(one)
    return comparison.found


def test_each_kind_of_difference_has_its_offsets(tmp_path: Path) -> None:
    held = assembled(tmp_path, *[record(offset) for offset in range(0, 40, 2)])
    seen = [record(offset) for offset in range(0, 40, 2) if offset != 10]
    seen[3] = record(6, b"other")
    seen.insert(2, record(3))
    seen.append(record(40))
    found = compared(held, chunk_of(seen[:7]), chunk_of(seen[7:]))
    assert found.offsets == {"different": [6], "extra": [3, 40], "missing": [10]}
    assert (found.equal, found.start, found.end) == (18, 0, 41)
    for kind in found.offsets:
        differing = [PartitionVerified(0, 0, 41, counts={kind: 1})]
        assert not ContentVerified("t", "t", compacted=False, partitions=differing).identical
        compacted = ContentVerified("t", "t", compacted=True, partitions=differing)
        assert compacted.identical is (kind == "missing")
