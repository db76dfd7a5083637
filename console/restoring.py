"""What every restore of topics has: options, a place for its state, a journal, an exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.output import Column, print_table, say
from services.errors import BreakglassError, OutcomeUnknown

if TYPE_CHECKING:
    from services.guard.journal import Journal
    from services.pipeline.restore.restore import TopicRestored

FAILED, UNKNOWN = 1, 4
"""Exit codes."""

Renamed = Annotated[
    list[str] | None, typer.Option("--map", metavar="OLD=NEW", help="Another name (repeatable).")
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replication-factor", min=1, help="Replicas of new topics (the brokers' default)."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a restore that was ended.")]
Compared = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Compare every record afterwards.")
]


def default_state(cluster_id: str) -> Path:
    """Where restores into a cluster keep how far they are, unless told."""
    from services.guard.lock import file_name
    from services.state_folder import state_folder

    return state_folder() / "restores" / file_name(cluster_id)


def carried_out(
    journal: Journal, phrase: str, restore: Callable[[], list[TopicRestored]]
) -> list[TopicRestored]:
    """Do what *phrase* agreed to, with its beginning and its end in the *journal*."""
    journal.consent(phrase)
    say(f"journal: {journal.path}")
    try:
        done = restore()
    except KeyboardInterrupt:
        say("Ended before its time; what is there counts: --resume goes on behind it.")
        raise
    except BreakglassError as error:
        unknown = isinstance(error, OutcomeUnknown)
        journal.finish("unknown" if unknown else "failed", reason=str(error))
        raise
    journal.finish("succeeded" if all(one.complete for one in done) else "partly failed")
    return done


def exit_code(done: Sequence[TopicRestored]) -> int:
    """0 when every topic is whole, and nothing was missing in its backup."""
    if all(one.complete for one in done):
        return 0
    return UNKNOWN if any(one.unknown for one in done) else FAILED


def print_restored(done: Sequence[TopicRestored]) -> None:
    """One line a topic, and what its backup could not give back."""
    print_table(COLUMNS, map(_row, done))
    for one in done:
        for gap in one.gaps:
            say(f"{one.target}  offsets of {gap} are not restored: the backup is damaged there")
        if one.salvaged:
            say(f"{one.target}  records were found again among damage of the backup")


def _row(one: TopicRestored) -> tuple[object, ...]:
    figures = f"{one.records:,}", f"{one.bytes:,}", f"{len(one.groups_set):,}"
    return (one.target, *figures, "failed" if one.error else _verdict(one))


def _verdict(one: TopicRestored) -> str:
    """No topic is identical to what its backup should hold where the backup was damaged."""
    compared = {True: "identical", False: "differs", None: "not compared"}[one.verified]
    if one.verified is False or not (one.gaps or one.salvaged):
        return compared
    what = "with gaps" if one.gaps else "salvaged"
    return what if one.verified else f"{what}, {compared}"


COLUMNS = (
    Column("Topic"),
    Column("Records", right=True),
    Column("Bytes", right=True),
    Column("Groups", right=True),
    Column("Result"),
)
