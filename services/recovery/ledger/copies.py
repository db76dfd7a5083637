"""The copies of an incident's records: by journals, in the folders of rescues, beside them.

A journal may come from another operator or program: entries that cannot be read are ignored.
`rescue --plan`, `rescue --before-return` and `rescue --source log:DIR` write no journal. Their
folders have the topic's id, the broker, and the leader epoch of each batch. A copied record is the
record of a replica's log if both have the same leader epoch at the same offset (log matching,
`judgement.lineage`); nothing else is taken for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

from breakglass.services.errors import BreakglassError
from breakglass.services.guard.journal import Details, EntryKind, JournalStep, JournalView, StepName
from breakglass.services.model import EpochRange, TopicPartition, Unknown
from breakglass.services.recovery.execution.steps import RESCUE
from breakglass.services.recovery.ledger.entries import (
    ConsentGiven,
    CopiedSpan,
    Holdings,
    Ranges,
    common,
    outside,
    read_holdings,
)
from breakglass.services.recovery.rescue.broker_folder import DEPTHS
from breakglass.services.recovery.rescue.rescue import SAVED
from breakglass.services.recovery.timeline.ending import result_of
from breakglass.services.topic_backup.batch_log import read_batch_log
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import missing_of
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.summary import GapReason, PartitionSummary

BACK = "restored"
"""The beginning of the result of a restore that was verified."""
FOLDER_PARTS = 4
"""``<cluster id>/<UTC time>/b<broker>/<topic>``, which stays the same if a rescue is moved."""
_BROKER = re.compile(r"b([0-9]{1,10})", re.ASCII)

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RescueClaim:
    """One replica's part of a rescue, with the journal's plan and result."""

    partition: TopicPartition
    broker: int
    wanted: Spans
    """Offsets that were to be copied."""
    path: Path | None
    """``.../b<broker>/<topic>/<partition>``; None if the journal names no path."""
    records: int | None
    """Number of written data records by the journal; None: the journal does not say."""
    whole: bool
    """The journal says that all of it was saved."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PutBackClaim:
    """A restore of one replica's rescued records into their partition."""

    partition: TopicPartition
    folder: tuple[str, ...]
    """The last parts of the address of the records, as in `folder_of`."""
    broker: int
    spans: Spans | Unknown
    proved: bool
    """The records were compared after the restore, or none was lost by it."""
    result: str
    journal: Path


def holdings_in(view: JournalView) -> dict[TopicPartition, Holdings | Unknown]:
    """The replicas' logs of each planned partition when its election was agreed to.

    A replica that could first be read when the journal was resumed is taken from that reading.
    """
    if view.plan is None:
        return {}
    found = {partition: read_holdings(item) for partition, item in view.plan.items.items()}
    for entry in view.entries:
        if entry.kind is EntryKind.NOTE and entry.seq > view.plan.seq:
            for partition, item in entry.items.items():
                later, before = read_holdings(item), found.get(partition)
                if isinstance(later, Holdings):
                    earlier = before if isinstance(before, Holdings) else later
                    found[partition] = earlier.with_later(later)
    return found


def consents_in(view: JournalView) -> tuple[ConsentGiven, ...]:
    """Who agreed to what, and when."""
    return tuple(
        ConsentGiven(
            entry.at_ms,
            str(entry.payload["who"]),
            str(entry.payload["phrase"]),
            entry.payload.get("implied") is True,
        )
        for entry in view.entries
        if entry.kind is EntryKind.CONSENT
    )


def approvals_in(view: JournalView) -> tuple[str, ...]:
    """Who had approved the plan."""
    named = () if view.plan is None else view.plan.payload.get("approved_by", ())
    return tuple(str(one) for one in named) if isinstance(named, list) else ()


def left_out_in(view: JournalView) -> tuple[tuple[TopicPartition, str], ...]:
    """Partitions that were asked for and not elected."""
    listed = () if view.plan is None else view.plan.payload.get("left", ())
    return tuple(_partitions(listed))


def not_sent_in(view: JournalView) -> dict[TopicPartition, Details]:
    """The result, reason and leader of partitions for which nothing was sent."""
    found: dict[TopicPartition, Details] = {}
    for entry in view.entries:
        if entry.kind is EntryKind.NOTE:
            for document in _listed(entry.payload.get("partitions")):
                partition = _named(document)
                if partition is not None:
                    found[partition] = document
    return found


def rescues_in(view: JournalView) -> dict[TopicPartition, tuple[RescueClaim, ...]]:
    """The planned rescues of each partition with their results, oldest first."""
    found: dict[TopicPartition, list[RescueClaim]] = {}
    for step in view.steps:
        if step.name == RESCUE:
            for partition in step.items:
                found.setdefault(partition, []).extend(_rescues(step, partition))
    return {partition: tuple(claims) for partition, claims in found.items()}


def _rescues(step: JournalStep, partition: TopicPartition) -> Iterator[RescueClaim]:
    outcome = result_of(step, partition)
    whole, reason = outcome.result == SAVED, str(outcome.details.get("reason") or "")
    places = {
        document.get("broker"): document for document in _listed(outcome.details.get("saved"))
    }
    wanted: dict[int, list[tuple[int, int]]] = {}
    for document in _listed(step.items[partition].get("rescue")):
        span = _span([document.get("start"), document.get("end")])
        if isinstance(document.get("broker"), int) and span is not None:
            wanted.setdefault(document["broker"], []).append(span)
    to = step.request.payload.get("to")
    for broker, spans in wanted.items():
        place = places.get(broker, {})
        path = place.get("path")
        if path is None and partition not in step.outcomes and to is not None:
            # The rescue was interrupted, but what it committed before is still there.
            path = PurePath(str(to), f"b{broker}", partition.topic, str(partition.partition))
        records = place.get("records")
        yield RescueClaim(
            partition,
            broker,
            tuple(spans),
            None if path is None else Path(str(path)),
            records if isinstance(records, int) else None,
            whole,
            reason or ("" if whole else "the journal does not say that it was saved"),
        )


def put_backs_in(views: Iterable[JournalView]) -> Iterator[PutBackClaim]:
    """Every restore of a tail from the folder of a broker, oldest first."""
    for view in views:
        for step in view.steps:
            folder = folder_of(PurePath(str(step.request.payload.get("source", ""))))
            broker = _BROKER.fullmatch(folder[-2]) if len(folder) == FOLDER_PARTS else None
            if step.name != StepName.RESTORE_RECORDS or broker is None:
                continue
            for partition, item in step.items.items():
                result = result_of(step, partition).result
                yield PutBackClaim(
                    partition,
                    folder,
                    int(broker[1]),
                    _restored(item),
                    result.startswith(BACK),
                    result,
                    view.path,
                )


def folder_of(path: PurePath) -> tuple[str, ...]:
    """The last parts of *path*, which identify a rescued topic's folder even if it was moved."""
    return path.parts[-FOLDER_PARTS:]


def _restored(item: Details) -> Spans | Unknown:
    """Which offsets were put back; journals of earlier releases only say how many."""
    listed = item.get("spans")
    if isinstance(listed, list):
        spans = [_span(one) for one in listed]
        return tuple(span for span in spans if span is not None)
    whole, records = _span([item.get("start"), item.get("end")]), item.get("records")
    if whole is not None and records == whole[1] - whole[0]:
        return (whole,)
    return Unknown(f"a restore put {records} records back, and its journal does not say which")


def doubtful_put_back(claim: PutBackClaim, within: Spans) -> tuple[CopiedSpan, ...]:
    """The spans that *claim* may have put back into the topic, without proof."""
    why = claim.spans.reason if isinstance(claim.spans, Unknown) else f"put back: {claim.result}"
    spans = within if isinstance(claim.spans, Unknown) else claim.spans
    return tuple(CopiedSpan(claim.broker, start, end, why) for start, end in spans)


def _span(pair: object) -> tuple[int, int] | None:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return None
    start, end = pair
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in pair)
    return (start, end) if whole and 0 <= start < end else None


def _partitions(listed: object) -> Iterator[tuple[TopicPartition, str]]:
    for document in _listed(listed):
        partition = _named(document)
        if partition is not None:
            yield partition, str(document.get("reason", ""))


def _named(item: Mapping[str, Any]) -> TopicPartition | None:
    topic, number = item.get("topic"), item.get("partition")
    return (
        TopicPartition(topic, number)
        if isinstance(topic, str) and isinstance(number, int)
        else None
    )


def _listed(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


NO_PLACE = "the journal does not say where it was saved"


@dataclass(frozen=True, slots=True)
class FoundCopies:
    """The copies of one partition's records."""

    rescued: tuple[CopiedSpan, ...] = ()
    doubtful: tuple[CopiedSpan, ...] = ()
    differences: tuple[str, ...] = ()
    """Where a folder differs from the journal."""

    def __add__(self, other: FoundCopies) -> FoundCopies:
        return FoundCopies(
            self.rescued + other.rescued,
            self.doubtful + other.doubtful,
            self.differences + other.differences,
        )


@dataclass
class RescueFolders:
    """Folders of rescued topics, each read once."""

    _opened: dict[Path, _Opened] = field(default_factory=dict)

    def find(self, claims: Iterable[RescueClaim]) -> FoundCopies:
        """The copies of *claims*, all of one partition, that manifest and file sizes confirm."""
        found = FoundCopies()
        for claim in claims:
            found += self._find(claim)
        return found

    def there(
        self, topic: Path, partition: TopicPartition
    ) -> tuple[PartitionSummary, Spans, Spans] | Unknown:
        """The commit of *partition* in the folder *topic*, and its whole and damaged offsets."""
        return self._opened.setdefault(topic, _Opened(topic)).there(partition)

    def _find(self, claim: RescueClaim) -> FoundCopies:
        if claim.path is None:
            return _doubt(claim, claim.wanted, NO_PLACE) if claim.whole else FoundCopies()
        there = self.there(claim.path.parent, claim.partition)
        if isinstance(there, Unknown):
            return _doubt(claim, claim.wanted, there.reason) if claim.whole else FoundCopies()
        part, covered, damaged = there
        kept = tuple(common(claim.wanted, covered))
        found = FoundCopies(
            tuple(CopiedSpan(claim.broker, *span, str(claim.path)) for span in kept),
            differences=tuple(_differences(claim, part)),
        )
        why = f"the files of {claim.path} are not whole"
        return found + _doubt(claim, tuple(common(claim.wanted, damaged)), why)


@dataclass
class _Opened:
    """The folder of one broker's topic."""

    path: Path

    @cached_property
    def _manifest(self) -> tuple[TopicManifest, LocalFolder, frozenset[str]] | Unknown:
        try:
            folder = LocalFolder(self.path)
            names = frozenset(folder.names())
            manifest = read_manifest(folder)
        except BreakglassError as error:
            return Unknown(f"{self.path} cannot be read now: {error}")
        return (
            Unknown(f"{self.path} has no manifest")
            if manifest is None
            else (manifest, folder, names)
        )

    def there(self, partition: TopicPartition) -> tuple[PartitionSummary, Spans, Spans] | Unknown:
        """The commit of *partition*, the offsets that are there, and the damaged offsets."""
        opened = self._manifest
        if isinstance(opened, Unknown):
            return opened
        manifest, folder, names = opened
        part = manifest.partition(partition.partition)
        if part is None or manifest.identity.topic != partition.topic:
            return Unknown(f"the manifest of {self.path} does not have {partition}")
        try:
            missing = {lost.prefix for lost in missing_of(names, folder, part)}
        except BreakglassError as error:
            return Unknown(f"{self.path} cannot be read now: {error}")
        covered, damaged = list[tuple[int, int]](), list[tuple[int, int]]()
        for start, end, prefix in _segments(part):
            (damaged if prefix in missing else covered).append((start, end))
        gaps = [
            (gap.start, gap.end)
            for segment in part.segments
            for gap in segment.gaps
            if gap.reason is GapReason.LOST
        ]
        return part, tuple(outside(covered, gaps)), tuple(damaged)


def _segments(part: PartitionSummary) -> Iterator[tuple[int, int, str]]:
    """The offsets that each segment accounts for: up to the next one's start, or to the end."""
    ordered = sorted(part.segments, key=lambda segment: segment.start_offset)
    ends = [*(summary.start_offset for summary in ordered[1:]), part.next_offset or 0]
    for one, end in zip(ordered, ends, strict=True):
        yield one.start_offset, end, one.prefix


def _differences(claim: RescueClaim, part: PartitionSummary) -> Iterator[str]:
    held = sum(segment.count for segment in part.segments)
    if claim.records is not None and claim.records != held:
        yield (
            f"the journal says that {claim.records:,} records of b{claim.broker} were rescued, and "
            f"the manifest in {claim.path} says {held:,}"
        )


def _doubt(claim: RescueClaim, spans: Spans, why: str) -> FoundCopies:
    return FoundCopies(doubtful=tuple(CopiedSpan(claim.broker, *span, why) for span in spans))


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
