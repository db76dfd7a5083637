"""`breakglass groups`: consumer groups that committed past the end of a recovered log (R19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.commands import new_app
from console.consent import Consent, Phrases
from console.evidence import say_acls
from console.options import AsJson, connected, connected_for_writing
from console.output import Column, print_json, print_table, say
from console.wiring import Connection
from services.words.inert import inert

if TYPE_CHECKING:
    from services.kafka.read_client import ReadClient
    from services.model import ClusterSnapshot
    from services.recovery.group_reset import GroupStanding, MovedOffset, OffsetMove

app = new_app(
    "Consumer groups that committed past the end of a log.\n\nAfter an election that lost records "
    "such a group meets OFFSET_OUT_OF_RANGE, and goes where its auto.offset.reset says."
)

SECONDS = 10.0
DOING = "moving groups' offsets"

Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic (repeatable).")]


@app.command("past-end")
@connected
def past_end(
    connection: Connection,
    topic: Topics = None,
    as_json: AsJson = False,
) -> None:
    """List committed offsets that lie past the end of their log."""
    with connection.reading() as client:
        found = _look(client, tuple(topic or ()))
    _say_unread(found.standing)
    if as_json:
        unread, acls = found.standing.unread, found.standing.missing_acls
        print_json({"schema": 1, "past_end": found.moves, "unread": unread, "missing_acls": acls})
    elif found.moves:
        print_table(COLUMNS, (_row(one) for one in found.moves))
    else:
        say("No group has committed past the end of a log that could be read.")


@app.command()
@connected_for_writing
def reset(connection: Connection, topic: Topics = None, consent: Phrases = None) -> None:
    """Put those offsets to the log's end; groups with running consumers are refused.

    Nothing is lost by it. What was committed before is in the journal: `rollback` restores it.
    """
    connection.require_write(DOING)
    with connection.reading() as client:
        found = _look(client, tuple(topic or ()))
        _say_unread(found.standing)
        raise typer.Exit(_move(connection, client, found, Consent(tuple(consent or ()))))


@app.command()
@connected_for_writing
def rollback(
    connection: Connection,
    journal: Annotated[
        Path, typer.Option("--journal", metavar="FILE", help="The journal of the reset or restore.")
    ],
    consent: Phrases = None,
) -> None:
    """Put offsets back to where a reset, or a restore with --groups, found them.

    Only where the group still stands where it was put. An offset that a group did not have before
    is removed.
    """
    from services.errors import WrongCluster
    from services.guard.journal_view import read
    from services.recovery.group_reset import moves_of

    connection.require_write(DOING)
    view = read(journal)
    with connection.reading() as client:
        found = _look(client, ())
        if view.cluster_id != found.snapshot.cluster_id:
            raise WrongCluster(
                f"journal {journal} is of cluster {view.cluster_id}, and this is "
                f"{found.snapshot.cluster_id}: connect to that one"
            )
        moves = tuple(one.back for one in moves_of(view))
        looked = _Look(found.snapshot, found.standing, moves)
        raise typer.Exit(_move(connection, client, looked, Consent(tuple(consent or ()))))


@dataclass(frozen=True, slots=True)
class _Look:
    """What was read, and the moves it suggests."""

    snapshot: ClusterSnapshot
    standing: GroupStanding
    moves: tuple[OffsetMove, ...]


def _look(client: ReadClient, topics: tuple[str, ...]) -> _Look:
    from services.kafka.wire.deadline import Deadline
    from services.recovery.group_reset import moves_past_end, read_ends, read_standing

    snapshot = client.snapshot(Deadline.after(SECONDS), topics)
    online = [one for one in snapshot.partitions if not one.offline]
    ends = read_ends(client, online, Deadline.after(SECONDS))
    brokers = [one.id for one in snapshot.brokers if one.fenced is not True]
    standing = read_standing(client, brokers, ends, Deadline.after(SECONDS))
    return _Look(snapshot, standing, moves_past_end(standing, ends))


def _move(connection: Connection, client: ReadClient, found: _Look, consent: Consent) -> int:
    """Carry out the moves after consent; returns the exit code."""
    from services.guard.journal import Journal
    from services.recovery.group_reset import carry_out

    if not found.moves:
        say("No offset is to be moved.")
        return 0
    print_table(COLUMNS, (_row(one) for one in found.moves))
    phrase = phrase_for(found.moves)
    consent.require([phrase])
    with (
        Journal.open(found.snapshot.cluster_id) as journal,
        connection.arm_groups(DOING, found.snapshot.cluster_id) as armed,
    ):
        journal.consent(phrase)
        say(f"journal: {journal.path}")
        coordinators = found.standing.coordinators
        done = carry_out(armed, client, journal, found.moves, coordinators, SECONDS)
        journal.finish("succeeded" if _exit_code(done) == 0 else "partly failed")
    return _report(done)


def phrase_for(moves: Sequence[OffsetMove]) -> str:
    """What an operator types: ``billing on orders-3 to 100``; in bulk their number."""
    if len(moves) == 1:
        one = moves[0]
        return f"{inert(one.group)} on {one.partition} to {_place(one.to)}"
    return f"{len(moves):,} group offsets move"


def _place(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)


def _figure(offset: int | None) -> str:
    return "none" if offset is None else f"{offset:,}"


def _report(done: Sequence[MovedOffset]) -> int:
    for one in done:
        move = one.move
        line = f"{move.group} on {move.partition}  {one.result} to {_figure(move.to)}"
        if one.reason:
            say(f"{line}: {one.reason}")
        else:
            print(inert(line))
    return _exit_code(done)


def _exit_code(done: Sequence[MovedOffset]) -> int:
    from services.recovery.group_reset import MoveResult

    results = {one.result for one in done}
    if MoveResult.UNKNOWN in results:
        return 4
    return 0 if results <= {MoveResult.MOVED} else 1


def _say_unread(standing: GroupStanding) -> None:
    for broker, reason in sorted(standing.unread.items()):
        say(f"? groups of b{broker} are not known: {reason}")
    say_acls(standing.missing_acls)


COLUMNS = (
    Column("Group"),
    Column("Topic-partition"),
    Column("Committed", right=True),
    Column("Log end", right=True),
)


def _row(one: OffsetMove) -> tuple[object, ...]:
    return (one.group, one.partition, _figure(one.committed), _figure(one.to))
