"""`breakglass diff`: how two sources of records differ, offset by offset."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.commands import new_app
from breakglass.console.option_values import key_of
from breakglass.console.options import AsJson, KeyFrom, Master, Progress, connected, size
from breakglass.console.output import print_json, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.divergence.align import Comparison, HunkTotals, RecordPair, Run
    from breakglass.services.divergence.entry import Item
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.topic_backup.store.blobs import Key

app = new_app()

SHOWN_RECORDS = 5
"""Of one hunk, unless --records says otherwise."""
MOST_HUNKS = 10_000
"""In one JSON document; more are counted."""
LENGTH = 200
SPARK_ABOVE = 5_000_000_000
PART_BYTES = 128 * 1024 * 1024
"""About what one task of Spark's compares."""
UNKNOWN = 4


@app.command("diff")
@connected
def diff(
    connection: Connection,
    left: Annotated[str, typer.Argument(metavar="A", help="A source, as above.")],
    right: Annotated[
        str, typer.Argument(metavar="B", help="Another source of the same partition.")
    ],
    start: Annotated[int | None, typer.Option("--from", min=0, help="First offset.")] = None,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Offset to stop before.")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Print only the totals.")] = False,
    records: Annotated[
        int, typer.Option(min=0, help="At most N records from the point where logs diverge.")
    ] = SHOWN_RECORDS,
    progress: Progress = None,
    read_all: Annotated[
        bool,
        typer.Option(
            "--read-all", help="Also read records that leader epochs prove to be the same."
        ),
    ] = False,
    spark_above: Annotated[
        int,
        size(
            "--spark-above",
            example="5GB",
            help="With --summary, count with Spark if a source is larger than this.",
            shown="5GB",
        ),
    ] = SPARK_ABOVE,
    master: Master = "local[*,4]",
    key: KeyFrom = None,
    as_json: AsJson = False,
) -> None:
    """Compare two sources of records: backups, topics, replicas, log folders, checkpoints.

    A source is backup:URL/TOPIC/PARTITION, rescue:DIR/TOPIC/PARTITION, topic:TOPIC/PARTITION,
    replica:BROKER/TOPIC/PARTITION, log:DIR/TOPIC-PARTITION, checkpoint:URL/ID/TOPIC/PARTITION or
    metastore:FILE.

    Records are compared by their offsets, metastores by position. With --progress, the records of a
    restored topic are compared by the offsets that they had in the backup. The command contacts
    brokers only for topic: and replica: sources. Exits with 0 if the sources are equal, with 1 if
    they differ, and with 4 if something could not be read.
    """
    from breakglass.services.divergence.address import parse_address
    from breakglass.services.divergence.opening import Opener, compare

    first, other = parse_address(left), parse_address(right)
    with ExitStack() as stack:
        opener = Opener(
            lambda: _client(connection, stack), key_of(key), progress, by_epochs=not read_all
        )
        comparison = compare(opener, first, other)
        differing = _Differing(comparison, start, end)
        larger = _size(comparison) if summary and progress is None else None
        if larger is not None and larger > spark_above:
            differing.counted = _on_spark(
                connection, left, right, key_of(key), differing, larger, master
            )
        if as_json:
            found = _document(differing, summary=summary)
            print_json({"schema": 1, "left": str(first), "right": str(other), **found})
        else:
            _print(differing, 0 if summary else records, summary=summary)
    raise typer.Exit(_exit_code(differing.totals))


def _client(connection: Connection, stack: ExitStack) -> ReadClient:
    """One client for both sides, which knows the brokers."""
    client = stack.enter_context(connection.reading())
    client.describe(deadline_after(patience.COMMAND))
    return client


class _Differing:
    """What is to be compared, counted as it passes."""

    def __init__(self, comparison: Comparison, start: int | None, end: int | None) -> None:
        from breakglass.services.divergence.align import HunkTotals

        extent = comparison.extent
        self.comparison = comparison
        self.start = extent.start if start is None else max(start, extent.start)
        self.end = extent.end if end is None else min(end, extent.end)
        self.totals: HunkTotals = HunkTotals(counted_to=self.start)
        self.counted: HunkTotals | None = None
        """By Spark, which tells no runs."""

    def runs(self) -> Iterator[Run]:
        """Pairs, and stretches that are known to be the same, from the first offset on."""
        from breakglass.services.divergence.align import runs
        from breakglass.services.divergence.source import Reading

        if self.counted is not None:
            self.totals = self.counted
            return
        for run in runs(self.comparison, self.start, self.end, Reading()):
            self.totals.add(run)
            yield run


def _size(comparison: Comparison) -> int | None:
    """Bytes of the larger side; None where Spark cannot count them."""
    from breakglass.services.divergence.opening import bytes_of

    sizes = [bytes_of(source) for source in (comparison.left, comparison.right)]
    return None if None in sizes else max(size for size in sizes if size is not None)


def _on_spark(
    connection: Connection,
    left: str,
    right: str,
    key: Key | None,
    differing: _Differing,
    size: int,
    master: str,
) -> HunkTotals:
    """Counted part by part; raises PipelineError where there is no Spark."""
    from breakglass.services.divergence.address import parse_address
    from breakglass.services.divergence.source import Extent
    from breakglass.services.pipeline.session import Spark
    from breakglass.services.pipeline.spark_job import CountedSides, count_on_spark

    asked = any(parse_address(address).kind.asks_brokers for address in (left, right))
    sides = CountedSides(left, right, connection.access() if asked else None, key)
    extent = Extent(differing.start, differing.end)
    with Spark(master) as spark:
        return count_on_spark(spark.context(), sides, extent, 1 + size // PART_BYTES)


def _exit_code(totals: HunkTotals) -> int:
    from breakglass.services.divergence.align import PairKind

    kinds = totals.kinds
    if kinds[PairKind.DIFFERENT] or kinds[PairKind.LEFT] or kinds[PairKind.RIGHT]:
        return 1
    return UNKNOWN if kinds[PairKind.UNREAD] else 0


def _document(differing: _Differing, *, summary: bool) -> dict[str, Any]:
    from breakglass.services.divergence.align import PairKind, hunks

    told: list[dict[str, Any]] = []
    left_out = 0
    for hunk in hunks(differing.runs()):
        if hunk.kind is PairKind.EQUAL or summary:
            continue
        if len(told) < MOST_HUNKS:
            told.append(
                {
                    "kind": hunk.kind.name.lower(),
                    "fields": list(map(str, hunk.fields)),
                    "from": hunk.start,
                    "to": hunk.end,
                    "left": hunk.left,
                    "right": hunk.right,
                }
            )
        else:
            left_out += 1
    totals = differing.totals
    return {
        "from": differing.start,
        "to": differing.end,
        "equal": _exit_code(totals) == 0,
        "first": totals.first,
        "totals": {kind.name.lower(): totals.kinds[kind] for kind in PairKind},
        "not_decoded": totals.undecoded,
        "counted_by": "one core" if differing.counted is None else "Spark",
        "fields": {str(name): count for name, count in totals.fields.items()},
        **({} if summary else {"hunks": told, "hunks_left_out": left_out}),
    }


def _print(differing: _Differing, records: int, *, summary: bool) -> None:
    """What differs, hunk by hunk as it is found, then the totals."""
    from breakglass.services.divergence.align import PairKind

    comparison = differing.comparison
    left, right = comparison.left.name, comparison.right.name
    say(f"< {left}  offsets {_span(comparison.left.extent.start, comparison.left.extent.end)}")
    say(f"> {right}  offsets {_span(comparison.right.extent.start, comparison.right.extent.end)}")
    proven = comparison.proven_same
    if proven is not None and proven.start < differing.end and differing.start < proven.end:
        say(f"{_span(proven.start, proven.end)}  the same by leader epochs; --read-all reads them")
    writing = _Writing(records, summary)
    for run in differing.runs():
        writing.take(run)
    writing.end()
    totals = differing.totals
    kinds = totals.kinds
    say(
        f"{kinds[PairKind.EQUAL]:,} equal, {kinds[PairKind.DIFFERENT]:,} differ, "
        f"{kinds[PairKind.LEFT]:,} only in {left}, {kinds[PairKind.RIGHT]:,} only in {right}, "
        f"{kinds[PairKind.UNREAD]:,} not read"
    )


class _Writing:
    """Prints runs of pairs that compare alike: a line for each, and its first records."""

    def __init__(self, records: int, summary: bool) -> None:
        self._records, self._summary = records, summary
        self._run: list[RecordPair] = []
        """Its first pairs, and its last."""
        self._count = 0

    def take(self, run: Run) -> None:
        from breakglass.services.divergence.source import Same

        if isinstance(run, Same):
            self.end()
        else:
            last = self._run[-1] if self._run else None
            if last is not None and (last.kind, last.fields) != (run.kind, run.fields):
                self.end()
            self._count += 1
            if len(self._run) > self._records:
                self._run[-1] = run
            else:
                self._run.append(run)

    def end(self) -> None:
        from breakglass.services.divergence.align import PairKind

        run, count = self._run, self._count
        self._run, self._count = [], 0
        if not run or self._summary or run[0].kind is PairKind.EQUAL:
            return
        first, last = run[0], run[-1]
        fields = f" in {', '.join(first.fields)}" if first.fields else ""
        sys.stdout.write(
            f"{first.kind} {_span(first.offset, last.end)}  {count:,} {_WORDS[first.kind.name]}"
            f"{fields}\n"
        )
        for pair in run[: self._records]:
            for sign, item in (("<", pair.left), (">", pair.right)):
                if item is not None:
                    sys.stdout.write(f"  {sign} {_item(item)}\n")
        sys.stdout.flush()


_WORDS = {"LEFT": "only in A", "RIGHT": "only in B", "DIFFERENT": "different", "UNREAD": "not read"}


def _span(start: int, end: int) -> str:
    return f"{start:,}..{end - 1:,}" if start < end else "none"


def _item(item: Item) -> str:
    from breakglass.services.divergence.entry import UnreadableRange
    from breakglass.services.words.record_text import TextForm, preview

    if isinstance(item, UnreadableRange):
        return f"{_span(item.start, item.end)}: {bounded(item.reason, 4 * LENGTH)}"
    epoch = "" if item.epoch is None else f" e{item.epoch}"
    if item.marker is not None:
        return f"{item.offset}{epoch} -- control record {item.marker.type.name.lower()}"
    key, value = (
        preview(text.kept, text.size, TextForm.TEXT, LENGTH) if text else "null"
        for text in (item.key, item.value)
    )
    headers = f" ({item.headers.count} headers)" if item.headers.count else ""
    return f"{item.offset}{epoch} {time_text(item.timestamp)} {key}: {value}{headers}"
