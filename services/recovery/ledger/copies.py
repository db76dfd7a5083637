"""Reads the folders of rescues to find which of the journal's offsets are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from breakglass.services.errors import BreakglassError
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.ledger.claims import RescueClaim, Spans
from breakglass.services.recovery.ledger.entries import CopiedSpan
from breakglass.services.recovery.ledger.ranges import common, outside
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import missing_of
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.summary import GapReason, PartitionSummary

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
