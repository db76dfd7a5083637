"""One job of Spark: the settings that it sends to tasks, and what its failure means.

A `Secret` refuses to be pickled, so that it is never written to a file by mistake. Tasks connect to
brokers themselves, so `packed` includes secrets in bytes that only `unpacked` reads. One such job
counts the differences of two large sources, each task in a part of the addresses.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from breakglass.services import patience
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.divergence.address import parse_address
from breakglass.services.divergence.align import (
    Comparison,
    HunkTotals,
    PairKind,
    RecordPair,
    Run,
    runs,
)
from breakglass.services.divergence.opening import Opener, compare
from breakglass.services.divergence.source import Extent, Reading, RecordEntry
from breakglass.services.errors import DiskFull, PipelineError, StorageError
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.session import ReadAccess

if TYPE_CHECKING:
    from pyspark import SparkContext

    from breakglass.services.topic_backup.store.blobs import Key


class _Packing(pickle.Pickler):
    dispatch_table = {Secret: lambda secret: (Secret, (secret.reveal(),))}  # noqa: RUF012


def packed(settings: ConnectionSettings) -> bytes:
    """The *settings* as bytes with their secrets, to be sent only to tasks."""
    file = io.BytesIO()
    _Packing(file).dump(settings)
    return file.getvalue()


def unpacked(content: bytes) -> ConnectionSettings:
    """The settings from the bytes that `packed` made."""
    settings = pickle.loads(content)  # noqa: S301
    assert isinstance(settings, ConnectionSettings)
    return settings


Item = TypeVar("Item")
Answer = TypeVar("Answer")

_OS_ERROR = re.compile(r"(?:OSError|PermissionError|FileNotFoundError): \[Errno (\d+)\] ([^\n]*)")
_OURS = re.compile(r"services(?:\.\w+)+\.([A-Z]\w+): ([^\n]+)")
"""An error of ours that a task raised: its message already says what to do."""
_OF_STORAGE: Mapping[str, type[StorageError]] = {
    "StorageError": StorageError,
    "DiskFull": DiskFull,
    "DamagedBackup": StorageError,
    "ConflictingRecord": StorageError,
}
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)")
"""The last of the chained exceptions with which a Python worker ended."""
_KEPT = 300
"""The maximum length of Spark's own words in a message."""
_KEPT_OF_OURS = 2000
"""The maximum length of an error of ours, which ends with what to do."""


def answers(
    context: SparkContext,
    items: Sequence[Item],
    tasks: int,
    work: Callable[[Iterable[Item]], Iterator[Answer]],
    doing: str,
) -> list[Answer]:
    """The answers of *work* for the *items*, which are divided between *tasks* tasks.

    Without items, as for a topic without records, no job runs: Spark divides by their number.
    Answers of failed attempts, and of speculative copies of a task, are dropped.

    Raises:
        StorageError: a task could not read or write a file.
        PipelineError: the job ended for another reason.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not items:
        return []
    try:
        return context.parallelize(items, tasks).mapPartitions(work).collect()
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise job_error(str(error), doing) from error


def job_error(text: str, doing: str) -> PipelineError | StorageError:
    """The error of a job that ended with *text*, which may be pages long."""
    # The last exception ended the task; earlier ones are its causes.
    ours, from_system = _last(_OURS, text), _last(_OS_ERROR, text)
    if ours and (from_system is None or from_system.start() < ours.start()):
        kind = _OF_STORAGE.get(ours[1], PipelineError)
        return kind(f"{doing}: {ours[2][:_KEPT_OF_OURS]}")
    if from_system:
        reason = f"{from_system[2]}; free space or check rights, then run the command again."
        return StorageError(f"{doing}: {reason}")
    raised = _RAISED.findall(text) or [line for line in text.splitlines() if line.strip()][:1]
    cause = raised[-1] if raised else "no reason given"
    return PipelineError(
        f"{doing} failed in Spark ({cause[:_KEPT]}): see its log, then run the command again."
    )


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return max(pattern.finditer(text), key=lambda match: match.start(), default=None)


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

    Raises PipelineError, StorageError: a task failed.
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
