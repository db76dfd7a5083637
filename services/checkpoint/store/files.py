"""The files of a store of checkpoints: Backup[N][p][b] of the ZEP, as folders.

::

    checkpoints/N/take.json           the requested partitions, and the request; reserves the id
    checkpoints/N/started.json        acknowledged: the checkpoint's position in each partition
    checkpoints/N/cut.json            the cut of each partition, and group offsets
    checkpoints/N/failure.json        the checkpoint as a whole has failed
    checkpoints/N/verified-T.json     verified at time T: the newest file counts
    checkpoints/N/deleted.json        deleted: this file stays, so that the id is never reused
    checkpoints/N/p/failure.json      the verdict on a partition, overrides its copies
    checkpoints/N/p/b/ongoing.json    node b has begun to copy partition p
    checkpoints/N/p/b/manifest.json   the only commit: every file of the copy with its SHA-256
    checkpoints/N/p/b/failure.json    the copy has failed
    contents/N/p/b/...                the content of the copy

Each file is written once and never changed, and has one kind of writer.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.documents import (
    MAX_BYTES,
    CutDocument,
    DeletedDocument,
    Document,
    FailureDocument,
    ManifestDocument,
    OngoingDocument,
    StartedDocument,
    StoredFile,
    TakeDocument,
    VerifiedDocument,
    decode,
    encode,
)
from breakglass.services.errors import StorageError
from breakglass.services.topic_backup.folder import read_bounded
from breakglass.services.topic_backup.store.blobs import Blobs, LocalBlobs, require_create_once
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs
from breakglass.services.topic_backup.store.store import LocalStore, local_path, open_store

CHECKPOINTS, CONTENTS = "checkpoints", "contents"


class CheckpointFile(StrEnum):
    """The kind of a file below ``checkpoints``."""

    TAKE = "take"
    STARTED = "started"
    CUT = "cut"
    FAILURE = "failure"
    VERIFIED = "verified"
    DELETED = "deleted"
    ONGOING = "ongoing"
    MANIFEST = "manifest"


_OF_COPIES = frozenset({CheckpointFile.ONGOING, CheckpointFile.MANIFEST, CheckpointFile.FAILURE})
_BY_DEPTH = (
    (frozenset(CheckpointFile) - _OF_COPIES) | {CheckpointFile.FAILURE},
    frozenset({CheckpointFile.FAILURE}),
    _OF_COPIES,
)
_NUMBER = r"(0|[1-9][0-9]{0,18})"
_NAME = re.compile(
    rf"{_NUMBER}/(?:{_NUMBER}/(?:{_NUMBER}/)?)?([a-z]+)(?:-{_NUMBER})?\.json", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """A file below ``checkpoints``: of a checkpoint, of one of its partitions, or of a copy."""

    checkpoint: int
    partition: int | None
    node: int | None
    entry: CheckpointFile
    at_ms: int | None = None
    """The time, for a kind that is written repeatedly, one file each."""

    def __str__(self) -> str:
        parts = [
            number for number in (self.checkpoint, self.partition, self.node) if number is not None
        ]
        when = "" if self.at_ms is None else f"-{self.at_ms}"
        return "/".join([*map(str, parts), f"{self.entry}{when}.json"])

    @property
    def copy(self) -> CopyId | None:
        if self.partition is None or self.node is None:
            return None
        return CopyId(self.checkpoint, self.partition, self.node)


def of_checkpoint(id: int, entry: CheckpointFile) -> Name:
    """The name of a file of a whole checkpoint."""
    return Name(id, None, None, entry)


def of_copy(id: CopyId, entry: CheckpointFile) -> Name:
    """The name of a file of a copy."""
    return Name(id.checkpoint, id.partition, id.node, entry)


def parsed(name: str) -> Name | None:
    """The meaning of a file name; None for a foreign file, such as the remainder of a crash."""
    match = _NAME.fullmatch(name)
    if match is None or match[4] not in set(CheckpointFile):
        return None
    numbers = [int(group) if group else None for group in (*match.groups()[:3], match[5])]
    checkpoint, partition, node, at_ms = numbers
    entry, depth = CheckpointFile(match[4]), sum(number is not None for number in numbers[:3]) - 1
    if checkpoint is None or entry not in _BY_DEPTH[depth]:
        return None
    if (at_ms is not None) != (entry is CheckpointFile.VERIFIED):
        return None
    return Name(checkpoint, partition, node, entry, at_ms)


def contents(id: CopyId) -> str:
    """The folder of a copy's content."""
    return f"{CONTENTS}/{id.checkpoint}/{id.partition}/{id.node}"


SIDE_BY_SIDE = 16
"""Parallel reads or writes: each file takes a round trip, or a flush (H14)."""
MAX_REASON = 1000
"""Characters of a failure's reason."""
CHUNK_BYTES = 1024 * 1024
KEPT = frozenset({CheckpointFile.TAKE, CheckpointFile.DELETED})
"""The files of a deleted checkpoint that stay."""
KINDS: Mapping[CheckpointFile, type[Document]] = {
    CheckpointFile.TAKE: TakeDocument,
    CheckpointFile.STARTED: StartedDocument,
    CheckpointFile.CUT: CutDocument,
    CheckpointFile.FAILURE: FailureDocument,
    CheckpointFile.VERIFIED: VerifiedDocument,
    CheckpointFile.DELETED: DeletedDocument,
    CheckpointFile.ONGOING: OngoingDocument,
    CheckpointFile.MANIFEST: ManifestDocument,
}


def blobs_at(address: str) -> Blobs:
    """The files below *address*. Raises UsageError if the address is invalid."""
    store = open_store(address)
    return LocalBlobs(store.path) if isinstance(store, LocalStore) else FsspecBlobs(store.where())


def stored_file(held: Blobs, name: str) -> StoredFile:
    """A file as it is now, every byte read. Raises StorageError."""
    digest, size = hashlib.sha256(), 0
    with held.open(name) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return StoredFile(name, size, digest.hexdigest())


class Files:
    """The files below *address*.

    Every method raises StorageError if the store does not answer.
    """

    def __init__(self, address: str, clock: Callable[[], int]) -> None:
        self.clock = clock
        self._address = address.rstrip("/") or "/"
        self._documents = self.blobs(CHECKPOINTS)

    def blobs(self, folder: str) -> Blobs:
        """The files below a folder. Raises UsageError if the address is invalid."""
        return blobs_at(f"{self._address}/{folder}")

    def require_create_once(self) -> None:
        """Return if of two writers of one name only one succeeds: all else relies on it.

        A local folder has links for that.

        Raises StorageError: the store overwrites objects that must not be.
        """
        if isinstance(self._documents, FsspecBlobs):
            require_create_once(self._documents)

    def ids(self) -> list[int]:
        """The ids of checkpoints with files, in order, deleted ones too."""
        folders = open_store(f"{self._address}/{CHECKPOINTS}").folders()
        return sorted(
            int(folder) for folder in folders if parsed(f"{folder}/{CheckpointFile.TAKE}.json")
        )

    def names(self, id: int, partition: int | None = None) -> list[Name]:
        """The documents of one checkpoint, or of one of its partitions.

        Remainders of killed writers are left out.
        """
        folder = str(id) if partition is None else f"{id}/{partition}"
        listed = self.blobs(f"{CHECKPOINTS}/{folder}").names()
        found = (parsed(f"{folder}/{text}") for text in listed)
        return [name for name in found if name is not None]

    def read(self, name: Name) -> Document | None:
        """A document; None if it does not exist.

        Raises MalformedInput, UnsupportedSchema: its content does not match its name.
        """
        try:
            content = self._content(name)
        except StorageError:
            if self._documents.size(str(name)) is None:
                return None
            # Another process may have created it after it was opened in vain.
            content = self._content(name)
        return decode(KINDS[name.entry], content, self._documents.where(str(name)))

    def _content(self, name: Name) -> bytes:
        with self._documents.open(str(name)) as file:
            return read_bounded(file, self._documents.where(str(name)), MAX_BYTES)

    def read_all(self, names: Iterable[Name]) -> dict[Name, Document]:
        """The documents of *names* that exist. Raises as `read`."""
        wanted = list(names)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            found = zip(wanted, pool.map(self.read, wanted), strict=True)
            return {name: one for name, one in found if one is not None}

    def create(self, name: Name, document: Document) -> bool:
        """Write a document unless it already exists; returns whether it was written.

        A document that is written after the checkpoint's deletion is removed again.
        """
        new = self._documents.create(str(name), encode(document))
        self._remove_behind_deletion([name])
        return new

    def create_all(self, documents: Mapping[Name, Document]) -> list[Name]:
        """Write many documents in parallel; existing documents stay. As `create`."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            contents = {str(name): encode(one) for name, one in documents.items()}
            created = pool.map(lambda item: self._documents.create(*item), contents.items())
            others = [name for name, new in zip(documents, created, strict=True) if not new]
        self._remove_behind_deletion(documents)
        return others

    def _remove_behind_deletion(self, written: Iterable[Name]) -> None:
        # A deletion writes its record before it lists files, so either it or this check sees the
        # other.
        for id in {name.checkpoint for name in written if name.entry not in KEPT}:
            if self.is_deleted(id):
                self.remove_rest(id)

    def is_deleted(self, id: int) -> bool:
        """Whether a checkpoint was deleted, even if some of its files remain."""
        return self._documents.size(str(of_checkpoint(id, CheckpointFile.DELETED))) is not None

    def remove_rest(self, id: int) -> None:
        """Remove all files of a checkpoint except the documents that keep its id taken."""
        self._documents.remove(self._rest_of_documents(id))
        held = self.blobs(f"{CONTENTS}/{id}")
        held.remove(held.names())
        # Object stores have no empty folders.
        roots = (local_path(f"{self._address}/{folder}/{id}") for folder in (CHECKPOINTS, CONTENTS))
        for root in roots:
            for path, _, _ in os.walk(root, topdown=False) if root is not None else ():
                # Another process may have written to the folder, or removed it.
                with suppress(OSError):
                    os.rmdir(path)

    def has_rest(self, id: int) -> bool:
        """Whether there is a file that `remove_rest` would remove."""
        return bool(self._rest_of_documents(id) or self.blobs(f"{CONTENTS}/{id}").names())

    def _rest_of_documents(self, id: int) -> list[str]:
        kept = {str(of_checkpoint(id, file)) for file in KEPT}
        listed = (f"{id}/{name}" for name in self.blobs(f"{CHECKPOINTS}/{id}").names())
        return [text for text in listed if text not in kept]

    def fail(self, name: Name, reason: str, position: int | None = None) -> None:
        self.create(name, FailureDocument(self.clock(), reason[:MAX_REASON], position))

    def remove(self, names: Iterable[Name]) -> None:
        """Remove documents; missing documents are ignored."""
        self._documents.remove([str(name) for name in names])
