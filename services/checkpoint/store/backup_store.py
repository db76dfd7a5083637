"""The checkpoints of a store, a folder or what fsspec supports: reserved, copied, read, deleted.

Most stores have no compare-and-set, so every file is created once, by one kind of writer, and a
file that says "failed" overrides the others. The manifest of a copy, which is written last, is its
only commit. Two machines must not work as the same node: a machine is whatever shares a state
folder, in which its workers exclude each other by a lock (`parts.alone`).
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from breakglass.services import patience
from breakglass.services.checkpoint.protocol import values
from breakglass.services.checkpoint.protocol.values import (
    NO_CHECKPOINT,
    CopyId,
    NotHigher,
    Status,
    may_become,
)
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    DeletedDocument,
    ManifestDocument,
    NumberedPartition,
    OngoingDocument,
    StartedDocument,
    StoredFile,
    TakeDocument,
    TransactionFloors,
    VerifiedDocument,
)
from breakglass.services.checkpoint.store.files import (
    SIDE_BY_SIDE,
    CheckpointFile,
    Files,
    Name,
    contents,
    of_checkpoint,
    of_copy,
    stored_file,
)
from breakglass.services.checkpoint.store.stored import (
    MADE_BY,
    StoredCheckpoint,
    StoredCopy,
    StoredPartition,
    put_together,
    sums_of,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    AlreadyRunning,
    MalformedInput,
    Refused,
    StorageError,
    UnsupportedSchema,
    UsageError,
)
from breakglass.services.guard.lock import private_folder
from breakglass.services.regular_file import read_regular
from breakglass.services.state_folder import state_folder
from breakglass.services.topic_backup.store.blobs import Blobs
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs, answered
from breakglass.services.topic_backup.store.store import LocalStore, open_store


def require_no_file(address: str) -> None:
    """Return unless the address is a file instead of a folder.

    Raises:
        UsageError: it is a file.
        StorageError: the folder is of a file server that does not answer.
    """
    store = open_store(address)
    if isinstance(store, LocalStore) and answered(
        address, patience.STORE, lambda: store.path.exists() and not store.path.is_dir()
    ):
        raise UsageError(f"{address} is a file: name the folder that the checkpoints are kept in.")


def require_there(address: str) -> None:
    """Return if the store exists at *address*; object stores have no empty folders.

    Raises:
        UsageError: the address does not exist, or is a file.
        StorageError: the store does not answer.
    """
    require_no_file(address)
    store = open_store(address)
    if isinstance(store, LocalStore):
        if not store.path.is_dir():
            raise UsageError(
                f"There is no folder {address}: check the address, or have `breakglass checkpoint "
                "take` make it."
            )
    elif not store.folders() and not FsspecBlobs(store.where()).names():
        raise UsageError(
            f"There is nothing at {address}: check the address, or take the first checkpoint there."
        )


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits. A checkpoint may be deleted when it exceeds either limit."""

    keep: int | None = None
    """Keep this many of the newest completed checkpoints, and all newer than the last of them."""
    older_than_ms: int | None = None


def expired(
    checkpoints: Iterable[StoredCheckpoint], retention: Retention, now_ms: int
) -> tuple[int, ...]:
    """The ids that may be deleted, oldest first.

    Never the newest completed checkpoint, nor an ongoing one, nor one that cannot be read: nothing
    here decides what has happened to that.
    """
    read = [checkpoint for checkpoint in checkpoints if checkpoint.unread is None]
    statuses = {checkpoint.id: checkpoint.status for checkpoint in read}
    completed = sorted(id for id, status in statuses.items() if status is Status.COMPLETED)
    keep = None if retention.keep is None else max(retention.keep, 1)
    too_many = completed[-keep] if keep is not None and keep <= len(completed) else 0
    old = None if retention.older_than_ms is None else now_ms - retention.older_than_ms
    return tuple(
        one.id
        for one in sorted(read, key=lambda checkpoint: checkpoint.id)
        if one.id not in completed[-1:]
        and statuses[one.id] is not Status.ONGOING
        and (
            one.id < too_many
            or (old is not None and one.created_at_ms is not None and one.created_at_ms < old)
        )
    )


MOST_BYTES = 512
_NAME = re.compile(r"[0-9a-f]{32}@[^\s@]{0,255}")


def this_machine(folder: Path | None = None) -> str:
    """``ID@HOST``: the ID tells machines apart, the host name tells people which it is.

    *folder*: the state folder; None: the user's.

    Raises StorageError: the name cannot be read or kept.
    """
    path = private_folder(folder or state_folder()) / "machine"
    host = "".join(socket.gethostname().split()).replace("@", "")
    own = path.with_name(f".machine-{uuid4().hex}")
    try:
        if not path.exists():
            own.write_text(f"{uuid4().hex}@{host[:255]}\n")
            # Of two processes that make a name at the same time, the first one decides.
            with suppress(FileExistsError):
                os.link(own, path)
        found = read_regular(path, MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise StorageError(
            f"{path} cannot be used ({error.strerror}): check its rights, or remove it"
        ) from error
    finally:
        own.unlink(missing_ok=True)
    if not _NAME.fullmatch(found):
        raise StorageError(f"{path} holds no name of a machine: remove it")
    return found


def same_machine(one: str, other: str) -> bool:
    """Whether two names are of one machine, which may have got another host name."""
    return one.partition("@")[0] == other.partition("@")[0]


def host_of(machine: str) -> str:
    """The host name in a machine's name, for messages."""
    return machine.partition("@")[2] or "?"


NEW_ID = "take a checkpoint with a new id"


class Copies:
    """The copies of all nodes. Every method raises StorageError if the store does not answer."""

    def __init__(self, files: Files, machine: Callable[[], str] = this_machine) -> None:
        """*machine* names the machine on which this process runs; asked when a copy is begun."""
        self._files, self._machine = files, machine

    def partition(self, checkpoint: int, number: int) -> StoredPartition:
        """One partition's backup as far as it exists, for `protocol.values.begin`."""
        mine = self._files.names(checkpoint, number)
        documents = self._files.read_all([*mine, of_checkpoint(checkpoint, CheckpointFile.TAKE)])
        found = put_together(checkpoint, documents).partitions
        nothing = StoredPartition(number, None)
        return next((partition for partition in found if partition.number == number), nothing)

    def begin(self, id: CopyId, position: int | None, tool_version: str = "unknown") -> None:
        """Record that a copy is begun, up to *position*, exclusive; None if it is not known yet.

        Raises Refused: the status of the copy does not allow it to begin.
        """
        self.begin_all({id: position}, tool_version)

    def begin_all(
        self, positions: Mapping[CopyId, int | None], tool_version: str = "unknown"
    ) -> None:
        """Record that copies of one checkpoint are begun, all at the same time.

        Raises Refused: the status of a copy does not allow it to begin.
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

        Raises Refused: the copy is complete, or has failed.
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

        Raises Refused: the copy is complete, or has failed.
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

        Raises Refused: the copy is not ongoing, or a file of *manifest* is missing.
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
        held, listed = self.contents(id), list(manifest.files)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            sizes = list(pool.map(lambda one: held.size(one.name), listed))
        for one, size in zip(listed, sizes, strict=True):
            if size != one.size:
                there = "is missing" if size is None else f"has {size} bytes, not {one.size}"
                raise Refused(f"{held.where(one.name)} {there}: copy the partition again.")
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
        verdict = values.after_completion(backup, own)
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

    def damaged(self, id: CopyId, known: ManifestDocument | None = None) -> str | None:
        """What is wrong with a completed copy's files, every byte read; None if nothing is wrong.

        *known* is its manifest, if that was read before. Raises Refused: it is not completed.
        """
        manifest = known or self._read(id).manifest
        if manifest is None:
            raise Refused(f"the copy {_words(id)} is not completed: nothing says what it holds.")
        held = self.contents(id)
        for file in manifest.files:
            where, size = held.where(file.name), held.size(file.name)
            if size is None:
                return f"{where} is missing"
            if size != file.size:
                return f"{where} is {size} bytes long, not {file.size}"
            if stored_file(held, file.name) != file:
                return f"{where} has other bytes than were committed"
        return None

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


def _not_allowed(id: CopyId, now: Status, wanted: Status) -> Refused:
    return Refused(f"the copy {_words(id)} is {now} and cannot become {wanted}: {NEW_ID}.")


def _words(id: CopyId) -> str:
    return f"of partition {id.partition} by node {id.node} for checkpoint {id.checkpoint}"


class BackupStore:
    """The checkpoints at *address*, a path or a URL as for a topic backup.

    Every method raises StorageError if the store does not answer, and UsageError if the address is
    invalid.
    """

    def __init__(
        self,
        address: str,
        clock: Callable[[], int] = now_ms,
        machine: Callable[[], str] = this_machine,
    ) -> None:
        """*machine* names the machine on which this process runs."""
        self.address = address
        self._files = Files(address, clock)
        self.copies = Copies(self._files, machine)
        """The copies that workers write."""

    def ids(self) -> list[int]:
        """Every id that was ever requested here, in order; deleted and failed ids included."""
        return self._files.ids()

    def reserve(self, take: TakeDocument, seen: Iterable[int] = ()) -> NotHigher | None:
        """Reserve the id; it must be greater than all earlier ids here and all of *seen*.

        A repeated request is accepted, unless a greater id was requested before the checkpoint was
        acknowledged: the checkpoint has then failed. None means that this request has the id.
        """
        self._files.require_create_once()
        name = of_checkpoint(take.id, CheckpointFile.TAKE)
        ids = self.ids()
        known = [*ids, *seen]
        if take.id in ids and self._is_of(name, take.request):
            return self._overtaken(take.id, max(known))
        found = values.take(take.id, (), known)
        if isinstance(found, NotHigher):
            return found
        if not self._files.create(name, take) and not self._is_of(name, take.request):
            return NotHigher(take.id, take.id)
        # Another coordinator may have reserved a greater id in between.
        return self._overtaken(take.id, self.ids()[-1])

    def _overtaken(self, id: int, latest: int) -> NotHigher | None:
        """Whether *id* can no longer be acknowledged, because ids must increase in time."""
        if latest <= id or self._files.read(of_checkpoint(id, CheckpointFile.STARTED)) is not None:
            return None
        self.fail_checkpoint(
            id, f"checkpoint {latest} was asked for before this one was acknowledged"
        )
        return NotHigher(id, latest)

    def id_of(self, request: str) -> int | None:
        """The id that a request reserved, even if deleted since; None: no such request."""
        names = [of_checkpoint(id, CheckpointFile.TAKE) for id in self.ids()]
        takes = self._files.read_all(names).values()
        found = (
            take.id for take in takes if isinstance(take, TakeDocument) and take.request == request
        )
        return max(found, default=None)

    def _is_of(self, name: Name, request: str) -> bool:
        found = self._files.read(name)
        return isinstance(found, TakeDocument) and found.request == request

    def read(self, id: int) -> StoredCheckpoint | None:
        """A checkpoint; None if it does not exist or was deleted.

        Raises MalformedInput, UnsupportedSchema: one of its files cannot be read.
        """
        names = self._files.names(id)
        if not names or of_checkpoint(id, CheckpointFile.DELETED) in names:
            return None
        # What copies name was written before them: asked for after the list, it is there.
        asked = dict.fromkeys([*names, *(of_checkpoint(id, kind) for kind in MADE_BY)])
        documents = self._files.read_all(asked)
        try:
            return put_together(id, documents, every=True)
        except MalformedInput:
            if self._files.is_deleted(id):
                return None
            raise

    def all(self) -> tuple[StoredCheckpoint, ...]:
        """The checkpoints that were not deleted, the newest first; a damaged one hides no other."""
        checkpoints = []
        for id in reversed(self.ids()):
            try:
                found = self.read(id)
            except (MalformedInput, UnsupportedSchema) as error:
                found = StoredCheckpoint(id, None, (), unread=error)
            if found is not None:
                checkpoints.append(found)
        return tuple(checkpoints)

    def start(
        self,
        id: int,
        positions: Mapping[int, int],
        epochs: Mapping[int, int] | None = None,
        offsets: Mapping[str, Mapping[int, int]] | None = None,
        transactions: TransactionFloors | None = None,
    ) -> None:
        """Record that the checkpoint was acknowledged, and its marker's offset by partition.

        *epochs* are the leader epochs that wrote the offsets before the markers, where known.
        *offsets* are the groups' that were read with the positions, for an ordered checkpoint;
        *transactions* say where the transactions of a transactional one are read from.
        """
        document = StartedDocument(
            self._files.clock(),
            dict(positions),
            dict(epochs or {}),
            offsets=dict(offsets or {}),
            transactions=transactions,
        )
        self._files.create(of_checkpoint(id, CheckpointFile.STARTED), document)

    def decide(self, id: int, cut: CutDocument) -> CutDocument:
        """Store what is in the checkpoint; returns the decision that stands, perhaps another's."""
        name = of_checkpoint(id, CheckpointFile.CUT)
        self._files.create(name, cut)
        found = self._files.read(name)
        return found if isinstance(found, CutDocument) else cut

    def note_verified(self, id: int, found: VerifiedDocument) -> None:
        """Store the result of a verification; earlier results are removed."""
        name = Name(id, None, None, CheckpointFile.VERIFIED, found.at_ms)
        self._files.create(name, found)
        older = (name for name in self._files.names(id) if name.entry is CheckpointFile.VERIFIED)
        self._files.remove(one for one in older if one < name)

    def fail_checkpoint(self, id: int, reason: str) -> None:
        """Record that the checkpoint has failed permanently; the first reason stays."""
        self._files.fail(of_checkpoint(id, CheckpointFile.FAILURE), reason)

    def fail_partition(self, id: int, partition: int, reason: str) -> None:
        """Record that a partition has failed, whatever its copies say; the first reason stays."""
        self._files.fail(Name(id, partition, None, CheckpointFile.FAILURE), reason)

    def fail_unfinished(
        self, take: TakeDocument, last: Mapping[int, int]
    ) -> Mapping[int, tuple[int, ...]]:
        """Fail what former owners of partitions of *take* have not completed.

        *last* is the checkpoint that each owner has reached, by the partition's number. Earlier
        checkpoints of the same incarnation that contain the partition, under any number, fail too.
        Returns the ids whose backup of a partition has failed, by its number in *take*.
        """
        names = [
            of_checkpoint(id, CheckpointFile.TAKE)
            for id in self.ids()
            if id <= max(last.values(), default=NO_CHECKPOINT) and not self.is_deleted(id)
        ]
        same = [
            document
            for document in self._files.read_all(names).values()
            if isinstance(document, TakeDocument) and document.incarnation == take.incarnation
        ]
        return {
            partition.number: self._fail_partition_of(partition, same, last[partition.number])
            for partition in take.partitions
            if partition.number in last
        }

    def _fail_partition_of(
        self, subject: NumberedPartition, takes: Iterable[TakeDocument], last: int
    ) -> tuple[int, ...]:
        named = subject.topic_partition
        found = {take.id: take.numbers.get(named) for take in takes if take.id <= last}
        numbers = {id: number for id, number in found.items() if number is not None}
        backups = {id: self.copies.partition(id, one).backup for id, one in numbers.items()}
        unfinished = values.unfinished(backups.items(), last) if last != NO_CHECKPOINT else ()
        failed = [id for id in unfinished if id in backups]
        for id in failed:
            self.fail_partition(id, numbers[id], values.OWNER_CHANGED)
        return tuple(failed)

    def is_deleted(self, id: int) -> bool:
        return self._files.is_deleted(id)

    def delete(self, id: int) -> None:
        """Delete a checkpoint; a deleted or unknown checkpoint changes nothing.

        Its id stays taken. After a crash in between, the checkpoint counts as deleted, and the next
        deletion removes the remaining files.
        """
        if not self._files.names(id):
            return
        self._files.create(
            of_checkpoint(id, CheckpointFile.DELETED), DeletedDocument(self._files.clock())
        )
        self._files.remove_rest(id)

    def deleted_with_rest(self) -> tuple[int, ...]:
        """Deleted checkpoints with remaining files, for example after an interrupted deletion."""
        ids = self.ids()
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            found = pool.map(
                lambda id: self._files.is_deleted(id) and self._files.has_rest(id), ids
            )
            return tuple(id for id, left in zip(ids, found, strict=True) if left)
