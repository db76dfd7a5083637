"""`breakglass groups`: consumer groups that committed past the end of a recovered log (R19)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.evidence import say_acls
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import names_in
from breakglass.console.options import AsJson, Topics, connected, connected_for_writing
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.recovery.acts.move_groups import MoveGroups
    from breakglass.services.recovery.group_reset import GroupStanding, MovedOffset, OffsetMove

app = new_app(
    "Consumer groups that committed past the end of a log.\n\nAfter an election that lost records, "
    "such a group gets OFFSET_OUT_OF_RANGE and continues where its auto.offset.reset says."
)


@app.command("past-end")
@connected
def past_end(
    connection: Connection,
    topics: Topics = None,
    as_json: AsJson = False,
) -> None:
    """List committed offsets that lie past the end of their log."""
    from breakglass.services.recovery.acts.move_groups import past_end_now

    with connection.reading() as client:
        found = past_end_now(client, names_in(topics))
    _say_unread(found.standing)
    if as_json:
        standing = found.standing
        print_json(
            {
                "schema": 1,
                "past_end": found.moves,
                "unread": standing.unread,
                "offline": [str(partition) for partition in standing.offline],
                "missing_acls": standing.missing_acls,
            }
        )
    elif found.moves:
        print_table(COLUMNS, (_row(move) for move in found.moves))
    else:
        say("No group has committed past the end of a log that could be read.")


@app.command()
@connected_for_writing
def reset(
    connection: Connection,
    topics: Topics = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Set these committed offsets to the end of their log.

    Groups with running consumers are refused. No records are lost. The journal keeps the offsets
    that were committed before, and `groups rollback` restores them.
    """
    from breakglass.services.recovery.acts.move_groups import MoveGroups, past_end_now

    connection.require_write(MoveGroups.doing)
    act = MoveGroups(partial(past_end_now, topics=names_in(topics)))
    raise typer.Exit(_move(connection, act, Consent(tuple(consent or ())), as_json=as_json))


@app.command()
@connected_for_writing
def rollback(
    connection: Connection,
    journal: Annotated[
        Path, typer.Option("--journal", metavar="FILE", help="The journal of the reset or restore.")
    ],
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Restore the offsets that a reset, or a restore with --groups, replaced.

    An offset is restored only while the group still has the offset that it was given. An offset
    that a group did not have before is removed.
    """
    from breakglass.services.guard.journal_view import read
    from breakglass.services.recovery.acts.move_groups import MoveGroups, moved_back

    connection.require_write(MoveGroups.doing)
    act = MoveGroups(partial(moved_back, view=read(journal)))
    raise typer.Exit(_move(connection, act, Consent(tuple(consent or ())), as_json=as_json))


def _move(connection: Connection, act: MoveGroups, consent: Consent, *, as_json: bool) -> int:
    """Carry out the moves after consent; returns the exit code."""
    command = GuardedCommand(act, consent, connection)
    frozen = command.freeze()
    found = frozen.plan
    _say_unread(found.standing)
    if not found.moves:
        say("No offset is to be moved.")
        if as_json:
            print_json({"schema": 1, "moved": []})
        return 0
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        print_table(COLUMNS, map(_row, found.moves))
    done: list[MovedOffset] = command.carry_out(frozen, write=connection.write).value
    if as_json:
        print_json({"schema": 1, "moved": done})
        return _exit_code(done)
    return _report(done)


def _figure(offset: int | None) -> str:
    return "none" if offset is None else f"{offset:,}"


def _report(done: Sequence[MovedOffset]) -> int:
    for moved in done:
        move = moved.move
        line = f"{move.group} on {move.partition}  {moved.result} to {_figure(move.to)}"
        if moved.reason:
            say(f"{line}: {moved.reason}")
        else:
            print(inert(line))
    return _exit_code(done)


def _exit_code(done: Sequence[MovedOffset]) -> int:
    from breakglass.services.recovery.group_reset import MoveResult

    results = {moved.result for moved in done}
    if MoveResult.UNKNOWN in results:
        return 4
    return 0 if results <= {MoveResult.MOVED} else 1


def _say_unread(standing: GroupStanding) -> None:
    for broker, reason in sorted(standing.unread.items()):
        say(f"? groups of b{broker} are not known: {reason}")
    for partition in standing.offline:
        say(f"? groups of {partition} are not known: it is offline")
    say_acls(standing.missing_acls)


COLUMNS = (
    Column("Group"),
    Column("Topic-partition"),
    Column("Committed", right=True),
    Column("Log end", right=True),
)


def _row(move: OffsetMove) -> tuple[object, ...]:
    return (move.group, move.partition, _figure(move.committed), _figure(move.to))
