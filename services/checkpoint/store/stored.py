"""A checkpoint as a store knows it, combined from its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from breakglass.services.checkpoint.protocol import values
from breakglass.services.checkpoint.protocol.values import (
    Copy,
    CopyId,
    PartitionBackup,
    Status,
    counting_copy,
    partition_failure,
    partition_status,
)
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    Document,
    FailureDocument,
    Level,
    ManifestDocument,
    NumberedPartition,
    OngoingDocument,
    StartedDocument,
    TakeDocument,
    VerifiedDocument,
)
from breakglass.services.checkpoint.store.files import CheckpointFile, Name, of_checkpoint, of_copy
from breakglass.services.errors import MalformedInput, UsageError
from breakglass.services.model import TopicPartition


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """One node's copy of a partition."""

    id: CopyId
    ongoing: OngoingDocument | None
    manifest: ManifestDocument | None
    failure: FailureDocument | None

    @property
    def copy(self) -> Copy:
        """The copy as the protocol sees it: a failure overrides all else the node has written."""
        if self.failure is not None:
            reason = self.failure.reason
            return Copy(self.id, Status.FAILED, self.position, reason=reason)
        if self.manifest is not None:
            digest = self.manifest.records_digest
            return Copy(self.id, Status.COMPLETED, self.manifest.position, digest=digest)
        status = Status.DOES_NOT_EXIST if self.ongoing is None else Status.ONGOING
        return Copy(self.id, status, self.position)

    @property
    def position(self) -> int | None:
        """The position in the partition; None if the copy failed before it was known."""
        found = (self.manifest, self.ongoing, self.failure)
        return next((document.position for document in found if document is not None), None)

    @property
    def created_at_ms(self) -> int | None:
        if self.manifest is not None:
            return self.manifest.created_at_ms
        if self.ongoing is not None:
            return self.ongoing.at_ms
        return None if self.failure is None else self.failure.at_ms

    @property
    def updated_at_ms(self) -> int | None:
        if self.failure is not None:
            return self.failure.at_ms
        return self.created_at_ms if self.manifest is None else self.manifest.completed_at_ms

    @property
    def tool_version(self) -> str | None:
        found = (self.manifest, self.ongoing)
        return next((document.tool_version for document in found if document is not None), None)

    @property
    def size(self) -> int | None:
        """Bytes of a completed copy."""
        return None if self.manifest is None else sum(file.size for file in self.manifest.files)


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """One partition's backup."""

    number: int
    subject: NumberedPartition | None
    """None: the checkpoint does not list such a partition."""
    copies: tuple[StoredCopy, ...] = ()
    verdict: FailureDocument | None = None
    given_up: bool = False
    """The checkpoint has failed: ongoing copies of the partition are void."""

    @property
    def name(self) -> str:
        """``orders-3``; the number if the checkpoint does not list the partition."""
        subject = self.subject
        return f"number {self.number}" if subject is None else str(subject.topic_partition)

    @property
    def backup(self) -> PartitionBackup:
        failure = None if self.verdict is None else self.verdict.reason
        return PartitionBackup(self.number, tuple(copy.copy for copy in self.copies), failure)

    @property
    def status(self) -> Status:
        found = partition_status(self.backup)
        return Status.FAILED if self.given_up and found is Status.ONGOING else found

    @property
    def failure(self) -> str | None:
        """Why the partition has failed; None if it has not, or only the checkpoint has."""
        return partition_failure(self.backup)

    @property
    def counting(self) -> StoredCopy | None:
        """The copy that represents the partition, and that a restore uses."""
        best = counting_copy(self.backup)
        return next((copy for copy in self.copies if best is not None and copy.id == best.id), None)


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint that was not deleted."""

    id: int
    take: TakeDocument | None
    """None: copies exist although the checkpoint was never requested."""
    partitions: tuple[StoredPartition, ...]
    """All partitions of the checkpoint, and all with files, by number."""
    started: StartedDocument | None = None
    cut: CutDocument | None = None
    """None: the content of the checkpoint is not decided yet."""
    failed: FailureDocument | None = None
    """Failure of the whole checkpoint: groups lag, foreign writes, or partitions were added."""
    read_last: VerifiedDocument | None = None
    unread: UsageError | None = None
    """Why one of its documents cannot be read; then nothing else is known of it."""

    @property
    def level(self) -> Level | None:
        """None: the checkpoint was never requested."""
        return None if self.take is None else self.take.level

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """The partitions that it lists."""
        return [part.subject.topic_partition for part in self.partitions if part.subject]

    @property
    def completed(self) -> int:
        return sum(partition.status is Status.COMPLETED for partition in self.partitions)

    @property
    def verified(self) -> VerifiedDocument | None:
        """The last verification of the representing copies; None: they were never verified."""
        counting = {partition.number: partition.counting for partition in self.partitions}
        nodes = {number: one.id.node for number, one in counting.items() if one is not None}
        last = self.read_last
        return last if last is not None and last.copies == nodes else None

    @property
    def state(self) -> str:
        """Its status in words; ``damaged`` or ``unreadable`` if its documents cannot be read."""
        if self.unread is None:
            return self.status
        return "damaged" if isinstance(self.unread, MalformedInput) else "unreadable"

    @property
    def failure(self) -> str:
        """Why it has failed as a whole; empty if it has not."""
        reason = "" if self.failed is None else self.failed.reason
        return reason if self.unread is None else str(self.unread)

    @property
    def status(self) -> Status:
        if self.failure:
            return Status.FAILED
        backups = [partition.backup for partition in self.partitions]
        return values.status([partition.number for partition in self.partitions], backups)

    @property
    def created_at_ms(self) -> int | None:
        return None if self.take is None else self.take.created_at_ms

    @property
    def proved(self) -> bool:
        """Whether sums prove every document that a restore reads; an older release wrote none.

        Always of what is not completed: nothing is restored from it.
        """
        if self.status is not Status.COMPLETED:
            return True
        made_by = zip(MADE_BY, (self.take, self.started, self.cut), strict=True)
        there = {str(file) for file, document in made_by if document is not None}
        manifests = [one.manifest for part in self.partitions if (one := part.counting) is not None]
        return all(one is not None and one.sum and one.made_by.keys() >= there for one in manifests)


MADE_BY = (CheckpointFile.TAKE, CheckpointFile.STARTED, CheckpointFile.CUT)
"""The documents of a checkpoint by which its copies are made."""


def sums_of(documents: Mapping[Name, Document]) -> dict[str, str]:
    """The sums of the documents by which copies are made, for a copy's manifest."""
    return {
        str(name.entry): one.sum
        for name, one in documents.items()
        if name.entry in MADE_BY and one.sum
    }


def put_together(
    id: int, documents: Mapping[Name, Document], *, every: bool = False
) -> StoredCheckpoint:
    """The checkpoint of that id, from its files: *every* one, or those of one partition.

    Raises MalformedInput: a copy was made by other documents, or one of them is missing.
    """
    sums = sums_of(documents)
    for name, one in documents.items():
        for kind, noted in one.made_by.items() if isinstance(one, ManifestDocument) else ():
            if sums.get(kind, "" if every else noted) != noted:
                raise MalformedInput(
                    f"checkpoints/{name.checkpoint}/{kind}.json is missing, or not the document "
                    f"that {name} names by its sum: take both files from another copy of the "
                    "store, or delete the checkpoint."
                )
    take = _only(documents, of_checkpoint(id, CheckpointFile.TAKE), TakeDocument)
    subjects = (
        {} if take is None else {partition.number: partition for partition in take.partitions}
    )
    found = {name.partition for name in documents if name.partition is not None}
    partitions = []
    for number in sorted(found | set(subjects)):
        nodes = {one.node for one in documents if one.partition == number and one.node is not None}
        copies = tuple(_copy(CopyId(id, number, node), documents) for node in sorted(nodes))
        verdict = _only(documents, Name(id, number, None, CheckpointFile.FAILURE), FailureDocument)
        partitions.append(StoredPartition(number, subjects.get(number), copies, verdict))
    started = _only(documents, of_checkpoint(id, CheckpointFile.STARTED), StartedDocument)
    cut = _only(documents, of_checkpoint(id, CheckpointFile.CUT), CutDocument)
    failed = _only(documents, of_checkpoint(id, CheckpointFile.FAILURE), FailureDocument)
    verified = (one for one in documents.values() if isinstance(one, VerifiedDocument))
    newest = max(verified, key=lambda document: document.at_ms, default=None)
    whole = StoredCheckpoint(id, take, tuple(partitions), started, cut, failed, newest)
    if whole.status is not Status.FAILED:
        return whole
    return replace(
        whole, partitions=tuple(replace(partition, given_up=True) for partition in partitions)
    )


def _copy(id: CopyId, documents: Mapping[Name, Document]) -> StoredCopy:
    return StoredCopy(
        id,
        _only(documents, of_copy(id, CheckpointFile.ONGOING), OngoingDocument),
        _only(documents, of_copy(id, CheckpointFile.MANIFEST), ManifestDocument),
        _only(documents, of_copy(id, CheckpointFile.FAILURE), FailureDocument),
    )


D = TypeVar("D", bound=Document)


def _only(documents: Mapping[Name, Document], name: Name, kind: type[D]) -> D | None:
    found = documents.get(name)
    return found if isinstance(found, kind) else None
