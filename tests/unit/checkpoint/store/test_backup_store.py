"""What a store of checkpoints accepts, refuses, remembers and forgets, on disk and elsewhere."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.checkpoint.protocol.values import (
    DIFFERENT_COPIES,
    OWNER_CHANGED,
    CopyId,
    NotHigher,
    Status,
)
from breakglass.services.checkpoint.store.backup_store import BackupStore, Copies
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    NumberedPartition,
    OngoingDocument,
    StoredFile,
    VerifiedDocument,
)
from breakglass.services.checkpoint.store.files import (
    CheckpointFile,
    Files,
    of_checkpoint,
    of_copy,
)
from breakglass.services.errors import (
    AlreadyRunning,
    MalformedInput,
    Refused,
    UnsupportedSchema,
)
from breakglass.services.topic_backup.store.blobs import PROBE, LocalBlobs
from tests.unit.checkpoint.store.stores import (
    POSITION,
    RECORDS,
    SUBJECTS,
    completed,
    copied,
    manifest,
    reserved,
    started,
    stored,
    take,
    ticking,
)

ONE = CopyId(1, 2, 0)
OTHER_NODES = CopyId(1, 2, 1)


@pytest.fixture(params=["folder", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BackupStore]:
    if request.param == "folder":
        yield BackupStore(str(tmp_path / "store"), ticking())
        return
    from fsspec.implementations.memory import MemoryFileSystem

    place = f"/{uuid.uuid4().hex}"
    yield BackupStore(f"memory:/{place}", ticking())
    if MemoryFileSystem().exists(place):
        MemoryFileSystem().rm(place, recursive=True)


def status(store: BackupStore, id: int = 1) -> Status | None:
    found = store.read(id)
    return None if found is None else found.status


def files_of(store: BackupStore) -> list[str]:
    """Everything that there is, by name, but for the proof that names are created only once."""
    names = store.copies._files.blobs("").names()
    return sorted(name for name in names if not name.endswith(PROBE))


def test_a_checkpoint_is_what_was_written_of_it(store: BackupStore) -> None:
    completed(store, 1)
    store.start(1, {subject.number: POSITION for subject in SUBJECTS})
    found = stored(store)
    assert found.status is Status.COMPLETED
    assert found.take == take(1)
    assert started(store).positions == {1: 100, 2: 100, 3: 100}
    assert [partition.subject for partition in found.partitions] == list(SUBJECTS)
    counting = found.partitions[0].counting
    assert counting is not None
    assert counting.position == POSITION
    assert (counting.created_at_ms, counting.updated_at_ms) == (1_000, 1_001)
    assert counting.tool_version == "1.0"
    assert store.all() == (found,)


def test_files_lie_by_checkpoint_partition_and_node(store: BackupStore) -> None:
    reserved(store, 1)
    copied(store, ONE)
    assert files_of(store) == [
        "checkpoints/1/2/0/manifest.json",
        "checkpoints/1/2/0/ongoing.json",
        "checkpoints/1/take.json",
        "contents/1/2/0/segments/0/records",
    ]


# --- statuses


BEGINNINGS: dict[str, Callable[[Copies], object]] = {
    "begun": lambda copies: copies.begin(ONE, POSITION),
    "begun again": lambda copies: copies.begin_again(ONE, POSITION),
    "begun anew": lambda copies: copies.begin_anew(ONE),
    "completed": lambda copies: copies.complete(ONE, manifest()),
}


@pytest.mark.parametrize(
    ("before", "how"),
    [
        (Status.COMPLETED, "begun"),
        (Status.FAILED, "begun"),
        (Status.ONGOING, "begun"),
        (Status.COMPLETED, "begun again"),
        (Status.COMPLETED, "begun anew"),
        (Status.COMPLETED, "completed"),
        (Status.FAILED, "completed"),
        (Status.DOES_NOT_EXIST, "completed"),
    ],
)
def test_a_copy_is_begun_once_and_only_what_is_ongoing_is_completed(
    store: BackupStore, before: Status, how: str
) -> None:
    reserved(store, 1)
    match before:
        case Status.COMPLETED:
            copied(store, ONE)
        case Status.FAILED:
            store.copies.fail(ONE, "no space is left")
        case Status.ONGOING:
            store.copies.begin(ONE, POSITION)
    with pytest.raises(Refused):
        BEGINNINGS[how](store.copies)
    assert store.copies.partition(1, 2).status is before


@pytest.mark.parametrize("noted", [None, POSITION, POSITION - 1])
def test_a_copy_that_is_begun_again_is_ongoing_all_the_while(
    store: BackupStore, noted: int | None
) -> None:
    reserved(store, 1)
    store.copies.begin(ONE, noted)
    store.copies.put(ONE, "segments/0/half", b"half")
    store.copies.begin_again(ONE, POSITION)
    assert files_of(store) == ["checkpoints/1/2/0/ongoing.json", "checkpoints/1/take.json"]
    store.copies.complete(ONE, manifest(store.copies.put(ONE, "segments/0/records", b"records")))


def test_nothing_is_copied_for_a_checkpoint_that_is_not_asked_for_or_has_failed(
    store: BackupStore,
) -> None:
    with pytest.raises(Refused):
        store.copies.begin(ONE, POSITION)
    reserved(store, 1).copies.begin(ONE, POSITION)
    store.fail_checkpoint(1, "group payments lags behind")
    with pytest.raises(Refused):
        store.copies.complete(ONE, manifest())
    assert status(store) is Status.FAILED


# --- failures


def test_a_failure_wins_over_a_copy_that_is_completed_later(store: BackupStore) -> None:
    reserved(store, 1).copies.begin(ONE, POSITION)
    store.fail_partition(1, 2, OWNER_CHANGED)
    store.copies.complete(ONE, manifest())
    found = store.copies.partition(1, 2)
    assert [copy.copy.status for copy in found.copies] == [Status.COMPLETED]
    assert (found.status, found.failure) == (Status.FAILED, OWNER_CHANGED)


@pytest.mark.parametrize(
    ("records", "ends", "verdict"),
    [(RECORDS, Status.COMPLETED, None), ("b" * 64, Status.FAILED, DIFFERENT_COPIES)],
)
def test_s3_two_nodes_copies_of_the_same_records_are_one_backup_and_of_others_none(
    store: BackupStore, records: str, ends: Status, verdict: str | None
) -> None:
    reserved(store, 1)
    copied(store, ONE)
    copied(store, OTHER_NODES, records=records)
    found = store.copies.partition(1, 2)
    assert (found.status, found.verdict and found.verdict.reason) == (ends, verdict)


def test_a_new_owner_fails_what_is_not_completed_and_nothing_else(store: BackupStore) -> None:
    completed(store, 1)
    for id in (2, 3, 4):
        reserved(store, id).copies.begin(CopyId(id, 2, 0), POSITION)
    assert store.fail_unfinished(take(3), {2: 3}) == {2: (2, 3)}
    assert store.fail_unfinished(take(3), {2: 3}) == {2: ()}
    found = [store.copies.partition(id, 2).status for id in (1, 2, 3, 4)]
    assert found == [Status.COMPLETED, Status.FAILED, Status.FAILED, Status.ONGOING]


def test_a_new_owner_finds_its_partition_by_name_whatever_its_number(store: BackupStore) -> None:
    # A topic that sorts before it was added in between, so that every number moved.
    one, moved = NumberedPartition(1, "orders", 0), NumberedPartition(2, "orders", 0)
    for id, subjects in ((1, (one,)), (2, (NumberedPartition(1, "accounts", 0), moved))):
        assert store.reserve(take(id, subjects=subjects)) is None
    assert store.fail_unfinished(take(2, subjects=(moved,)), {2: 2}) == {2: (1, 2)}
    for id in (1, 2):
        assert [part.number for part in stored(store, id).partitions if part.failure] == [id]


# --- ids


def test_h04_ids_are_greater_than_everything_that_was_seen(store: BackupStore) -> None:
    reserved(store, 3)
    reserved(store, 5).fail_checkpoint(5, "a broker is gone")
    reserved(store, 7).delete(7)
    for id in (1, 3, 5, 6, 7):
        assert store.reserve(take(id, "another")) == NotHigher(id, 7)
    assert store.reserve(take(8), seen=[9]) == NotHigher(8, 9)
    assert store.reserve(take(10), seen=[9]) is None
    assert store.ids() == [3, 5, 7, 10]


def test_of_two_requests_for_one_id_one_gets_it(store: BackupStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: store.reserve(take(4, f"request {n}")), range(8)))
    assert found.count(None) == 1
    assert set(found) == {None, NotHigher(4, 4)}


def test_a_document_that_is_created_while_it_is_looked_for_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(str(tmp_path), ticking())
    name = of_checkpoint(4, CheckpointFile.TAKE)

    def created_in_between(blobs: LocalBlobs, asked: str) -> int | None:
        monkeypatch.undo()
        files.create(name, take(4))
        return blobs.size(asked)

    monkeypatch.setattr(LocalBlobs, "size", created_in_between)
    assert files.read(name) == take(4)


def test_an_id_that_was_overtaken_while_it_was_asked_for_has_failed(
    store: BackupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = store.ids()
    reserved(store, 9)
    answers = iter([before, [4, 9]])
    monkeypatch.setattr(store, "ids", lambda: next(answers))
    assert store.reserve(take(4)) == NotHigher(4, 9)
    assert status(store, 4) is Status.FAILED


# --- content


def test_i05_a_copy_is_not_completed_without_its_files(store: BackupStore) -> None:
    reserved(store, 1).copies.begin(ONE, POSITION)
    missing = StoredFile("segments/0/records", 7, "a" * 64)
    with pytest.raises(Refused, match=missing.name):
        store.copies.complete(ONE, manifest(missing))
    store.copies.put(ONE, missing.name, b"short")
    with pytest.raises(Refused, match="5 bytes"):
        store.copies.complete(ONE, manifest(missing))
    assert store.copies.partition(1, 2).status is Status.ONGOING


def test_h16_files_are_compared_with_the_manifest_that_was_read_once(store: BackupStore) -> None:
    """A store may give another manifest, with other hashes, the second time."""
    reserved(store, 1)
    copied(store, ONE)
    known = store.copies._read(ONE).manifest
    store.copies._files.remove([of_copy(ONE, CheckpointFile.MANIFEST)])
    with pytest.raises(Refused):
        store.copies.damaged(ONE)
    assert store.copies.damaged(ONE, known) is None


def test_i05_a_completed_copy_whose_bytes_have_changed_is_noticed(store: BackupStore) -> None:
    reserved(store, 1)
    copied(store, ONE)
    assert store.copies.damaged(ONE) is None
    name = "segments/0/records"
    size = store.copies.contents(ONE).size(name)
    assert size is not None
    store.copies.put(ONE, name, b"x" * size)
    assert store.copies.damaged(ONE) is not None
    store.copies.put(ONE, name, b"x")
    assert f"1 bytes long, not {size}" in str(store.copies.damaged(ONE))
    store.copies.contents(ONE).remove([name])
    assert store.copies.damaged(ONE) is not None
    store.copies.begin(OTHER_NODES, POSITION)
    with pytest.raises(Refused):
        store.copies.damaged(OTHER_NODES)


# --- deleting


def test_deleting_is_idempotent_and_leaves_the_id_taken(store: BackupStore) -> None:
    completed(store, 1)
    completed(store, 2)
    for _ in range(2):
        store.delete(1)
    store.delete(9)
    assert store.read(1) is None
    assert [checkpoint.id for checkpoint in store.all()] == [2]
    assert store.ids() == [1, 2]
    for how in ("begun", "completed"):
        with pytest.raises(Refused):
            BEGINNINGS[how](store.copies)
    assert of_first(store) == ["checkpoints/1/deleted.json", "checkpoints/1/take.json"]


def of_first(store: BackupStore) -> list[str]:
    """The files of checkpoint 1."""
    return [file for file in files_of(store) if file.split("/")[1] == "1"]


def test_what_is_written_of_a_deleted_checkpoint_does_not_stay(store: BackupStore) -> None:
    completed(store, 1)
    store.delete(1)
    before = files_of(store)
    store.start(1, {})
    store.decide(1, CutDocument(1, {}))
    store.fail_checkpoint(1, "its group lags")
    store.fail_partition(1, 2, OWNER_CHANGED)
    store.copies.fail(ONE, "no space is left")
    store.note_verified(1, VerifiedDocument(1, {}, 0, 0))
    assert files_of(store) == before


# --- what does not belong there


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"{", MalformedInput),
        (b"\xff", MalformedInput),
        (b"[]", MalformedInput),
        (b'{"schema": true}', MalformedInput),
        (b'{"schema": 1, "at_ms": "soon"}', MalformedInput),
        (b'{"schema": 1, "at_ms": 5, "more": 1}', MalformedInput),
        (b'{"schema": 1, "at_ms": 5, "more": "\\ud800"}', MalformedInput),
        (b'{"schema": 3}', UnsupportedSchema),
    ],
)
def test_a_file_that_says_nothing_sensible_is_named(
    store: BackupStore, content: bytes, error: type[Exception]
) -> None:
    reserved(store, 1)
    store.copies._files.blobs("checkpoints/1").create("started.json", content)
    with pytest.raises(error, match=r"checkpoints/1/started\.json(: [^: ]| has schema)"):
        store.read(1)


# --- two machines with one number

HERE, THERE = "a" * 32 + "@here", "b" * 32 + "@there"


def on(machine: str, store: BackupStore) -> BackupStore:
    """The same store, as *machine* has it open."""
    return BackupStore(store.address, lambda: 1_000, lambda: machine)


def test_a_copy_that_another_machine_has_begun_as_the_same_node_is_left_alone(
    store: BackupStore,
) -> None:
    here, there = on(HERE, store), on(THERE, store)
    reserved(here, 1).copies.begin(ONE, POSITION)
    held = here.copies.put(ONE, "segments/0/records", b"records")
    before = files_of(store)
    for act in BEGINNINGS.values():
        with pytest.raises(AlreadyRunning):
            act(there.copies)
    assert files_of(store) == before
    here.copies.complete(ONE, manifest(held))
    assert store.copies.damaged(ONE) is None


def test_of_two_machines_that_begin_at_the_same_moment_one_has_the_number(
    store: BackupStore,
) -> None:
    """Their documents would be equal but for the machine, and neither would notice the other."""
    reserved(store, 1)
    both = [on(machine, store) for machine in (HERE, THERE)]

    def begin(opened: BackupStore) -> bool:
        try:
            opened.copies.begin(ONE, POSITION)
        except Refused:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(begin, both)) == [False, True]


def test_a_copy_of_which_no_machine_is_known_is_anybodys(store: BackupStore) -> None:
    """An earlier release has begun it."""
    reserved(store, 1).copies.begin(ONE, POSITION)
    files = store.copies._files
    name = of_copy(ONE, CheckpointFile.ONGOING)
    begun = files.read(name)
    assert isinstance(begun, OngoingDocument)
    files.remove([name])
    assert files.create(name, replace(begun, machine=None))
    on(THERE, store).copies.begin_again(ONE, POSITION)
