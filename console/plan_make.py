"""`breakglass plan make`: a leader for every offline partition, or why it is left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.option_values import broker_ids, names_in
from breakglass.console.options import (
    DURATION_MS,
    Duration,
    Gone,
    Journals,
    Topics,
    VerifyContents,
    connected,
)
from breakglass.console.output import print_json, say
from breakglass.console.partition_names import require_topics
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.session import Effort

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan
    from breakglass.services.recovery.triage import Triage

NAMED_OF_A_REASON = 3
"""Partitions named of those that are left out for one reason; the rest is counted."""


@connected
def make(
    connection: Connection,
    topics: Topics = None,
    gone: Gone = None,
    without_waiting: Annotated[
        bool,
        typer.Option(
            "--without-waiting",
            help="Leave out partitions that come back, whole or with more records, when a "
            "broker is started.",
        ),
    ] = False,
    note: Annotated[
        list[str] | None,
        typer.Option("--note", metavar="TEXT", help="Text to keep in the plan (repeatable)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="New file for the plan (default: stdout)."),
    ] = None,
    recovery_duration_ms: Duration = DURATION_MS,
    verify_contents: VerifyContents = Effort.BUDGET,
    journals: Journals = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --out: print what the plan elects, as JSON.")
    ] = False,
) -> None:
    """Propose a leader for every offline partition.

    This command only reads. The plan goes to stdout, or to the new file that --out names. stderr
    says what the plan elects, what it leaves out, and why. A partition is left out when no leader
    can be recommended for it. Ends with 1 when no leader can be recommended at all.
    """
    from breakglass.console.evidence import final, say_remembered
    from breakglass.services.recovery.plan.file import rendered, write_plan
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
                topics=names_in(topics),
                native_choice=connection.native_rpc,
                gone=brokers_gone,
                contents=verify_contents,
                journals=journals or (),
            )
        )
    say_remembered(found)
    require_topics(names_in(topics), found.snapshot)
    made = make_plan(
        found.assessments,
        found.snapshot.cluster_id,
        found.snapshot.observed_at_ms,
        include_waiting=not without_waiting,
        notes=(*(f"b{broker} was declared gone" for broker in brokers_gone), *(note or ())),
    )
    if out is None:
        for piece in rendered(made):
            print(piece, end="")
    else:
        write_plan(made, out)
        if as_json:
            from breakglass.console.plan_documents import plan_document

            print_json({"path": out, **plan_document(made)})
    _say_made(made, found, out)
    if found.assessments and not made.leaders:
        raise typer.Exit(1)


def _say_made(made: Plan, found: Triage, out: Path | None) -> None:
    from breakglass.services.recovery.plan.make import totals_of

    summary = found.summary
    for line in (summary.alarm, summary.headline):
        if line:
            say(line)
    for broker, reason in sorted(found.evidence.silent.items()):
        say(f"? b{broker}: {reason}")
    say(f"The plan {totals_of(made)}.")
    from breakglass.services.recovery.judgement.starting import AS_IT_WAS

    waiting = [
        made.records[partition]
        for partition in made.leaders
        if made.records[partition].verdict == "WAIT"
    ]
    whole = [record for record in waiting if record.comes_back_whole]
    more = [record for record in waiting if not record.comes_back_whole]
    if whole:
        actions = ", ".join(sorted({record.action for record in whole}))
        say(f"{len(whole):,} of these need no election if you {actions} and {AS_IT_WAS}.")
    if more:
        actions = ", ".join(sorted({record.action for record in more}))
        say(f"Before {len(more):,} of these are elected {actions} (down, may hold more).")
    if waiting:
        say(
            "--without-waiting leaves them out, --gone ID says that broker never returns with its "
            "disk."
        )
    _say_left_out(made, out)
    say(f"digest: {made.spoken_digest}")
    if out is not None:
        say(f"Written to {out}: read it with `breakglass plan show {out}`.")


def _say_left_out(made: Plan, out: Path | None) -> None:
    from breakglass.services.recovery.plan.candidates import candidates

    by_reason: dict[str, list[PartitionRecord]] = {}
    for record in made.left_out:
        by_reason.setdefault(record.left_out, []).append(record)
    for reason, records in by_reason.items():
        named = ", ".join(str(record.partition) for record in records[:NAMED_OF_A_REASON])
        more = len(records) - NAMED_OF_A_REASON
        rest = f" and {more:,} more" if more > 0 else ""
        say(f"left out: {named}{rest}: {records[0].verdict}: {reason}")
        first = records[0]
        able = next((one.broker for one in candidates(first) if one.eligible), None)
        if able is not None and first.verdict in ("SAFE", "LOSS", "FORK"):
            say(f"decided by hand: breakglass plan set {out or 'FILE'} {first.partition}={able}")
