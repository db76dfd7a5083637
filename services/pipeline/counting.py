"""Differences of two large sources counted by Spark: the comparison of one core, cut by address."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard

from services.divergence.address import parse_address
from services.divergence.align import PairKind, RecordPair
from services.divergence.comparison import Comparison
from services.divergence.entry import RecordEntry, RecordField
from services.divergence.hunks import HunkTotals
from services.divergence.opening import Opener
from services.divergence.pairing import compare
from services.divergence.runs import Run, runs
from services.divergence.source import Extent, Reading
from services.kafka.wire.deadline import Deadline
from services.pipeline.spark_job import answers, packed, unpacked
from services.session import ReadAccess

if TYPE_CHECKING:
    from pyspark import SparkContext

    from services.topic_backup.store.key import Key

LEAST_ADDRESSES = 1_000
"""Of one part: opening both sources again has to be worth it."""
DESCRIBE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class CountedSides:
    """What is compared, as it can be sent to a worker."""

    left: str
    right: str
    access: ReadAccess | None
    """None where neither side asks brokers."""
    key: Key | None = None

    def opened(self, stack: ExitStack) -> Comparison:
        """Both sides, of which a client of its own reads what brokers have."""

        def client() -> Any:
            assert self.access is not None
            made = stack.enter_context(self.access.reading())
            made.describe(Deadline.after(DESCRIBE_SECONDS))
            return made

        return compare(
            Opener(client, self.key), parse_address(self.left), parse_address(self.right)
        )


@dataclass(frozen=True, slots=True)
class CountedPart:
    """What was counted of some addresses."""

    totals: HunkTotals
    begins_unread: bool = False
    """Its first addresses are the end of a stretch that could not be read."""
    ends_unread: bool = False


def count_on_spark(
    context: SparkContext, sides: CountedSides, extent: Extent, parts: int
) -> HunkTotals:
    """The totals of *extent*, the same as one core would count.

    Raises:
        PipelineError, StorageError: a task failed.
    """
    cuts = list(enumerate(divided(extent, parts)))
    access = sides.access
    job = CountJob(replace(sides, access=None), packed(access.settings) if access else None)
    texts = answers(context, cuts, len(cuts), job, "counting differences")
    told = sorted(map(json.loads, texts), key=lambda one: one["number"])
    return merged(map(_part, told), extent)


@dataclass(frozen=True, slots=True)
class CountJob:
    """What each task of a job knows beside the addresses that it counts."""

    sides: CountedSides
    connection: bytes | None = field(repr=False)
    """As `packed` makes it; None where neither side asks brokers."""

    def __call__(self, cuts: Iterable[tuple[int, Extent]]) -> Iterator[str]:
        """What one task does."""
        asked = self.connection
        access = None if asked is None else ReadAccess(unpacked(asked))
        with ExitStack() as stack:
            comparison = replace(self.sides, access=access).opened(stack)
            for number, extent in cuts:
                yield _told(number, count_part(comparison, extent))


def divided(extent: Extent, parts: int) -> list[Extent]:
    """*extent* in so many parts at most, each of enough addresses."""
    size = extent.end - extent.start
    count = max(1, min(parts, size // LEAST_ADDRESSES))
    cuts = [extent.start + size * number // count for number in range(count + 1)]
    return [Extent(*pair) for pair in pairwise(cuts)]


def count_part(comparison: Comparison, extent: Extent) -> CountedPart:
    """What both sides have in *extent*, counted."""
    totals = HunkTotals(counted_to=extent.start)
    begins = ends = False
    for one in runs(comparison, extent.start, extent.end, Reading()):
        totals.add(one)
        begins = begins or (_is_stretch(one) and one.offset == extent.start)
        ends = _is_stretch(one) and one.end == extent.end
    totals.counted_to = extent.end
    return CountedPart(totals, begins, ends)


def merged(parts: Iterator[CountedPart], extent: Extent) -> HunkTotals:
    """The totals of parts that follow each other; a stretch that was cut is one again."""
    found = HunkTotals(counted_to=extent.start)
    before = False
    for one in parts:
        found.merge(one.totals)
        if before and one.begins_unread:
            found.kinds[PairKind.UNREAD] -= 1
        before = one.ends_unread
    found.kinds += type(found.kinds)()
    return found


def _is_stretch(one: Run) -> TypeGuard[RecordPair]:
    """Something that could not be read, and no entry beside it."""
    return (
        isinstance(one, RecordPair)
        and one.kind is PairKind.UNREAD
        and not isinstance(one.left, RecordEntry)
        and not isinstance(one.right, RecordEntry)
    )


def _told(number: int, part: CountedPart) -> str:
    totals = part.totals
    return json.dumps({
        "number": number,
        "kinds": {kind.value: count for kind, count in totals.kinds.items()},
        "fields": {field.value: count for field, count in totals.fields.items()},
        "first": totals.first,
        "counted_to": totals.counted_to,
        "undecoded": totals.undecoded,
        "begins": part.begins_unread,
        "ends": part.ends_unread,
    })  # fmt: skip


def _part(told: Mapping[str, Any]) -> CountedPart:
    totals = HunkTotals(
        first=told["first"], counted_to=told["counted_to"], undecoded=told["undecoded"]
    )
    totals.kinds.update({PairKind(kind): count for kind, count in told["kinds"].items()})
    totals.fields.update({RecordField(field): count for field, count in told["fields"].items()})
    return CountedPart(totals, told["begins"], told["ends"])
