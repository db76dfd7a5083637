"""Finds copies of records that no journal of the incident names: rescues made beside it.

`rescue --plan`, `rescue --before-return` and `rescue --source log:DIR` write no journal. Their
folders have the topic's id, the broker, and the leader epoch of each batch. A copied record is the
record of a replica's log if both have the same leader epoch at the same offset (log matching,
`judgement.lineage`); nothing else is taken for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from breakglass.services.errors import BreakglassError
from breakglass.services.model import EpochRange, TopicPartition, Unknown
from breakglass.services.recovery.ledger.claims import PutBackClaim, folder_of
from breakglass.services.recovery.ledger.copies import RescueFolders
from breakglass.services.recovery.ledger.entries import CopiedSpan
from breakglass.services.recovery.ledger.holdings import Holdings
from breakglass.services.recovery.ledger.ranges import Ranges, common
from breakglass.services.recovery.rescue.rescued_folder import DEPTHS
from breakglass.services.topic_backup.batch_log import read_batch_log
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.summary import PartitionSummary

BROKER = "rescued from broker"
"""The field of a manifest's origin that names the broker."""


@dataclass(frozen=True, slots=True)
class CopyBeside:
    """One partition's records in a rescue that no journal names."""

    partition: TopicPartition
    folder: Path
    """``.../b<broker>/<topic>``."""
    broker: int | None
    """Whose log it was; None if the manifest does not say."""
    epochs: tuple[EpochRange, ...]
    """The copied offsets, by leader epoch, in order."""

    def spans(self, holdings: Holdings, within: Ranges | None = None) -> Iterator[CopiedSpan]:
        """The offsets of each readable log that this has a copy of; of those *within* alone."""
        says = str(self.folder / str(self.partition.partition))
        for log in holdings.replicas:
            if isinstance(log.epochs, Unknown) or isinstance(log.log_end, Unknown):
                continue
            for theirs in log.epochs.ranges:
                ours = [
                    (copied.start, copied.end)
                    for copied in self.epochs
                    if copied.epoch == theirs.epoch
                ]
                shared = list(common(ours, [(theirs.start, theirs.end)]))
                for start, end in shared if within is None else common(shared, within):
                    yield CopiedSpan(log.broker, start, end, says)

    def put_back(self, claim: PutBackClaim, holdings: Holdings) -> Iterator[CopiedSpan]:
        """What *claim*, a proved restore from this folder, put back of the logs."""
        if claim.proved and not isinstance(claim.spans, Unknown):
            for span in self.spans(holdings, claim.spans):
                yield CopiedSpan(span.broker, span.start, span.end, claim.journal.stem)

    def is_source_of(self, claim: PutBackClaim) -> bool:
        """Whether *claim* restored from this folder, which may have been moved since."""
        return claim.partition == self.partition and claim.folder == folder_of(self.folder)


@dataclass(frozen=True, slots=True)
class CopiesBeside:
    """All that was found below the folders that were named."""

    copies: Mapping[TopicPartition, tuple[CopyBeside, ...]]
    notes: tuple[str, ...]


def copies_beside(
    roots: Sequence[Path], cluster_id: str, topic_ids: Mapping[TopicPartition, UUID | None]
) -> CopiesBeside:
    """Copies below *roots* of the partitions of *topic_ids*; the notes name what is left out."""
    found: dict[TopicPartition, list[CopyBeside]] = {}
    notes: list[str] = []
    folders = RescueFolders()
    for root in roots:
        topics = sorted({path.parent for depth in DEPTHS for path in root.glob(depth + MANIFEST)})
        if not topics:
            notes.append(
                f"{root} has no rescue: name the folder that `rescue --rescue-to` was given"
            )
        for topic in topics:
            try:
                for copy in _copies(topic, folders, cluster_id, topic_ids, notes):
                    found.setdefault(copy.partition, []).append(copy)
            except BreakglassError as error:
                notes.append(f"passed over: {topic}: {error}")
    return CopiesBeside({name: tuple(copies) for name, copies in found.items()}, tuple(notes))


def _copies(
    topic: Path,
    folders: RescueFolders,
    cluster_id: str,
    topic_ids: Mapping[TopicPartition, UUID | None],
    notes: list[str],
) -> Iterator[CopyBeside]:
    manifest = read_manifest(LocalFolder(topic))
    assert manifest is not None
    identity = manifest.identity
    if identity.cluster_id not in (None, cluster_id):
        notes.append(f"passed over: {topic} is of cluster {identity.cluster_id}")
        return
    for held in manifest.partitions:
        partition = TopicPartition(identity.topic, held.partition)
        if partition not in topic_ids:
            continue
        if identity.topic_id is None or identity.topic_id != topic_ids[partition]:
            notes.append(f"passed over: {topic} does not have the id of the topic of {partition}")
            continue
        there = folders.there(topic, partition)
        if isinstance(there, Unknown):
            notes.append(f"passed over: {there.reason}")
            continue
        part, covered, damaged = there
        if damaged:
            notes.append(f"{topic / str(held.partition)} has files that are not whole")
        epochs = tuple(_within(_epochs(topic, part), covered))
        named = manifest.identity.origin.get(BROKER, "")
        broker = int(named) if named.isascii() and named.isdigit() else None
        yield CopyBeside(partition, topic, broker, epochs)


def _epochs(topic: Path, part: PartitionSummary) -> list[EpochRange]:
    """The leader epochs of the batches that were copied; a batch without an epoch is left out."""
    if part.batch_log is None:
        return []
    found: list[EpochRange] = []
    for state in read_batch_log(LocalFolder(topic), part.partition, part.batch_log):
        if state.leader_epoch < 0:
            continue
        end = state.last_offset + 1
        last = found[-1] if found else None
        if last is not None and (last.epoch, last.end) == (state.leader_epoch, state.base_offset):
            found[-1] = EpochRange(last.epoch, last.start, end)
        else:
            found.append(EpochRange(state.leader_epoch, state.base_offset, end))
    return found


def _within(epochs: Iterable[EpochRange], covered: Ranges) -> Iterator[EpochRange]:
    for range_ in epochs:
        for start, end in common([(range_.start, range_.end)], covered):
            yield EpochRange(range_.epoch, start, end)


def of_unread(copies: Iterable[CopyBeside], unread: Sequence[int]) -> Iterator[str]:
    """Sentences about copies of logs that could not be read: their records are in no sum."""
    for copy in copies:
        if copy.broker in unread and copy.epochs:
            start, end = copy.epochs[0].start, copy.epochs[-1].end
            yield (
                f"{copy.partition}: the log of b{copy.broker} was unread and is in no sum; a copy "
                f"of its offsets {start:,}-{end - 1:,} is in {copy.folder}"
            )
