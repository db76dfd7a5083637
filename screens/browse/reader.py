"""Reads one source or two for the screens of records; reports as screens/diff does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.message import Message

from breakglass.screens.browse.subject import BrowseSubject
from breakglass.screens.diff.reader import (
    ComparisonCounted,
    ComparisonRead,
    ComparisonSearched,
    MapGrown,
    Reader,
    RecordRead,
    SourcesOpened,
    Task,
    progress_of,
)
from breakglass.services.browse.query import first_at, next_match, previous_match
from breakglass.services.divergence.align import Comparison, HunkTotals, Minimap, runs
from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.divergence.entry import DETAIL
from breakglass.services.divergence.metastore_source import MetastoreSource
from breakglass.services.divergence.pages import around
from breakglass.services.divergence.source import Reading, Same
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from textual.screen import Screen

    from breakglass.services.browse.query import RecordQuery
    from breakglass.services.browse.schemas import Schemas


@dataclass(eq=False)
class RecordsExported(Message):
    """The marked records were written to *path*."""

    task: Task
    path: Path
    count: int


@dataclass(eq=False)
class BranchRead(Message):
    """A branch of the tree of backups was looked up."""

    key: tuple[str, ...]
    found: object
    """Unknown where it could not be read."""


TELL_EVERY = 2_048
"""Pairs between two reports of a count."""
SAME_WEIGHS = 64
"""How many pairs a stretch that is the same counts for in that: it takes about as long."""
MOST_NOTES = 20


class BrowseReader(Reader[BrowseSubject]):
    """What the screens of records ask for, beside what every reader does."""

    def open(self, screen: Screen[Any], subject: BrowseSubject, offset: int | None) -> Task:
        def work(comparison: Comparison, task: Task) -> None:
            sources = {
                id(source): source for source in (comparison.left, comparison.right)
            }.values()
            left_out = [
                str(note)
                for source in sources
                if isinstance(source, BackupSource | MetastoreSource)
                for note in source.left_out
            ]
            task.tell(SourcesOpened(task, comparison.extent, left_out[:MOST_NOTES]))
            goal = comparison.extent.start if offset is None else offset
            window = around(comparison, goal, Reading(go_on=task.go_on))
            task.tell(ComparisonRead(task, window, goal))

        return self._begin(Task(screen, f"Opening {subject.left}"), subject, work)

    def match(
        self,
        screen: Screen[Any],
        subject: BrowseSubject,
        query: RecordQuery,
        offset: int,
        *,
        forward: bool,
    ) -> Task:
        """Look for the next or the previous record that *query* fits, and read about it."""

        def work(comparison: Comparison, task: Task) -> None:
            reading = Reading(go_on=task.go_on)
            search = next_match if forward else previous_match
            found = search(comparison, query, offset, reading, progress_of(task))
            if found is None:
                task.tell(ComparisonSearched(task, forward))
            else:
                task.tell(ComparisonRead(task, around(comparison, found, reading), found))

        return self._begin(Task(screen, f"Searching for {query.text}"), subject, work)

    def whole_record(
        self, screen: Screen[Any], subject: BrowseSubject, offset: int, schemas: Schemas | None
    ) -> Task:
        """Read the record at *offset*, and decode it where there are *schemas*."""

        def work(comparison: Comparison, task: Task) -> None:
            reading = Reading(keep=DETAIL, go_on=task.go_on)
            pair = next(comparison.pairs(offset, offset + 1, reading), None)
            if schemas is None or pair is None:
                task.tell(RecordRead(task, pair))
                return
            found = schemas.pair(pair, subject.left.topic_partition.topic)
            decoded = found.pair if found.any else None
            task.tell(RecordRead(task, pair, decoded, ", ".join(found.notes)))

        return self._begin(Task(screen, f"Reading the record at offset {offset:,}"), subject, work)

    def moment(self, screen: Screen[Any], subject: BrowseSubject, moment_ms: int) -> Task:
        def work(comparison: Comparison, task: Task) -> None:
            reading = Reading(go_on=task.go_on)
            found = first_at(comparison.left, moment_ms, reading)
            task.tell(ComparisonRead(task, around(comparison, found, reading), found))

        return self._begin(Task(screen, "Looking for that time"), subject, work)

    def map(self, screen: Screen[Any], subject: BrowseSubject) -> Task:
        """Count and locate all differences; reports `MapGrown` and `ComparisonCounted`."""

        def work(comparison: Comparison, task: Task) -> None:
            reading = Reading(go_on=task.go_on)
            extent = comparison.extent
            totals, cells = HunkTotals(), Minimap(extent)
            told, seen = progress_of(task), 0
            for run in runs(comparison, extent.start, extent.end, reading):
                totals.add(run)
                cells.add(run)
                seen += SAME_WEIGHS if isinstance(run, Same) else 1
                if seen >= TELL_EVERY:
                    seen = 0
                    task.tell(MapGrown(task, _copied(cells)))
                    told(run.end - 1)
            task.tell(MapGrown(task, _copied(cells)))
            task.tell(ComparisonCounted(task, totals))

        return self._begin(Task(screen, "Counting the differences"), subject, work)

    def export(
        self, screen: Screen[Any], subject: BrowseSubject, marked: frozenset[int], to: Path
    ) -> Task:
        """Write the records at the offsets *marked*; `RecordsExported` reports it."""

        def work(comparison: Comparison, task: Task) -> None:
            from breakglass.services.browse.export import export

            partition = subject.left.topic_partition
            reading = Reading(go_on=task.go_on)
            count = export(comparison.left, partition, marked, to, reading)
            if not count:
                raise UsageError("None of the marked records exists any more.")
            task.tell(RecordsExported(task, to, count))

        return self._begin(Task(screen, f"Writing {len(marked):,} records"), subject, work)


def _copied(cells: Minimap) -> Minimap:
    """For another thread, which draws it while this one grows."""
    return replace(cells, cells=list(cells.cells))
