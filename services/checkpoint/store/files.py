"""The files of a store of checkpoints: written once each, read many at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

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
from breakglass.services.checkpoint.store.layout import (
    CHECKPOINTS,
    CONTENTS,
    CheckpointFile,
    Name,
    of_checkpoint,
    parsed,
)
from breakglass.services.errors import StorageError
from breakglass.services.topic_backup.folder import read_bounded
from breakglass.services.topic_backup.store.blobs import Blobs
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs
from breakglass.services.topic_backup.store.local_blobs import LocalBlobs
from breakglass.services.topic_backup.store.store import LocalStore, local_path, open_store

SIDE_BY_SIDE = 16
"""Files that are written or read at the same time: each takes a round trip, or a flush (H14)."""
MAX_REASON = 1000
"""Characters of a failure's reason."""
CHUNK_BYTES = 1024 * 1024
KEPT = frozenset({CheckpointFile.TAKE, CheckpointFile.DELETED})
"""What stays of a deleted checkpoint."""
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
    """The files below *address*. Raises UsageError where it is none."""
    store = open_store(address)
    return LocalBlobs(store.path) if isinstance(store, LocalStore) else FsspecBlobs(store.where())


def stored_file(held: Blobs, name: str) -> StoredFile:
    """A file as it is there now, every byte of it read. Raises StorageError."""
    digest, size = hashlib.sha256(), 0
    with held.open(name) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return StoredFile(name, size, digest.hexdigest())


class Files:
    """What lies below *address*.

    Every method raises StorageError where the store does not answer.
    """

    def __init__(self, address: str, clock: Callable[[], int]) -> None:
        self.clock = clock
        self._address = address.rstrip("/") or "/"
        self._documents = self.blobs(CHECKPOINTS)

    def blobs(self, folder: str) -> Blobs:
        """The files below a folder. Raises UsageError where the address is none."""
        return blobs_at(f"{self._address}/{folder}")

    def ids(self) -> list[int]:
        """The checkpoints that there are files of, deleted ones too, in order."""
        folders = open_store(f"{self._address}/{CHECKPOINTS}").folders()
        return sorted(int(one) for one in folders if parsed(f"{one}/{CheckpointFile.TAKE}.json"))

    def names(self, id: int, partition: int | None = None) -> list[Name]:
        """The documents of one checkpoint, or of one partition of it.

        What a killed writer left is not among them.
        """
        folder = str(id) if partition is None else f"{id}/{partition}"
        listed = self.blobs(f"{CHECKPOINTS}/{folder}").names()
        found = (parsed(f"{folder}/{one}") for one in listed)
        return [one for one in found if one is not None]

    def read(self, name: Name) -> Document | None:
        """A document; None where there is none.

        Raises:
            MalformedInput, UnsupportedSchema: it is not what its name says.
        """
        where = self._documents.where(str(name))
        try:
            with self._documents.open(str(name)) as file:
                content = read_bounded(file, where, MAX_BYTES)
        except StorageError:
            if self._documents.size(str(name)) is None:
                return None
            raise
        return decode(KINDS[name.entry], content, where)

    def read_all(self, names: Iterable[Name]) -> dict[Name, Document]:
        """Those of *names* that are there. Raises as `read`."""
        wanted = list(names)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            found = zip(wanted, pool.map(self.read, wanted), strict=True)
            return {name: one for name, one in found if one is not None}

    def create(self, name: Name, document: Document) -> bool:
        """Write a document unless it is there already; whether it was not.

        Of a deleted checkpoint nothing stays that is written later.
        """
        new = self._documents.create(str(name), encode(document))
        self._remove_behind_deletion([name])
        return new

    def create_all(self, documents: Mapping[Name, Document]) -> list[Name]:
        """Write many at a time; those that were there already. As `create`."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            contents = {str(name): encode(one) for name, one in documents.items()}
            created = pool.map(lambda one: self._documents.create(*one), contents.items())
            others = [name for name, new in zip(documents, created, strict=True) if not new]
        self._remove_behind_deletion(documents)
        return others

    def _remove_behind_deletion(self, written: Iterable[Name]) -> None:
        # Whoever deletes says so before looking for what there is: one of the two sees the other.
        for id in {name.checkpoint for name in written if name.entry not in KEPT}:
            if self.is_deleted(id):
                self.remove_rest(id)

    def is_deleted(self, id: int) -> bool:
        """Whether a checkpoint was deleted, be some of it there still."""
        return self._documents.size(str(of_checkpoint(id, CheckpointFile.DELETED))) is not None

    def remove_rest(self, id: int) -> None:
        """Remove whatever is there of a checkpoint but the documents that keep its id taken."""
        self._documents.remove(self._rest_of_documents(id))
        held = self.blobs(f"{CONTENTS}/{id}")
        held.remove(held.names())
        for folder in (CHECKPOINTS, CONTENTS):
            self._remove_empty(f"{folder}/{id}")

    def has_rest(self, id: int) -> bool:
        """Whether there is anything that `remove_rest` would remove."""
        return bool(self._rest_of_documents(id) or self.blobs(f"{CONTENTS}/{id}").names())

    def _rest_of_documents(self, id: int) -> list[str]:
        kept = {str(of_checkpoint(id, one)) for one in KEPT}
        listed = (f"{id}/{one}" for one in self.blobs(f"{CHECKPOINTS}/{id}").names())
        return [one for one in listed if one not in kept]

    def _remove_empty(self, folder: str) -> None:
        """Remove folders with nothing in them; object stores have none."""
        root = local_path(f"{self._address}/{folder}")
        if root is not None:
            for path, _, _ in os.walk(root, topdown=False):
                # Somebody may have written into it by now, or removed it.
                with suppress(OSError):
                    os.rmdir(path)

    def fail(self, name: Name, reason: str, position: int | None = None) -> None:
        """Write a failure; the first one stays."""
        self.create(name, FailureDocument(self.clock(), reason[:MAX_REASON], position))

    def remove(self, names: Iterable[Name]) -> None:
        """Remove documents; those that are gone already do not matter."""
        self._documents.remove([str(one) for one in names])
