"""`breakglass groups`: consumer groups that committed past the end of a recovered log (R19)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.evidence import say_acls
from breakglass.console.guarded import GuardedCommand
from breakglass.console.options import AsJson, connected, connected_for_writing
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.recovery.acts.move_groups import MoveGroups
    from breakglass.services.recovery.group_reset import GroupStanding, MovedOffset, OffsetMove

app = new_app(
    "Consumer groups that committed past the end of a log.\n\nAfter an election that lost records "
    "such a group meets OFFSET_OUT_OF_RANGE, and goes where its auto.offset.reset says."
)

Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic (repeatable).")]


@app.command("past-end")
@connected
def past_end(
    connection: Connection,
    topic: Topics = None,
    as_json: AsJson = False,
) -> None:
    """List committed offsets that lie past the end of their log."""
    from breakglass.services.recovery.acts.move_groups import past_end_now

    with connection.reading() as client:
        found = past_end_now(client, tuple(topic or ()))
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
    from breakglass.services.recovery.acts.move_groups import MoveGroups, past_end_now

    connection.require_write(MoveGroups.doing)
    act = MoveGroups(partial(past_end_now, topics=tuple(topic or ())))
    raise typer.Exit(_move(connection, act, Consent(tuple(consent or ()))))


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
    from breakglass.services.guard.journal_view import read
    from breakglass.services.recovery.acts.move_groups import MoveGroups, moved_back

    connection.require_write(MoveGroups.doing)
    act = MoveGroups(partial(moved_back, view=read(journal)))
    raise typer.Exit(_move(connection, act, Consent(tuple(consent or ()))))


def _move(connection: Connection, act: MoveGroups, consent: Consent) -> int:
    """Carry out the moves after consent; returns the exit code."""
    command = GuardedCommand(act, consent, connection)
    frozen = command.freeze()
    found = frozen.plan
    _say_unread(found.standing)
    if not found.moves:
        say("No offset is to be moved.")
        return 0
    print_table(COLUMNS, map(_row, found.moves))
    done: list[MovedOffset] = command.carry_out(frozen, write=connection.write).value
    return _report(done)


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
    from breakglass.services.recovery.group_reset import MoveResult

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
