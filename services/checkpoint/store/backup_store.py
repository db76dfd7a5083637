"""The checkpoints at one address: a folder, or any store that fsspec supports.

Most stores have no compare-and-set, so every file is created once, by one kind of writer, and a
file that says "failed" overrides the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from breakglass.services.checkpoint.machine import this_machine
from breakglass.services.checkpoint.protocol import coordinator, participant, worker
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import NO_CHECKPOINT
from breakglass.services.checkpoint.store.copies import Copies
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    DeletedDocument,
    NumberedPartition,
    StartedDocument,
    TakeDocument,
    TransactionFloors,
    VerifiedDocument,
)
from breakglass.services.checkpoint.store.files import SIDE_BY_SIDE, Files
from breakglass.services.checkpoint.store.layout import CheckpointFile, Name, of_checkpoint
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, put_together
from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput, UnsupportedSchema


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
        found = coordinator.take(take.id, (), known)
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

        Raises:
            MalformedInput, UnsupportedSchema: one of its files cannot be read.
        """
        names = self._files.names(id)
        if not names or of_checkpoint(id, CheckpointFile.DELETED) in names:
            return None
        return put_together(id, self._files.read_all(names))

    def all(self) -> tuple[StoredCheckpoint, ...]:
        """The checkpoints that were not deleted, the newest first; a damaged one hides no other."""
        found = (self._read_or_damaged(id) for id in reversed(self.ids()))
        return tuple(checkpoint for checkpoint in found if checkpoint is not None)

    def _read_or_damaged(self, id: int) -> StoredCheckpoint | None:
        try:
            return self.read(id)
        except (MalformedInput, UnsupportedSchema) as error:
            return StoredCheckpoint(id, None, (), unread=error)

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
        takes = self._takes(max(last.values(), default=NO_CHECKPOINT))
        same = [document for document in takes if document.incarnation == take.incarnation]
        named = (partition for partition in take.partitions if partition.number in last)
        return {
            partition.number: self._fail_partition_of(partition, same, last[partition.number])
            for partition in named
        }

    def _fail_partition_of(
        self, subject: NumberedPartition, takes: Iterable[TakeDocument], last: int
    ) -> tuple[int, ...]:
        numbers = {
            take.id: partition.number
            for take in takes
            for partition in take.partitions
            if take.id <= last
            and (partition.topic, partition.partition) == (subject.topic, subject.partition)
        }
        left = participant.recover(participant.CheckpointState(last))
        if left is None:
            return ()
        backups = {id: self.copies.partition(id, one).backup for id, one in numbers.items()}
        unfinished = worker.unfinished(backups.items(), left.checkpoint)
        failed = [id for id in unfinished if id in backups]
        for id in failed:
            self.fail_partition(id, numbers[id], worker.OWNER_CHANGED)
        return tuple(failed)

    def _takes(self, last: int) -> list[TakeDocument]:
        """The requests up to *last* whose checkpoints were not deleted."""
        names = [of_checkpoint(id, CheckpointFile.TAKE) for id in self.ids() if id <= last]
        found = self._files.read_all(
            name for name in names if not self._files.is_deleted(name.checkpoint)
        )
        return [document for document in found.values() if isinstance(document, TakeDocument)]

    def is_deleted(self, id: int) -> bool:
        """Whether a checkpoint existed and was deleted."""
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
