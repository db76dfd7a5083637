"""`breakglass after groups`: groups whose offsets do not fit their logs any more (R19, R37)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.evidence import say_acls
from breakglass.console.exits import FAILED
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import Consent
from breakglass.console.options import (
    NO_CONSENT,
    SOURCE,
    AsJson,
    GivenConsent,
    Sources,
    TopicNames,
    WhileRunning,
    connected,
    connected_for_writing,
)
from breakglass.console.output import columns, data_aside, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.guard.journal import read
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.recovery.acts.move_groups import GroupMoves, MoveGroups
    from breakglass.services.recovery.group_reset import MovedOffset
    from breakglass.services.recovery.transactions.source import SourceLog

app = new_app(
    "Consumer groups whose offsets do not fit their logs.\n\nAfter an election that lost records, "
    "a group that committed past the end of the log gets OFFSET_OUT_OF_RANGE and continues where "
    "its auto.offset.reset says; a group whose log was cut below its offset, and filled again, "
    "skips the new records below that offset. Consumers that track leader epochs, and commit them, "
    "as current Java and librdkafka clients do, continue where the log was cut."
)


@app.command("list")
@connected
def past_end(
    connection: Connection,
    topics: TopicNames = (),
    source: Sources = None,
    while_running: WhileRunning = False,
    as_json: AsJson = False,
) -> None:
    """List committed offsets that lie past the end of their log, or past a cut of it.

    A log that an election cut below a committed offset, and that producers have filled again, is
    recognized by leader epochs, or by the journal of that election. Where two histories fork, the
    log of another leader shows where: a source, a live replica, or what this account read before.
    If none does, only an upper bound is known: "at or below" an offset.
    """
    from breakglass.services.recovery.acts.move_groups import past_end_now

    opened = _opened(source, while_running=while_running)
    with connection.reading() as client:
        found = past_end_now(client, topics, opened)
    _say_unread(found)
    if as_json:
        standing = found.standing
        print_json(
            {
                "schema": 1,
                "past_end": found.moves,
                "left": found.left,
                "unread": standing.unread,
                "offline": [str(partition) for partition in standing.offline],
                "missing_acls": standing.missing_acls,
                "unknown": found.doubts,
            }
        )
    elif not _print_moves(found):
        say("No committed offset that could be read lies past the end of its log, or past a cut.")
    raise typer.Exit(FAILED if found.partly else 0)


@app.command()
@connected_for_writing
def reset(
    connection: Connection,
    topics: TopicNames = (),
    source: Sources = None,
    while_running: WhileRunning = False,
    consent: GivenConsent = NO_CONSENT,
    as_json: AsJson = False,
) -> None:
    """Move these groups to the offset at which their log ends, or was cut.

    A group is left as it is if that offset is not known; a source may show it. Groups with running
    consumers are refused. No records are lost. The journal keeps the offsets that were committed
    before, and `after groups rollback` restores them.
    """
    from breakglass.services.recovery.acts.move_groups import MoveGroups, past_end_now

    connection.require_write(MoveGroups.doing)
    opened = _opened(source, while_running=while_running)
    act = MoveGroups(partial(past_end_now, topics=topics, sources=opened))
    raise typer.Exit(_move(connection, act, consent, as_json=as_json))


@app.command("set")
@connected_for_writing
def set_back(
    connection: Connection,
    source: Annotated[list[str], SOURCE],
    topics: TopicNames = (),
    while_running: WhileRunning = False,
    consent: GivenConsent = NO_CONSENT,
    as_json: AsJson = False,
) -> None:
    """Set groups to the offsets that an election of __consumer_offsets lost.

    The lost offsets are read from the source, as `after internal-topics --source` shows them. A
    group that has committed further since is left alone. If the group's own log was cut below the
    lost offset, the group is set to the cut. If the cut is not known, the group is left alone: name
    the source's folder of that partition as well. Groups with running consumers are refused;
    `after groups rollback` restores the offsets that were committed before.
    """
    from breakglass.services.recovery.acts.move_groups import MoveGroups, lost_offsets

    connection.require_write(MoveGroups.doing)
    opened = _opened(source, while_running=while_running)
    act = MoveGroups(partial(lost_offsets, sources=opened, topics=topics))
    raise typer.Exit(_move(connection, act, consent, as_json=as_json))


@app.command()
@connected_for_writing
def rollback(
    connection: Connection,
    journal: Annotated[
        Path, typer.Argument(metavar="JOURNAL", help="The journal of the reset or restore.")
    ],
    consent: GivenConsent = NO_CONSENT,
    as_json: AsJson = False,
) -> None:
    """Restore the offsets that a reset, or a restore with --groups, replaced.

    An offset is restored only while the group still has the offset that it was given. An offset
    that a group did not have before is removed.
    """
    from breakglass.services.recovery.acts.move_groups import MoveGroups, moved_back

    connection.require_write(MoveGroups.doing)
    act = MoveGroups(partial(moved_back, view=read(journal)))
    raise typer.Exit(_move(connection, act, consent, as_json=as_json))


def _opened(source: list[str] | None, *, while_running: bool) -> tuple[SourceLog, ...]:
    from breakglass.services.recovery.transactions.source import open_sources

    return open_sources(source or (), while_running=while_running)


def _move(connection: Connection, act: MoveGroups, consent: Consent, *, as_json: bool) -> int:
    command = GuardedCommand(act, consent, connection)
    frozen = command.freeze()
    found = frozen.plan
    _say_unread(found)
    with data_aside(as_json):
        _print_moves(found)
    if not found.moves:
        where = " of the groups that are known" if found.partly else ""
        say(f"No offset is to be moved{where}.")
        if as_json:
            print_json({"schema": 1, "moved": [], "left": found.left, "unknown": found.doubts})
        return FAILED if found.partly else 0
    done: list[MovedOffset] = command.carry_out(frozen, write=connection.write).value
    if as_json:
        print_json({"schema": 1, "moved": done, "left": found.left, "unknown": found.doubts})
    else:
        for moved in done:
            move = moved.move
            line = f"{move.group} on {move.partition}  {moved.result} to {_figure(move.to)}"
            if moved.reason:
                say(f"{line}: {moved.reason}")
            else:
                print(inert(line))
    return _exit_code(done, partly=found.partly)


def _figure(offset: int | None) -> str:
    return "none" if offset is None else f"{offset:,}"


def _exit_code(done: Sequence[MovedOffset], *, partly: bool) -> int:
    from breakglass.services.recovery.group_reset import MoveResult

    results = {moved.result for moved in done}
    if MoveResult.UNKNOWN in results:
        return 4
    return 0 if results <= {MoveResult.MOVED} and not partly else FAILED


def _say_unread(found: GroupMoves) -> None:
    from breakglass.services.kafka.cluster.group_offsets import groups_unknown

    standing = found.standing
    for broker, reason in sorted(standing.unread.items()):
        say(f"? groups of b{broker} are not known: {reason}")
    if standing.offline:
        say(f"? {groups_unknown(standing.offline)}")
    for doubt in found.doubts:
        say(f"? {doubt}")
    say_acls(standing.missing_acls)


COLUMNS = columns("Group", "Topic-partition", ">Committed", ">Moves to", "Why")


def _print_moves(found: GroupMoves) -> bool:
    """Print the moves, and the groups that are left as they are; false if there are none."""
    rows = [
        (
            move.group,
            move.partition,
            _figure(move.committed),
            _figure(move.to) if move.fork_known else f"? at or below {_figure(move.to)}",
            move.reason
            if move.fork_known
            else f"{move.reason}; how far it has read this log is not known",
        )
        for move in (*found.moves, *found.left)
    ]
    if rows:
        print_table(COLUMNS, rows)
    return bool(rows)
