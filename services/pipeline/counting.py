"""Counts the differences of two large sources on Spark, each task in a part of the addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard

from breakglass.services import patience
from breakglass.services.divergence.address import parse_address
from breakglass.services.divergence.align import (
    Comparison,
    HunkTotals,
    PairKind,
    RecordPair,
    Run,
    runs,
)
from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.divergence.opening import Opener, compare
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.spark_job import answers, packed, unpacked
from breakglass.services.session import ReadAccess

if TYPE_CHECKING:
    from pyspark import SparkContext

    from breakglass.services.topic_backup.store.key import Key

LEAST_ADDRESSES = 1_000
"""The minimum size of a part: each part opens both sources again."""


@dataclass(frozen=True, slots=True)
class CountedSides:
    """The two sides of a comparison, in a form that can be sent to a worker."""

    left: str
    right: str
    access: ReadAccess | None
    """None if neither side reads from brokers."""
    key: Key | None = None

    def opened(self, stack: ExitStack) -> Comparison:
        def client() -> Any:
            assert self.access is not None
            made = stack.enter_context(self.access.reading())
            made.describe(Deadline.after(patience.COMMAND))
            return made

        return compare(
            Opener(client, self.key), parse_address(self.left), parse_address(self.right)
        )


@dataclass(frozen=True, slots=True)
class CountedPart:
    """The totals of one part of the addresses."""

    totals: HunkTotals
    begins_unread: bool = False
    """The part starts within a stretch that could not be read."""
    ends_unread: bool = False
    """The part ends within a stretch that could not be read."""


def count_on_spark(
    context: SparkContext, sides: CountedSides, extent: Extent, parts: int
) -> HunkTotals:
    """The totals of *extent*, equal to those of a comparison without Spark.

    Raises:
        PipelineError, StorageError: a task failed.
    """
    cuts = list(enumerate(divided(extent, parts)))
    access = sides.access
    job = CountJob(replace(sides, access=None), packed(access.settings_now) if access else None)
    found = dict(answers(context, cuts, len(cuts), job, "counting differences"))
    return merged((found[number] for number in sorted(found)), extent)


@dataclass(frozen=True, slots=True)
class CountJob:
    """The data that each task of a job has in addition to its addresses."""

    sides: CountedSides
    connection: bytes | None = field(repr=False)
    """The bytes of `packed`; None if neither side reads from brokers."""

    def __call__(self, cuts: Iterable[tuple[int, Extent]]) -> Iterator[tuple[int, CountedPart]]:
        asked = self.connection
        access = None if asked is None else ReadAccess(unpacked(asked))
        with ExitStack() as stack:
            comparison = replace(self.sides, access=access).opened(stack)
            for number, extent in cuts:
                yield number, count_part(comparison, extent)


def divided(extent: Extent, parts: int) -> list[Extent]:
    """*extent* in at most *parts* parts, each with at least `LEAST_ADDRESSES` addresses."""
    size = extent.end - extent.start
    count = max(1, min(parts, size // LEAST_ADDRESSES))
    cuts = [extent.start + size * number // count for number in range(count + 1)]
    return [Extent(*pair) for pair in pairwise(cuts)]


def count_part(comparison: Comparison, extent: Extent) -> CountedPart:
    """Count the differences of both sides in *extent*."""
    totals = HunkTotals(counted_to=extent.start)
    begins = ends = False
    for run in runs(comparison, extent.start, extent.end, Reading()):
        totals.add(run)
        begins = begins or (_is_stretch(run) and run.offset == extent.start)
        ends = _is_stretch(run) and run.end == extent.end
    totals.counted_to = extent.end
    return CountedPart(totals, begins, ends)


def merged(parts: Iterator[CountedPart], extent: Extent) -> HunkTotals:
    """The totals of adjacent parts; a stretch across a boundary counts once."""
    found = HunkTotals(counted_to=extent.start)
    before = False
    for part in parts:
        found.merge(part.totals)
        if before and part.begins_unread:
            found.kinds[PairKind.UNREAD] -= 1
        before = part.ends_unread
    found.kinds += type(found.kinds)()
    return found


def _is_stretch(run: Run) -> TypeGuard[RecordPair]:
    """Whether *run* is an unread stretch without an entry on either side."""
    return (
        isinstance(run, RecordPair)
        and run.kind is PairKind.UNREAD
        and not isinstance(run.left, RecordEntry)
        and not isinstance(run.right, RecordEntry)
    )
