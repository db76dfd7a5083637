"""Stores made for a test, with a clock that goes on by one at each look, and copies in them."""

import hashlib
import itertools
from collections.abc import Callable

from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    Level,
    ManifestDocument,
    NumberedPartition,
    StartedDocument,
    StoredFile,
    TakeDocument,
)
from breakglass.services.checkpoint.store.stored import StoredCheckpoint

POSITION = 100
RECORDS = "a" * 64
SUBJECTS = tuple(NumberedPartition(number, "orders", number - 1) for number in (1, 2, 3))


def ticking() -> Callable[[], int]:
    count = itertools.count(1_000)
    return lambda: next(count)


def take(
    id: int, request: str = "", subjects: tuple[NumberedPartition, ...] = SUBJECTS
) -> TakeDocument:
    return TakeDocument(id, Level.COORDINATED, subjects, request or f"request {id}", 1_000 + id)


def manifest(
    *files: StoredFile, records: str = RECORDS, position: int = POSITION
) -> ManifestDocument:
    return ManifestDocument(
        created_at_ms=0,
        completed_at_ms=0,
        position=position,
        start=0,
        records=position,
        records_digest=records,
        files=files,
        snapshot="state-99",
        tool_version="1.0",
    )


def stored(store: BackupStore, id: int = 1) -> StoredCheckpoint:
    """A checkpoint that is there."""
    found = store.read(id)
    assert found is not None
    return found


def started(store: BackupStore, id: int = 1) -> StartedDocument:
    """The acknowledgement of a checkpoint."""
    found = stored(store, id).started
    assert found is not None
    return found


def failure(store: BackupStore, id: int = 1) -> str:
    """Why a checkpoint has failed as a whole."""
    found = stored(store, id)
    assert found.status is Status.FAILED
    assert found.failed is not None
    return found.failed.reason


def reserved(store: BackupStore, id: int) -> BackupStore:
    assert store.reserve(take(id)) is None
    return store


def copied(store: BackupStore, id: CopyId, *, records: str = RECORDS) -> None:
    """A completed copy with one segment of a few bytes."""
    store.copies.begin(id, POSITION, "1.0")
    content = f"segment of {id}".encode()
    file = store.copies.put(id, "segments/0/records", content)
    assert file.sha256 == hashlib.sha256(content).hexdigest()
    store.copies.complete(id, manifest(file, records=records))


def completed(store: BackupStore, id: int, node: int = 0) -> None:
    """A checkpoint all of whose partitions have a copy."""
    reserved(store, id)
    for subject in SUBJECTS:
        copied(store, CopyId(id, subject.number, node))
