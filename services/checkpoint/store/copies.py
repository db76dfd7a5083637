"""The copies in a store of checkpoints, as the workers write them.

This module enforces the allowed changes of a copy's status. The manifest, which is written last, is
the only commit of a copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from breakglass.services.checkpoint.machine import host_of, same_machine, this_machine
from breakglass.services.checkpoint.protocol import worker
from breakglass.services.checkpoint.protocol.status import may_become
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.documents import (
    ManifestDocument,
    OngoingDocument,
    StoredFile,
)
from breakglass.services.checkpoint.store.files import SIDE_BY_SIDE, Files, stored_file
from breakglass.services.checkpoint.store.layout import (
    CheckpointFile,
    Name,
    contents,
    of_checkpoint,
    of_copy,
)
from breakglass.services.checkpoint.store.stored import (
    MADE_BY,
    StoredCopy,
    StoredPartition,
    put_together,
    sums_of,
)
from breakglass.services.errors import AlreadyRunning, Refused
from breakglass.services.topic_backup.store.blobs import Blobs

NEW_ID = "take a checkpoint with a new id"


class Copies:
    """The copies of all nodes. Every method raises StorageError if the store does not answer."""

    def __init__(self, files: Files, machine: Callable[[], str] = this_machine) -> None:
        """*machine* names the machine on which this process runs; asked when a copy is begun."""
        self._files, self._machine = files, machine

    def partition(self, checkpoint: int, number: int) -> StoredPartition:
        """One partition's backup as far as it exists, for `protocol.worker.begin`."""
        mine = self._files.names(checkpoint, number)
        documents = self._files.read_all([*mine, of_checkpoint(checkpoint, CheckpointFile.TAKE)])
        found = put_together(checkpoint, documents).partitions
        nothing = StoredPartition(number, None)
        return next((partition for partition in found if partition.number == number), nothing)

    def begin(self, id: CopyId, position: int | None, tool_version: str = "unknown") -> None:
        """Record that a copy is begun, up to *position*, exclusive; None if it is not known yet.

        Raises:
            Refused: the status of the copy does not allow it to begin.
        """
        self.begin_all({id: position}, tool_version)

    def begin_all(
        self, positions: Mapping[CopyId, int | None], tool_version: str = "unknown"
    ) -> None:
        """Record that copies of one checkpoint are begun, all at the same time.

        Raises:
            Refused: the status of a copy does not allow it to begin.
        """
        for checkpoint in {id.checkpoint for id in positions}:
            self._require_live(checkpoint)
            there = {name.copy for name in self._files.names(checkpoint)}
            self._refuse(id for id in positions if id in there)
        now, machine = self._files.clock(), self._machine()
        documents = {
            of_copy(id, CheckpointFile.ONGOING): OngoingDocument(
                now, position, tool_version, machine
            )
            for id, position in positions.items()
        }
        others = self._files.create_all(documents)
        self._refuse(other.copy for other in others if other.copy is not None)

    def _refuse(self, ids: Iterable[CopyId]) -> None:
        id = next(iter(ids), None)
        if id is not None:
            found = self._read(id)
            self.require_own([found])
            raise _not_allowed(id, found.copy.status, Status.ONGOING)

    def require_own(self, copies: Iterable[StoredCopy]) -> None:
        """Return if no other machine has begun one of the ongoing *copies* of a node.

        Raises:
            AlreadyRunning: another machine works under the same node number; or it did so once,
                and this machine cannot tell whether it still does.
        """
        for copy in copies:
            begun = copy.ongoing
            if begun is None or begun.machine is None or copy.copy.status is not Status.ONGOING:
                continue
            if not same_machine(begun.machine, own := self._machine()):
                raise AlreadyRunning(
                    f"node {copy.id.node} of checkpoint {copy.id.checkpoint} is another machine, "
                    f"{host_of(begun.machine)}; this one is {host_of(own)}, and two machines with "
                    "one number would replace each other's files: give this one a number of its "
                    "own with --node, by which it also takes over if the other one is gone."
                )

    def begin_anew(self, id: CopyId) -> None:
        """Remove this node's files of an incomplete copy.

        Raises:
            Refused: the copy is complete, or has failed.
        """
        found = self._read(id)
        self.require_own([found])
        status = found.copy.status
        if status not in (Status.ONGOING, Status.DOES_NOT_EXIST):
            raise _not_allowed(id, status, Status.ONGOING)
        held = self.contents(id)
        held.remove(held.names())
        self._files.remove([of_copy(id, CheckpointFile.ONGOING)])

    def begin_again(self, id: CopyId, position: int | None, tool_version: str = "unknown") -> None:
        """Restart a copy; the record of its begin stays, unless it names another position.

        A reader therefore always finds a record of the copy.

        Raises:
            Refused: the copy is complete, or has failed.
        """
        found = self._read(id)
        self.require_own([found])
        noted = found.ongoing
        ongoing = found.copy.status is Status.ONGOING
        if noted is None or not ongoing or noted.position not in (None, position):
            self.begin_anew(id)
            self.begin(id, position, tool_version)
            return
        self._require_live(id.checkpoint)
        held = self.contents(id)
        held.remove(held.names())

    def contents(self, id: CopyId) -> Blobs:
        """The address of a copy's content."""
        return self._files.blobs(contents(id))

    def put(self, id: CopyId, name: str, content: bytes) -> StoredFile:
        """Write one small file of a copy, such as a saved state."""
        new = self.contents(id).begin(name)
        try:
            new.write(memoryview(content))
            new.close()
        except BaseException:
            new.abandon()
            raise
        return StoredFile(name, len(content), hashlib.sha256(content).hexdigest())

    def complete(self, id: CopyId, manifest: ManifestDocument) -> None:
        """Commit a copy: every file must exist, and is checked.

        Another node's completed copy with other records makes the partition fail.

        Raises:
            Refused: the copy is not ongoing, or a file of *manifest* is missing.
        """
        self._require_live(id.checkpoint)
        found = self._read(id)
        self.require_own([found])
        if found.ongoing is None or not may_become(found.copy.status, Status.COMPLETED):
            raise _not_allowed(id, found.copy.status, Status.COMPLETED)
        if found.ongoing.position not in (None, manifest.position):
            raise Refused(
                f"the copy {_words(id)} was begun up to {found.ongoing.position}, "
                f"not {manifest.position}: {NEW_ID}."
            )
        self._require_files(id, manifest.files)
        names = [of_checkpoint(id.checkpoint, entry) for entry in MADE_BY]
        dated = replace(
            manifest,
            created_at_ms=found.ongoing.at_ms,
            completed_at_ms=self._files.clock(),
            made_by=sums_of(self._files.read_all(names)),
        )
        if not self._files.create(of_copy(id, CheckpointFile.MANIFEST), dated):
            raise _not_allowed(id, Status.COMPLETED, Status.COMPLETED)
        self._require_live(id.checkpoint)
        backup = self.partition(id.checkpoint, id.partition).backup
        own = next((copy for copy in backup.copies if copy.id == id), None)
        if own is None or own.status is not Status.COMPLETED or backup.failure is not None:
            return
        verdict = worker.after_completion(backup, own)
        if verdict is not None:
            self._files.fail(
                Name(id.checkpoint, id.partition, None, CheckpointFile.FAILURE), verdict
            )

    def fail(self, id: CopyId, reason: str, position: int | None = None) -> None:
        """Record that a copy has failed permanently, even if it was never begun."""
        self._files.fail(of_copy(id, CheckpointFile.FAILURE), reason, position)

    def remove_if_deleted(self, id: CopyId) -> None:
        """Remove what a copy has written after its checkpoint was deleted."""
        if self._files.is_deleted(id.checkpoint):
            self._files.remove_rest(id.checkpoint)

    def damaged(self, id: CopyId) -> str | None:
        """What is wrong with a completed copy's files, every byte read; None if nothing is wrong.

        Raises:
            Refused: the copy is not completed.
        """
        manifest = self._read(id).manifest
        if manifest is None:
            raise Refused(f"the copy {_words(id)} is not completed: nothing says what it holds.")
        held = self.contents(id)
        wrong = (_wrong(held, file) for file in manifest.files)
        return next((text for text in wrong if text is not None), None)

    def _read(self, id: CopyId) -> StoredCopy:
        entries = (CheckpointFile.ONGOING, CheckpointFile.MANIFEST, CheckpointFile.FAILURE)
        documents = self._files.read_all(of_copy(id, entry) for entry in entries)
        partitions = put_together(id.checkpoint, documents).partitions
        copies = (copy for partition in partitions for copy in partition.copies)
        return next(copies, StoredCopy(id, None, None, None))

    def _require_live(self, checkpoint: int) -> None:
        """Raises Refused if the checkpoint was never requested, has failed or was deleted."""
        entries = (CheckpointFile.TAKE, CheckpointFile.FAILURE, CheckpointFile.DELETED)
        found = self._files.read_all(of_checkpoint(checkpoint, entry) for entry in entries)
        there = {name.entry for name in found}
        if there != {CheckpointFile.TAKE}:
            why = "has failed" if CheckpointFile.FAILURE in there else "was deleted"
            why = why if CheckpointFile.TAKE in there else "was never asked for"
            raise Refused(f"checkpoint {checkpoint} {why}: {NEW_ID}.")

    def _require_files(self, id: CopyId, files: Iterable[StoredFile]) -> None:
        held, listed = self.contents(id), list(files)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            sizes = list(pool.map(lambda one: held.size(one.name), listed))
        for one, size in zip(listed, sizes, strict=True):
            if size != one.size:
                there = "is missing" if size is None else f"has {size} bytes, not {one.size}"
                raise Refused(f"{held.where(one.name)} {there}: copy the partition again.")


def _not_allowed(id: CopyId, now: Status, wanted: Status) -> Refused:
    return Refused(f"the copy {_words(id)} is {now} and cannot become {wanted}: {NEW_ID}.")


def _words(id: CopyId) -> str:
    return f"of partition {id.partition} by node {id.node} for checkpoint {id.checkpoint}"


def _wrong(held: Blobs, file: StoredFile) -> str | None:
    size = held.size(file.name)
    if size != file.size:
        there = "missing" if size is None else f"{size} bytes long, not {file.size}"
        return f"{held.where(file.name)} is {there}"
    same = stored_file(held, file.name) == file
    return None if same else f"{held.where(file.name)} has other bytes than were committed"
