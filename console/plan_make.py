"""`breakglass plan make`: a leader for every offline partition, or why it is left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.option_values import broker_ids
from breakglass.console.options import DURATION_MS, Duration, Gone, VerifyContents, connected
from breakglass.console.output import say
from breakglass.console.partition_names import require_topics
from breakglass.console.wiring import Connection
from breakglass.services.contents_effort import Effort
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan
    from breakglass.services.recovery.triage import Triage

NAMED_OF_A_REASON = 3
"""Partitions named of those that are left out for one reason; the rest is counted."""


@connected
def make(
    connection: Connection,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic (repeatable).")
    ] = None,
    gone: Gone = None,
    without_waiting: Annotated[
        bool,
        typer.Option(
            "--without-waiting",
            help="Leave out what a broker's start would bring back, whole or with more records.",
        ),
    ] = False,
    note: Annotated[
        list[str] | None,
        typer.Option("--note", metavar="TEXT", help="Kept in the plan (repeatable)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A new file for the plan (else stdout)."),
    ] = None,
    recovery_duration_ms: Duration = DURATION_MS,
    verify_contents: VerifyContents = Effort.BUDGET,
) -> None:
    """Propose a leader for every offline partition.

    Reads only. Partitions for which none can be recommended are left out. The plan goes to
    --out, which must not exist, or to stdout; what it elects and what it leaves out, and why,
    to stderr. Exits 1 when it can recommend nobody.
    """
    from breakglass.console.evidence import final
    from breakglass.services.recovery.plan.file import render_plan, write_plan
    from breakglass.services.recovery.plan.make import make_plan
    from breakglass.services.recovery.triage import triage

    brokers_gone = broker_ids(gone, "--gone")
    if out is not None and out.exists():
        raise UsageError(f"{out} exists already and is kept: name another file.")
    with connection.reading() as client:
        found = final(
            triage(
                client,
                recovery_duration_ms / 1000,
                topics=tuple(topic or ()),
                native_choice=connection.native_rpc,
                gone=brokers_gone,
                contents=verify_contents,
            )
        )
    require_topics(topic or (), found.snapshot)
    made = make_plan(
        found.assessments,
        found.snapshot.cluster_id,
        found.snapshot.observed_at_ms,
        include_waiting=not without_waiting,
        notes=(*(f"b{broker} was declared gone" for broker in brokers_gone), *(note or ())),
    )
    if out is None:
        print(render_plan(made), end="")
    else:
        write_plan(made, out)
    _say_made(made, found, out)
    if found.assessments and not made.leaders:
        raise typer.Exit(1)


def _say_made(made: Plan, found: Triage, out: Path | None) -> None:
    from breakglass.services.recovery.judgement.summary import summarize
    from breakglass.services.recovery.plan.totals import totals_of

    summary = summarize(found.assessments, found.snapshot.quorum)
    for line in (summary.alarm, summary.headline):
        if line:
            say(line)
    for broker, reason in sorted(found.evidence.silent.items()):
        say(f"? b{broker}: {reason}")
    say(f"The plan {totals_of(made)}.")
    _say_waiting(made)
    _say_left_out(made)
    say(f"digest: {made.spoken_digest}")
    if out is not None:
        say(f"Written to {out}: read it with `breakglass plan show {out}`.")


def _say_waiting(made: Plan) -> None:
    """Elections that are not needed, or lose less, if a broker can be started."""
    waiting = [made.records[one] for one in made.leaders if made.records[one].verdict == "WAIT"]
    whole = [one for one in waiting if one.comes_back_whole]
    more = [one for one in waiting if not one.comes_back_whole]
    if whole:
        actions = ", ".join(sorted({one.action for one in whole}))
        say(f"{len(whole):,} of these need no election if you can {actions}.")
    if more:
        actions = ", ".join(sorted({one.action for one in more}))
        say(f"Before {len(more):,} of these are elected {actions} (down, may hold more).")
    if waiting:
        say(
            "--without-waiting leaves them out, --gone ID says that broker never returns with its "
            "disk."
        )


def _say_left_out(made: Plan) -> None:
    by_reason: dict[str, list[PartitionRecord]] = {}
    for one in made.left_out:
        by_reason.setdefault(one.left_out, []).append(one)
    for reason, records in by_reason.items():
        named = ", ".join(str(one.partition) for one in records[:NAMED_OF_A_REASON])
        more = len(records) - NAMED_OF_A_REASON
        rest = f" and {more:,} more" if more > 0 else ""
        say(f"left out: {named}{rest}: {records[0].verdict}: {reason}")
