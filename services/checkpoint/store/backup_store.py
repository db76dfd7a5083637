"""The checkpoints under one address: a folder, or whatever fsspec has a client for.

There is no compare-and-set on most stores: every file is created once, by one kind of writer, and
one that says "failed" wins over the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from breakglass.services.checkpoint.protocol import coordinator, worker
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import NO_CHECKPOINT
from breakglass.services.checkpoint.store.copies import Copies
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    DeletedDocument,
    NumberedPartition,
    StartedDocument,
    TakeDocument,
    VerifiedDocument,
)
from breakglass.services.checkpoint.store.files import SIDE_BY_SIDE, Files
from breakglass.services.checkpoint.store.layout import CheckpointFile, Name, of_checkpoint
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, put_together
from breakglass.services.clock import now_ms


class BackupStore:
    """The checkpoints at *address*, a path or a URL as of a topic backup.

    Every method raises StorageError where the store does not answer, and UsageError where the
    address is none.
    """

    def __init__(self, address: str, clock: Callable[[], int] = now_ms) -> None:
        self.address = address
        self._files = Files(address, clock)
        self.copies = Copies(self._files)
        """What the workers write."""

    def ids(self) -> list[int]:
        """Every id that was ever asked for here, deleted and failed ones too, in order."""
        return self._files.ids()

    def reserve(self, take: TakeDocument, seen: Iterable[int] = ()) -> NotHigher | None:
        """Take the id, which must be greater than all before it here and all of *seen*.

        The same request sent again is accepted, unless a greater id was asked for before it was
        acknowledged: then it has failed by that. None says that the id is this request's.
        """
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
        # Another coordinator may have taken a greater id in between.
        return self._overtaken(take.id, self.ids()[-1])

    def _overtaken(self, id: int, latest: int) -> NotHigher | None:
        """Whether *id* can be acknowledged no more, as ids have to increase in time."""
        if latest <= id or self._files.read(of_checkpoint(id, CheckpointFile.STARTED)) is not None:
            return None
        self.fail_checkpoint(
            id, f"checkpoint {latest} was asked for before this one was acknowledged"
        )
        return NotHigher(id, latest)

    def id_of(self, request: str) -> int | None:
        """The id that a request has taken, be it deleted by now; None: it was never sent here."""
        names = [of_checkpoint(id, CheckpointFile.TAKE) for id in self.ids()]
        takes = self._files.read_all(names).values()
        found = (
            one.id for one in takes if isinstance(one, TakeDocument) and one.request == request
        )
        return max(found, default=None)

    def _is_of(self, name: Name, request: str) -> bool:
        found = self._files.read(name)
        return isinstance(found, TakeDocument) and found.request == request

    def read(self, id: int) -> StoredCheckpoint | None:
        """A checkpoint; None where there is none, or where it was deleted.

        Raises:
            MalformedInput, UnsupportedSchema: a file of it cannot be read.
        """
        names = self._files.names(id)
        if not names or of_checkpoint(id, CheckpointFile.DELETED) in names:
            return None
        return put_together(id, self._files.read_all(names))

    def all(self) -> tuple[StoredCheckpoint, ...]:
        """The checkpoints that were not deleted, the newest first. Raises as `read`."""
        found = (self.read(id) for id in reversed(self.ids()))
        return tuple(one for one in found if one is not None)

    def start(
        self, id: int, positions: Mapping[int, int], epochs: Mapping[int, int] | None = None
    ) -> None:
        """Note that the checkpoint was acknowledged, and its marker's offset by partition.

        *epochs* are the leader epochs that wrote the offsets before them, where known.
        """
        document = StartedDocument(self._files.clock(), dict(positions), dict(epochs or {}))
        self._files.create(of_checkpoint(id, CheckpointFile.STARTED), document)

    def decide(self, id: int, cut: CutDocument) -> CutDocument:
        """Note what is in the checkpoint; returns what stands, which another may have noted."""
        name = of_checkpoint(id, CheckpointFile.CUT)
        self._files.create(name, cut)
        found = self._files.read(name)
        return found if isinstance(found, CutDocument) else cut

    def note_verified(self, id: int, found: VerifiedDocument) -> None:
        """Note how a verification has ended; those before it are forgotten."""
        name = Name(id, None, None, CheckpointFile.VERIFIED, found.at_ms)
        self._files.create(name, found)
        older = (one for one in self._files.names(id) if one.entry is CheckpointFile.VERIFIED)
        self._files.remove(one for one in older if one < name)

    def fail_checkpoint(self, id: int, reason: str) -> None:
        """Record that the checkpoint as a whole has failed, for good; the first reason stays."""
        self._files.fail(of_checkpoint(id, CheckpointFile.FAILURE), reason)

    def fail_partition(self, id: int, partition: int, reason: str) -> None:
        """Record that a partition has failed whatever its copies say; the first reason stays."""
        self._files.fail(Name(id, partition, None, CheckpointFile.FAILURE), reason)

    def fail_unfinished(
        self, take: TakeDocument, last: Mapping[int, int]
    ) -> Mapping[int, tuple[int, ...]]:
        """Fail what former owners of partitions of *take* have not completed.

        *last* is the checkpoint that each owner has come to, by the partition's number. Earlier
        checkpoints of the same incarnation fail, too, where they name the partition, by whatever
        number. Returns the ids whose backup of a partition has failed, by its number in *take*.
        """
        takes = self._takes(max(last.values(), default=NO_CHECKPOINT))
        same = [one for one in takes if one.incarnation == take.incarnation]
        named = (one for one in take.partitions if one.number in last)
        return {one.number: self._fail_partition_of(one, same, last[one.number]) for one in named}

    def _fail_partition_of(
        self, subject: NumberedPartition, takes: Iterable[TakeDocument], last: int
    ) -> tuple[int, ...]:
        numbers = {
            take.id: one.number
            for take in takes
            for one in take.partitions
            if take.id <= last and (one.topic, one.partition) == (subject.topic, subject.partition)
        }
        backups = {id: self.copies.partition(id, one).backup for id, one in numbers.items()}
        failed = [id for id in worker.unfinished(backups.items(), last) if id in backups]
        for id in failed:
            self.fail_partition(id, numbers[id], worker.OWNER_CHANGED)
        return tuple(failed)

    def _takes(self, last: int) -> list[TakeDocument]:
        """What was asked for up to *last*, and was not deleted."""
        names = [of_checkpoint(id, CheckpointFile.TAKE) for id in self.ids() if id <= last]
        found = self._files.read_all(
            one for one in names if not self._files.is_deleted(one.checkpoint)
        )
        return [one for one in found.values() if isinstance(one, TakeDocument)]

    def is_deleted(self, id: int) -> bool:
        """Whether a checkpoint was there, and was deleted."""
        return self._files.is_deleted(id)

    def delete(self, id: int) -> None:
        """Delete a checkpoint; again, or one that there never was, changes nothing.

        Its id stays taken. Killed in between, it is deleted all the same, and the rest of its
        files goes when it is deleted again.
        """
        if not self._files.names(id):
            return
        self._files.create(
            of_checkpoint(id, CheckpointFile.DELETED), DeletedDocument(self._files.clock())
        )
        self._files.remove_rest(id)

    def deleted_with_rest(self) -> tuple[int, ...]:
        """Deleted checkpoints that files are left of, as where the deletion was killed."""
        ids = self.ids()
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            found = pool.map(
                lambda id: self._files.is_deleted(id) and self._files.has_rest(id), ids
            )
            return tuple(id for id, left in zip(ids, found, strict=True) if left)
