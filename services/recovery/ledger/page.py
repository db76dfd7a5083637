"""The ledger for people and programs: one page of facts, sums and tables, as text, HTML and JSON.

Texts on the page may come from brokers, files and other people: each renderer must escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from breakglass.services.recovery.ledger.entries import (
    Fate,
    FateSum,
    IncidentLedger,
    LedgerEntry,
    PartitionLedger,
    ReplicaLedger,
    Sums,
    UnreadLogs,
    total_of,
)
from breakglass.services.recovery.timeline.account import digest_text, partition_numbers
from breakglass.services.words.figures import count, partitions_text, unread_figure
from breakglass.services.words.inert import inert
from breakglass.services.words.moments import time_text

SHOWN_PARTITIONS = 40
SHOWN_BY_OFFSET = 20
SHOWN_LINES = 20
SHOWN_CONSENTS = 10

TROUBLE = (Fate.LOST, Fate.UNKNOWN, Fate.WAITING, Fate.RESCUED, Fate.PUT_BACK)
CALM = (0,) * (2 + len(TROUBLE))
MEANS = {
    Fate.KEPT: "in the leader's log",
    Fate.PUT_BACK: "appended to the topic again",
    Fate.RESCUED: "in a rescue's folder",
    Fate.LOST: "in no log, in no rescue",
    Fate.WAITING: "not elected here, as last read",
    Fate.UNKNOWN: "not accounted for",
}


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows under titles."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns of figures."""


@dataclass(frozen=True, slots=True)
class PageLines:
    """Sentences under a title."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """The page."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """Label and sentence."""
    verdict: str
    """Whether the sums add up."""
    adds_up: bool
    blocks: tuple[PageTable | PageLines, ...]


def ledger_page(ledger: IncidentLedger) -> LedgerPage:
    """*ledger* as a page; partitions of which all was kept are counted and not listed."""
    return LedgerPage(
        f"Ledger of an incident: {ledger.what}, {ledger.result}",
        tuple(_facts(ledger)),
        verdict(ledger),
        ledger.adds_up,
        tuple(_blocks(ledger)),
    )


def verdict(ledger: IncidentLedger) -> str:
    """``The sums add up: 425 records, each with its fate.``, or how many do not."""
    about = "~" if ledger.approximate else ""
    if not ledger.adds_up:
        wrong = sum(bool(partition.differences) for partition in ledger.partitions)
        return f"The sums do not add up for {partitions_text(wrong)}: see below."
    told = (
        f"The sums add up: {about}{ledger.held:,} records of readable replicas, each with its fate"
    )
    if ledger.not_yet_readable:
        told += f"; {about}{ledger.not_yet_readable:,} of those kept are not readable yet"
    if ledger.uncounted:
        told += f"; of {partitions_text(ledger.uncounted)} not all could be counted"
    return f"{told}."


def _facts(ledger: IncidentLedger) -> Iterator[tuple[str, str]]:
    yield "Cluster", ledger.cluster_id
    yield "When", f"{time_text(ledger.opened_at_ms)} to {time_text(ledger.last_at_ms)} (UTC)"
    yield "Who", ", then ".join(ledger.people)
    for consent in ledger.consents[:SHOWN_CONSENTS]:
        how = " (by the command's name)" if consent.implied else ""
        said = f"{time_text(consent.at_ms)} {consent.who}: {consent.phrase}{how}"
        yield "Agreed", said
    more = len(ledger.consents) - SHOWN_CONSENTS
    if more > 0:
        yield "Agreed", f"and {more:,} more consents"
    if ledger.digest:
        spoken = digest_text(ledger.digest)
        yield "Plan", f"{spoken}, digest {ledger.digest}"
        yield "Approved", ", ".join(ledger.approved_by) or "not in the journal"
    yield "Journal", str(ledger.journal)
    for path in ledger.put_back_by:
        yield "Put back", str(path)
    yield "Cluster now", _asked(ledger)
    yield "Readable", _readable(ledger)
    yield "Made", time_text(ledger.made_at_ms)
    for note in ledger.notes:
        yield "Note", note


def _asked(ledger: IncidentLedger) -> str:
    if not ledger.asked_cluster:
        return "not asked: what is kept is so by the journal"
    kept = [partition for partition in ledger.partitions if partition.confirmed is True]
    gone = sum(partition.confirmed is False for partition in ledger.partitions)
    unsure = len(ledger.partitions) - len(kept) - gone
    parts = [f"all that was kept is there of {partitions_text(len(kept))}"]
    if gone:
        parts.append(f"some is gone of {gone:,}")
    if unsure:
        parts.append(f"not known of {unsure:,}")
    return ", ".join(parts)


def _readable(ledger: IncidentLedger) -> str:
    """How many of the kept records consumers get to read now (R30)."""
    if not ledger.asked_cluster:
        return "not asked: how many of the kept records are readable is not known"
    about = "~" if ledger.approximate else ""
    known = [one for one in ledger.partitions if isinstance(one.not_yet_readable, int)]
    kept = sum(one.sums.get(Fate.KEPT, FateSum()).total for one in known)
    waiting = ledger.not_yet_readable
    told = f"{about}{kept - waiting:,} of the {about}{kept:,} kept records"
    if waiting:
        told += (
            f"; {about}{waiting:,} not yet: they are above their leaders' high watermarks "
            "(`breakglass after add-replica`)"
        )
    unsure = len(ledger.partitions) - len(known)
    return f"{told}; not known of {partitions_text(unsure)}" if unsure else told


def _blocks(ledger: IncidentLedger) -> Iterator[PageTable | PageLines]:
    if ledger.differences:
        yield PageLines("Where the sums do not add up", _bounded(ledger.differences))
    yield _sums(ledger)
    if ledger.unread:
        lines = tuple(_unread(logs) for logs in ledger.unread)
        yield PageLines("Replicas that could not be read, in no sum", lines)
    noted = sorted([partition for partition in ledger.partitions if partition.of_note], key=_calm)
    if noted:
        yield _partitions(noted)
    whole = len(ledger.partitions) - len(noted)
    rest = list[str]()
    if len(noted) > SHOWN_PARTITIONS:
        rest.append(f"and {len(noted) - SHOWN_PARTITIONS:,} more partitions: --json has them all")
    if whole:
        rest.append(f"Of {partitions_text(whole)} everything was kept: {_named(ledger)}")
    if rest:
        yield PageLines("", tuple(rest))
    by_offset = [ledger for ledger in noted if ledger.replicas and _calm(ledger) != CALM]
    if by_offset:
        partitions = by_offset[:SHOWN_BY_OFFSET]
        rows = [row for partition in partitions for row in _offsets(partition)]
        columns = ("Partition", "Replica", "Offsets", "Records", "Fate", "Where, or why")
        title = "By offsets: every replica of these partitions"
        yield PageTable(title, columns, tuple(rows), frozenset({3}))
    uncounted = [
        f"{partition.partition}: {why}"
        for partition in ledger.partitions
        for why in partition.uncounted
    ]
    if uncounted:
        yield PageLines("Not counted", _bounded(uncounted))
    if ledger.left_out:
        left = [f"{partition}: {reason}" for partition, reason in ledger.left_out]
        yield PageLines("Not elected, in no sum", _bounded(left))
    if ledger.moments:
        told = [f"{time_text(at_ms)}  {says}" for at_ms, says in ledger.moments]
        yield PageLines("What happened (UTC)", _bounded(told))


def _calm(one: PartitionLedger) -> tuple[int, ...]:
    """Sort key, lowest for the partition with the most to review; `CALM` if at most unread."""
    records = [one.sums.get(fate, FateSum()).total for fate in TROUBLE]
    return (-len(one.differences), -len(one.uncounted), *(-number for number in records))


def _sums(ledger: IncidentLedger) -> PageTable:
    about = "~" if ledger.approximate else ""
    sums = ledger.sums
    more = f" + ? ({ledger.uncounted:,})" if ledger.uncounted else ""

    def row(name: str, found: FateSum, means: str) -> tuple[str, ...]:
        figures = (found.total, found.committed, found.unproven)
        first, second, third = (f"{about if figure else ''}{figure:,}" for figure in figures)
        together, *parts = (first, second, third)
        return (name, f"{together}{more}", *parts, means)

    rows: list[tuple[str, ...]] = [
        row(str(fate), sums.get(fate, FateSum()), MEANS[fate])
        for fate in Fate
        if fate is not Fate.WAITING or fate in sums
    ]
    rows.append(row("sum", total_of(sums), ""))
    rows.append(("held", f"{about}{ledger.held:,}{more}", "", "", "counted apart from fates"))
    columns = ("Records", "All", "Proved committed", "Not known", "What became of them")
    title = "Records of readable replicas, each (leader epoch, offset) once"
    return PageTable(title, columns, tuple(rows), frozenset({1, 2, 3}))


def _unread(one: UnreadLogs) -> str:
    known = f">= {one.at_least:,}" if one.at_least or not one.unbounded else ""
    unknown = f"? ({one.unbounded:,})" if one.unbounded else ""
    bound = " + ".join(filter(None, (known, unknown)))
    return f"b{one.broker} of {partitions_text(one.partitions)}: unknown, {bound}"


def _partitions(partitions: Sequence[PartitionLedger]) -> PageTable:
    fates = [
        fate
        for fate in Fate
        if fate is not Fate.WAITING or any(fate in partition.sums for partition in partitions)
    ]
    waiting = any(partition.not_yet_readable not in (None, 0) for partition in partitions)
    more = ("Not yet readable",) if waiting else ()
    columns = (
        "Partition",
        "Leader",
        "Held",
        *(str(fate).capitalize() for fate in fates),
        *more,
        "Unread",
    )
    rows = tuple(
        _partition(partition, fates, waiting=waiting) for partition in partitions[:SHOWN_PARTITIONS]
    )
    title = "Partitions with more to say than that all was kept"
    return PageTable(title, columns, rows, frozenset(range(2, len(columns) - 1)))


def _partition(one: PartitionLedger, fates: Sequence[Fate], *, waiting: bool) -> tuple[str, ...]:
    leader = "-" if one.leader is None else f"b{one.leader}"
    about = "~" if one.approximate else ""
    held = f"{about}{one.held:,}" if isinstance(one.held, int) else "?"
    return (
        str(one.partition),
        leader,
        held,
        *(_cell(one, fate, about) for fate in fates),
        *((count(one.not_yet_readable),) if waiting else ()),
        unread_figure(one.unread, one.unread_at_least) if one.unread else "-",
    )


def _cell(one: PartitionLedger, fate: Fate, about: str) -> str:
    """A figure, which is a lower bound if replicas could not be counted."""
    records = one.sums.get(fate, FateSum()).total
    if one.uncounted:
        return f"{about}{records:,} + ?" if records else "?"
    return f"{about if records else ''}{records:,}"


def _offsets(one: PartitionLedger) -> Iterator[tuple[str, ...]]:
    for replica in one.replicas:
        name = (str(one.partition), f"b{replica.broker}")
        if replica.unread is not None:
            end = count(replica.end)
            yield (*name, f"?-{end}", "?", "unknown", replica.unread.reason)
        elif not replica.entries:
            yield (*name, "-", "0", "empty", "")
        else:
            yield from ((*name, *_entry(entry)) for entry in merged(replica))


def merged(replica: ReplicaLedger) -> Iterator[LedgerEntry]:
    """The replica's entries, with entries merged that differ only in their standing."""
    last: LedgerEntry | None = None
    for entry in replica.entries:
        if last is not None and (last.fate, last.reason) == (entry.fate, entry.reason):
            last = LedgerEntry(last.start, entry.end, last.fate, last.standing, last.reason)
        else:
            if last is not None:
                yield last
            last = entry
    if last is not None:
        yield last


def _entry(entry: LedgerEntry) -> tuple[str, str, str, str]:
    offsets = f"{entry.start:,}-{entry.end - 1:,}"
    return offsets, f"{entry.offsets:,}", str(entry.fate), entry.reason


def _named(ledger: IncidentLedger) -> str:
    """``orders [0-3], ledger [1]``, the first topics."""
    topics: dict[str, list[int]] = {}
    for partition in ledger.partitions:
        if not partition.of_note:
            topics.setdefault(partition.partition.topic, []).append(partition.partition.partition)
    named = [f"{topic} [{partition_numbers(numbers)}]" for topic, numbers in topics.items()]
    more = len(named) - SHOWN_LINES
    also = f" and {more:,} more topics" if more > 0 else ""
    return ", ".join(named[:SHOWN_LINES]) + also


def _bounded(lines: Iterable[str]) -> tuple[str, ...]:
    held = tuple(lines)
    more = len(held) - SHOWN_LINES
    return (*held[:SHOWN_LINES], f"and {more:,} more: --json has them all") if more > 0 else held


STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em;
  color: #1b1f24; background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 1.6em 0 .4em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; }
dt { color: #57606a; } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .15em .8em .15em 0;
  border-bottom: 1px solid #d0d7de; overflow-wrap: anywhere; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict { font-weight: 600; padding: .5em .8em; border-left: 4px solid #1a7f37; }
.wrong { border-color: #cf222e; color: #cf222e; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; }
  th, td { border-color: #30363d; } dt { color: #9da7b1; } .wrong { color: #ff7b72; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""If a text escaped the escaping, this policy keeps it from loading or sending anything."""


def page_html(page: LedgerPage) -> str:
    """*page* as a document; every text on it is escaped."""
    return "\n".join(_document(page)) + "\n"


def _document(page: LedgerPage) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{_text(page.title)}</title><style>{STYLE}</style></head><body>"
    yield f"<h1>{_text(page.title)}</h1>"
    yield f'<p class="verdict{"" if page.adds_up else " wrong"}">{_text(page.verdict)}</p>'
    facts = "".join(f"<dt>{_text(label)}</dt><dd>{_text(told)}</dd>" for label, told in page.facts)
    yield f"<dl>{facts}</dl>"
    for block in page.blocks:
        if block.title:
            yield f"<h2>{_text(block.title)}</h2>"
        yield from _table(block) if isinstance(block, PageTable) else _lines(block)
    yield "</body></html>"


def _table(table: PageTable) -> Iterator[str]:
    yield "<table><thead>"
    yield _row(table.columns, table.right, "th")
    yield "</thead><tbody>"
    yield from (_row(row, table.right, "td") for row in table.rows)
    yield "</tbody></table>"


def _row(cells: Iterable[str], right: frozenset[int], tag: str) -> str:
    mark = ' class="n"'
    marked = (
        f"<{tag}{mark * (number in right)}>{_text(cell)}</{tag}>"
        for number, cell in enumerate(cells)
    )
    return f"<tr>{''.join(marked)}</tr>"


def _lines(block: PageLines) -> Iterator[str]:
    yield from (f"<p>{_text(line)}</p>" for line in block.lines)


def _text(text: str) -> str:
    return escape(inert(text))


SCHEMA = 1


def ledger_head(ledger: IncidentLedger) -> dict[str, Any]:
    """All but the partitions; ``adds_up`` first among its figures."""
    return {
        "schema": SCHEMA,
        "cluster_id": ledger.cluster_id,
        "journal": ledger.journal,
        "what": ledger.what,
        "result": ledger.result,
        "people": ledger.people,
        "opened_at_ms": ledger.opened_at_ms,
        "last_at_ms": ledger.last_at_ms,
        "made_at_ms": ledger.made_at_ms,
        "consents": ledger.consents,
        "digest": ledger.digest,
        "approved_by": ledger.approved_by,
        "put_back_by": ledger.put_back_by,
        "asked_cluster": ledger.asked_cluster,
        "notes": ledger.notes,
        "adds_up": ledger.adds_up,
        "differences": ledger.differences,
        "approximate": ledger.approximate,
        "held": ledger.held,
        "partitions_not_counted": ledger.uncounted,
        "sums": _sums_document(ledger.sums),
        "not_yet_readable": ledger.not_yet_readable if ledger.asked_cluster else None,
        "unread": ledger.unread,
        "left_out": [
            {"topic": partition.topic, "partition": partition.partition, "reason": reason}
            for partition, reason in ledger.left_out
        ],
        "moments": [{"at_ms": at_ms, "says": says} for at_ms, says in ledger.moments],
    }


def ledger_partitions(ledger: IncidentLedger) -> Iterator[dict[str, Any]]:
    """The partitions, in the order of the plan."""
    return map(_partition_document, ledger.partitions)


def _partition_document(one: PartitionLedger) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "result": one.result,
        "reason": one.reason,
        "leader": one.leader,
        "agreed": one.agreed,
        "held": one.held,
        "approximate": one.approximate,
        "sums": _sums_document(one.sums),
        "not_counted": one.uncounted,
        "differences": one.differences,
        "confirmed": one.confirmed,
        "not_yet_readable": one.not_yet_readable,
        "unread": {
            "brokers": one.unread,
            "at_least": one.unread_at_least,
            "source": one.unread_source,
        },
        "replicas": [
            {
                "broker": replica.broker,
                "start": replica.start,
                "end": replica.end,
                "offsets": [
                    {
                        "start": entry.start,
                        "end": entry.end,
                        "fate": entry.fate,
                        "standing": entry.standing,
                        "reason": entry.reason,
                    }
                    for entry in replica.entries
                ],
            }
            for replica in one.replicas
        ],
    }


def _sums_document(sums: Sums) -> dict[str, Any]:
    """The records of every fate, 0 if none; records that could not be counted are in no fate."""
    return {fate.value: _sum(sums.get(fate, FateSum())) for fate in Fate}


def _sum(one: FateSum) -> dict[str, int]:
    return {"records": one.total, "committed": one.committed, "unproven": one.unproven}
