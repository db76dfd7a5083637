"""`breakglass after transactions`: transactions that lost their markers (R18, R28)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import StopSignal
from breakglass.console.guarded import GuardedCommand, say_event
from breakglass.console.options import (
    NO_CONSENT,
    AsJson,
    GivenConsent,
    Sources,
    TopicNames,
    WhileRunning,
    connected,
    connected_for_writing,
)
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.guard.act import TargetResult
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.recovery.acts.end_transactions import EndedTransaction
    from breakglass.services.recovery.transactions.finding import (
        TransactionSearch,
        TransactionsFound,
    )

app = new_app(
    "List and end the transactions that no coordinator will end.\n\nAn election that loses the "
    "marker of a transaction leaves the transaction open: read_committed consumers stop there, "
    "without an error."
)


@app.command("list")
@connected
def list_open(
    connection: Connection,
    topics: TopicNames = (),
    source: Sources = None,
    while_running: WhileRunning = False,
    as_json: AsJson = False,
) -> None:
    """List open transactions, which coordinator would end them, and what their markers say."""
    search = _search(topics, source, while_running=while_running, abort=False)
    with connection.reading() as client:
        found = search.run(client)
    if as_json:
        from breakglass.services.recovery.transactions.finding import described

        print_json(
            {
                "schema": 1,
                "open": described(found.endings),
                "unread": found.unread,
                "unknown": found.unknown,
            }
        )
    elif found.endings:
        rows = (
            (
                one.partition,
                one.pending.producer_id,
                one.pending.producer_epoch,
                one.pending.start_offset,
                one.last_stable,
                one.pending.coordinator_state or "forgotten",
                one.hanging,
                one.marker and one.marker.word,
            )
            for one in found.endings
        )
        print_table(COLUMNS, rows)
        for ending in found.endings:
            say(f"{ending.partition} producer {ending.pending.producer_id}  {ending.why}")
    for reason in found.unknown:
        say(f"? {reason}")
    if not found.endings:
        where = " on the partitions that could be read" if found.unknown else ""
        say(f"No transaction is open{where}.")


@app.command()
@connected_for_writing
def finish(
    connection: Connection,
    topics: TopicNames = (),
    source: Sources = None,
    while_running: WhileRunning = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort the transactions whose marker is found nowhere.")
    ] = False,
    as_json: AsJson = False,
    consent: GivenConsent = NO_CONSENT,
) -> None:
    """End hanging transactions as their lost markers say; with --abort, abort the others.

    The marker is written again with WriteTxnMarkers, as the coordinator wrote it: with the same
    producer epoch, coordinator epoch, and commit or abort. The leader confirms each transaction:
    the last stable offset moves. A transaction that its coordinator still has under way is left
    alone, unless a lost log proves that it was committed: an election of `__transaction_state` can
    set it back to Ongoing, and its coordinator aborts it then. Exits with 1 while a hanging
    transaction is left.
    """
    from breakglass.services.recovery.acts.end_transactions import EndTransactions

    connection.require_write(EndTransactions.doing)
    search = _search(topics, source, while_running=while_running, abort=abort)
    with StopSignal() as stop:
        command = GuardedCommand(
            EndTransactions(search), consent, connection, stop=stop, hear=say_event
        )
        frozen = command.freeze()
        for remark in frozen.remarks:
            say(remark)
        if not frozen.asked:
            say("No transaction is to be ended.")
            raise typer.Exit(_left(frozen.plan))
        for label, sentence in frozen.facts:
            say(f"{label}  {sentence}")
        for asked in frozen.asked:
            if asked.why:
                say(f"{asked.phrase}: needs a consent of its own: {asked.why}")
        done: list[EndedTransaction] = command.carry_out(frozen, write=connection.write).value
    raise typer.Exit(_report(done, frozen.plan, as_json=as_json))


def _search(
    topics: tuple[str, ...], sources: list[str] | None, *, while_running: bool, abort: bool
) -> TransactionSearch:
    from breakglass.services.recovery.transactions.finding import TransactionSearch
    from breakglass.services.recovery.transactions.source import open_sources

    opened = open_sources(sources or (), while_running=while_running)
    return TransactionSearch(topics, opened, abort)


def _report(done: Sequence[EndedTransaction], found: TransactionsFound, *, as_json: bool) -> int:
    from breakglass.services.recovery.acts.end_transactions import title
    from breakglass.services.recovery.transactions.finding import described

    results = {transaction.result for transaction in done}
    if as_json:
        ended = [
            {**document, "result": one.result, "text": one.text}
            for one, document in zip(
                done, described([transaction.ending for transaction in done]), strict=True
            )
        ]
        print_json({"schema": 1, "ended": ended})
    for one in done:
        line = inert(f"{title(one.ending)}  {one.text}")
        if one.result is not TargetResult.DONE:
            say(f"{one.result}: {line}")
        elif not as_json:
            print(line)
    if TargetResult.UNKNOWN in results:
        return 4
    if results == {TargetResult.DONE} and len(done) == len(found.to_end):
        return _left(found)
    return 1


def _left(found: TransactionsFound) -> int:
    """The exit code once what is to be ended has ended: 1 where a hanging transaction is left."""
    alone = [ending for ending in found.endings if ending.marker is None]
    hangs = any(ending.hanging is True or ending.pending.ended_on for ending in alone)
    return int(bool(found.unread) or hangs)


COLUMNS = columns(
    "Topic-partition",
    ">Producer",
    ">Epoch",
    ">Since",
    ">Stable to",
    "Coordinator",
    "Hanging",
    "Ends by",
)
