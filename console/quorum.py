"""`breakglass quorum`: which copy of the metadata loses least when the controllers are gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import FAILED, StopSignal
from breakglass.console.options import AsJson
from breakglass.console.output import (
    columns,
    members,
    of_partition,
    print_json,
    print_lines,
    print_table,
    say,
)
from breakglass.services.model import Unknown
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.quorum.change_words import SaidChange
    from breakglass.services.quorum.comparison import ComparedCopy
    from breakglass.services.quorum.data_folders import DataFindings
    from breakglass.services.quorum.inspection import CopyLack, QuorumInspection
    from breakglass.services.quorum.metadata_copy import Batch

app = new_app("Compare copies of the controllers' metadata log.")

SHOWN = 10
"""Lines of one kind that the text shows; the document has all of them."""
COLUMNS = columns(
    "Copy", "Node", ">Start", ">End", ">Epoch", ">Snapshots", "Voters", "Newest record", "Compared"
)
CAVEATS = (
    "Kafka does not store the metadata log's high watermark: the last records of a copy may not "
    "have been committed.",
    "A machine whose folders were not named may have a newer copy: each controller and each broker "
    "has one.",
)


@app.callback()
def quorum() -> None:
    """Find the copy of the metadata log that loses least, when the controllers are gone.

    Each controller has a copy of the metadata log, and so has each broker.
    """


@app.command()
def inspect(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="log:DIR...",
            help="Folders of log.dirs, of controllers and brokers; or copies of them.",
            show_default=False,
        ),
    ],
    copy: Annotated[
        str | None,
        typer.Option(
            "--copy",
            metavar="log:DIR",
            help="Say what the cluster loses if it comes back from this copy, not from the best.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare copies of the metadata log, and say what each lacks against the best one.

    Name every folder that you can read: those of controllers, brokers, and copies of them. The
    folders are only read, and their nodes may run. The command ranks the copies as raft does and
    compares them batch by batch. If you also name data folders, the command says which partitions
    would become strays, and where the copy is too old for the ISR, leader epochs or producer ids.
    Exits with 0 if each copy is proved to be a prefix of the best and the data folders agree with
    it, and with 1 if a copy is damaged, forked or not compared, or something would be lost.
    """
    from breakglass.services.quorum.inspection import inspect_copies

    with StopSignal() as stop:
        stop.armed()
        found = inspect_copies(sources, copy, stop.go_on)
    if as_json:
        print_json({**_document(found), "caveats": CAVEATS})
    else:
        print_table(COLUMNS, [_row(one) for one in found.copies])
        print_lines(_lines(found))
    for caveat in CAVEATS:
        say(caveat)
    raise typer.Exit(0 if found.in_order else FAILED)


def _row(one: ComparedCopy) -> Sequence[object]:
    copy = one.copy
    return (
        copy.path.parent,
        copy.node,
        f"{copy.log_start:,}",
        f"{copy.end.offset:,}",
        copy.end.epoch,
        len(copy.snapshots),
        copy.voters,
        time_text(copy.newest_ms),
        one.relation,
    )


def _lines(found: QuorumInspection) -> Iterator[str]:
    best = found.copies[0].copy
    yield (
        f"The best copy is {best.path}: epoch {best.end.epoch}, log end {best.end.offset:,}. "
        "Raft ranks copies by the epoch of the last record, then by the log end."
    )
    for one in found.copies[1:]:
        yield _compared(one)
    for one in found.copies:
        for damage in one.copy.damage:
            yield f"{one.copy.path} is damaged: {damage}."
    running = [str(one.copy.path) for one in found.copies if one.copy.running]
    if running:
        yield f"These logs may have grown since, as their nodes run: {', '.join(running)}."
    for offset, name in found.unknown[:SHOWN]:
        yield f"Offset {offset:,} has a {name}, which this release cannot decode."
    if len(found.unknown) > SHOWN:
        yield f"and {len(found.unknown) - SHOWN:,} more that this release cannot decode."
    for lack in found.lacks:
        yield from _lack(lack)
    for compared, snapshots in found.surviving:
        names = ", ".join(one.path.name for one in snapshots)
        yield (
            f"{compared.copy.path} has snapshots past what {found.chosen.copy.path} has: {names}. "
            "Kafka keeps them when it truncates the log, and the node then shows what they have. "
            "Before you start this node under the other copy, put a copy of that folder in place "
            "of this one, with this node's quorum-state."
        )
    match found.data:
        case Unknown(reason):
            yield f"The data folders were not compared: {reason}"
        case None:
            yield "No data folder was named, so nothing is known of strays, ISRs and producer ids."
        case data:
            yield from _data(data, str(found.chosen.copy.path))


def _compared(one: ComparedCopy) -> str:
    path, start, end = one.copy.path, one.start, one.end
    if one.fork is not None:
        best, own = map(_side, (one.fork.best, one.fork.copy))
        return (
            f"{path} forks from the best copy at offset {one.fork.offset:,}: the best copy has "
            f"{best}, this one {own}."
        )
    if not one.proved:
        return (
            f"{path} was not compared: its log ends before that of the best copy begins, and no "
            "snapshot of the best copy names the epoch there."
        )
    if one.by_id:
        return (
            f"{path} has the epoch of the best copy before offset {one.shared:,}, where it ends; "
            "no batch is in both, so none was compared."
        )
    equal = f"{path} equals the best copy in offset, epoch and CRC of each batch from {start:,} to"
    if one.shared > end:
        return f"{equal} {end:,}, and in the epoch before offset {one.shared:,}, where it ends."
    earlier = " Earlier batches are not in both, and were not compared." if start else ""
    return f"{equal} {end:,}, where it ends.{earlier}"


def _side(batch: Batch | None) -> str:
    if batch is None:
        return "no batch there"
    offsets = f"{batch.offset:,}-{batch.next_offset - 1:,}"
    return f"offsets {offsets} of epoch {batch.epoch} with CRC {batch.crc:08x}"


def _lack(lack: CopyLack) -> Iterator[str]:
    path = lack.compared.copy.path
    if isinstance(lack.records, Unknown):
        yield f"What {path} lacks is not known: {lack.records.reason}."
        return
    if lack.records:
        noun = "record" if lack.records == 1 else "records"
        yield (
            f"{path} lacks {lack.records:,} {noun} of the best copy, from offset "
            f"{lack.compared.shared:,} on. Their changes:"
        )
        yield from _changes(lack.changes)
    if isinstance(lack.own, Unknown) or lack.own:
        yield f"{path} alone has, from offset {lack.compared.shared:,} on:"
        yield from _changes(lack.own)


def _changes(changes: Sequence[SaidChange] | Unknown) -> Iterator[str]:
    if isinstance(changes, Unknown):
        yield f"  not known: {changes.reason}"
        return
    kinds: dict[str, list[SaidChange]] = defaultdict(list)
    for change in changes:
        kinds[change.kind].append(change)
    if not kinds:
        yield "  none that changes the cluster"
    for kind, those in kinds.items():
        yield f"  {kind}:"
        for change in those[:SHOWN]:
            yield f"    {time_text(change.at_ms)}  {change.what}"
        if len(those) > SHOWN:
            yield f"    and {len(those) - SHOWN:,} more (--json has them)"


def _data(data: DataFindings, copy: str) -> Iterator[str]:
    yield f"Replicas in the data folders, compared with {copy}: {data.replicas:,}."
    if data.strays:
        yield f"Strays: {len(data.strays):,}. Brokers rename these folders when they start."
        yield from _first([f"{one.path}: {one.why}" for one in data.strays])
    if data.old_epochs:
        yield f"Partitions with later leader epochs than the copy: {len(data.old_epochs):,}."
        yield from _first(
            [
                f"{one.partition}: epoch {one.log} in the log, {one.copy} in the copy"
                for one in data.old_epochs
            ]
        )
    for proved, title, consequence in (
        (
            True,
            "ISR members of the copy that end before a high watermark that a broker noted",
            "They had left the ISR, or lost the end of their logs: electing one loses acknowledged "
            "records.",
        ),
        (
            False,
            "ISR members of the copy that end before another replica",
            "Electing one loses the records in between. Whether these were acknowledged is not "
            "known.",
        ),
    ):
        members_of = [one for one in data.short_members if one.proved is proved]
        if members_of:
            yield f"{title}: {len(members_of):,}. {consequence}"
            yield from _first(
                [
                    f"{one.partition}: b{one.broker} ends at {one.end.offset:,} (epoch "
                    f"{one.end.epoch}), b{one.longest} at {one.longest_end.offset:,} (epoch "
                    f"{one.longest_end.epoch}); ISR {','.join(map(str, one.isr))}"
                    for one in members_of
                ]
            )
    if data.reused_producer_ids:
        yield (
            f"Producer id {data.largest_producer_id:,} is in {data.producer_id_in}, and the "
            f"copy gives out ids from {data.next_producer_id or 0:,} on: a new producer would get "
            "an id that is in the logs, and its records could be dropped as duplicates."
        )
    if data.unread:
        yield f"Files and folders that could not be read: {len(data.unread):,}."
        yield from _first(data.unread)


def _first(lines: Sequence[str]) -> Iterator[str]:
    for line in lines[:SHOWN]:
        yield f"  {line}"
    if len(lines) > SHOWN:
        yield f"  and {len(lines) - SHOWN:,} more (--json has them)"


def _document(found: QuorumInspection) -> dict[str, Any]:
    return {
        "schema": 1,
        "in_order": found.in_order,
        "best": found.copies[0].copy.path,
        "chosen": found.chosen.copy.path,
        "copies": [_copy(one) for one in found.copies],
        "undecoded": [{"offset": offset, "record": name} for offset, name in found.unknown],
        "lacks": [
            {
                "path": lack.compared.copy.path,
                "from": lack.compared.shared,
                **members(lack, "records changes own"),
            }
            for lack in found.lacks
        ],
        "surviving_snapshots": [
            {"path": one.copy.path, "snapshots": [snapshot.path.name for snapshot in snapshots]}
            for one, snapshots in found.surviving
        ],
        "data": found.data
        if found.data is None or isinstance(found.data, Unknown)
        else {
            **members(found.data, "replicas next_producer_id largest_producer_id"),
            **members(found.data, "producer_id_in reused_producer_ids unread"),
            "strays": [
                {**of_partition(one.partition), **members(one, "broker path why")}
                for one in found.data.strays
            ],
            "old_leader_epochs": [
                {**of_partition(one.partition), **members(one, "broker copy log")}
                for one in found.data.old_epochs
            ],
            "short_isr_members": [
                {
                    **of_partition(one.partition),
                    **members(one, "broker isr longest committed"),
                    "proved": one.proved,
                    "end": one.end._asdict(),
                    "longest_end": one.longest_end._asdict(),
                }
                for one in found.data.short_members
            ],
        },
    }


def _copy(one: ComparedCopy) -> dict[str, Any]:
    fork = one.fork
    return {
        **members(one.copy, "path cluster_id node directory_id running quorum_epoch voters"),
        **members(one.copy, "log_start newest_ms damage"),
        "log_end": one.copy.end.offset,
        "last_epoch": one.copy.end.epoch,
        "snapshots": [
            members(snapshot, "offset epoch written_ms damage") for snapshot in one.copy.snapshots
        ],
        "relation": one.relation,
        "compared": None if one.start >= one.end else {"start": one.start, "end": one.end},
        "shared": one.shared,
        "fork": fork
        and {
            "offset": fork.offset,
            "best": fork.best and fork.best._asdict(),
            "copy": fork.copy and fork.copy._asdict(),
        },
    }
