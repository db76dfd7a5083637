"""`breakglass plan`: make a plan with a leader for each offline partition, show, check, compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console import plan_edits
from breakglass.console.commands import new_app
from breakglass.console.option_values import require_topics
from breakglass.console.options import (
    SECONDS,
    AsJson,
    Each,
    GoneBrokers,
    Journals,
    Seconds,
    TopicNames,
    VerifyContents,
    bound_of,
    connected,
)
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.plan_edits import PlanFile
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.session import Effort
from breakglass.services.words.figures import count

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan
    from breakglass.services.recovery.plan.make import Appraisal
    from breakglass.services.recovery.triage import Triage

app = new_app(
    "Make, read, edit, check and compare recovery plans.\n\nA plan names the leader to elect for "
    "each offline partition, with the evidence for that choice. `breakglass recover PLAN` "
    "runs the elections."
)

NAMED_OF_A_REASON = 3
"""Partitions named of those that are left out for one reason; the rest is counted."""


@app.callback()
def plan() -> None:
    """Make, read, edit, check and compare recovery plans."""


@app.command()
@connected
def make(
    connection: Connection,
    topics: TopicNames = (),
    gone: GoneBrokers = (),
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
        typer.Option("--out", metavar="FILE", help="A new file or folder to write."),
    ] = None,
    duration: Seconds = SECONDS,
    verify_contents: VerifyContents = Effort.BUDGET,
    journals: Journals = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Propose a leader for every offline partition.

    This command only reads. The plan goes to stdout, or to the new file that --out names. stderr
    says what the plan elects, what it leaves out, and why; with --out, --json prints the same. A
    partition is left out when no leader can be recommended for it. Exits with 1 when no leader can
    be recommended at all.
    """
    from breakglass.console.evidence import final, say_remembered
    from breakglass.services.recovery.plan.file import rendered, write_plan
    from breakglass.services.recovery.plan.make import make_plan
    from breakglass.services.recovery.triage import triage

    brokers_gone = gone
    if out is not None and out.exists():
        raise UsageError(f"{out} exists already and is kept: name another file.")
    with connection.reading(within=bound_of(duration, verify_contents)) as client:
        found = final(
            triage(
                client,
                duration,
                topics=topics,
                native_choice=connection.native_rpc,
                gone=brokers_gone,
                contents=verify_contents,
                journals=journals or (),
            )
        )
    say_remembered(found)
    require_topics(topics, found.snapshot)
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
            from breakglass.console.plan_table import plan_document

            print_json({"path": out, **plan_document(made)})
    _say_made(made, found, out)
    if found.assessments and not made.leaders:
        raise typer.Exit(1)


@app.command()
def show(path: PlanFile, each: Each = False, as_json: AsJson = False) -> None:
    """Print what a plan elects and what that loses.

    The command also prints the plan's digest, which can be compared over the phone, who approved
    the plan, the consents that its elections will ask for, and which partitions are left out and
    why.
    """
    from breakglass.console.plan_table import print_facts, print_plan, rows_of

    shown = plan_edits.opened(path).plan
    if as_json:
        from breakglass.console.plan_table import plan_document

        print_json({"path": path, **plan_document(shown)})
    else:
        print_facts(shown)
        rows = rows_of(shown)
        if rows:
            print_plan(rows, each=each)
    say(KAFKAS_OWN_TOOL)


KAFKAS_OWN_TOOL = (
    "Kafka's own kafka-leader-election.sh reads this file, but elects by the assignment's order "
    "and not by designatedLeader: it elects these leaders only where each already stands first "
    "among the live replicas of its assignment; `breakglass recover` sees to that."
)
"""R24."""


@app.command()
@connected
def check(
    connection: Connection,
    path: PlanFile,
    duration: Seconds = SECONDS,
    each: Each = False,
    as_json: AsJson = False,
) -> None:
    """Compare a plan with evidence that is read now.

    For each election, this command says whether it is still possible. It only reads. Exits with 0
    if every partition can be elected as planned or is online already, else with 1.
    """
    from breakglass.console.evidence import appraised

    read = plan_edits.opened(path).plan
    with connection.reading(within=duration) as client:
        appraisal, found = appraised(client, read, str(path), duration, connection.native_rpc)
    if as_json:
        from breakglass.console.plan_table import check_document

        print_json({"path": path, **check_document(appraisal, found.snapshot.cluster_id)})
    else:
        _print_checked(appraisal, each=each)
    if not appraisal.fine:
        raise typer.Exit(1)


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A plan.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another plan.")],
    as_json: AsJson = False,
) -> None:
    """Print the partitions that two plans treat differently.

    Exits with 0 if there are none, else with 1.
    """
    from breakglass.services.recovery.plan.edit import diff as compare

    first, second = plan_edits.opened(before).plan, plan_edits.opened(after).plan
    if None not in (first.cluster_id, second.cluster_id) and first.cluster_id != second.cluster_id:
        say(f"{before} is for cluster {first.cluster_id}, {after} for {second.cluster_id}.")
    differences = compare(first, second)
    if as_json:
        from breakglass.console.plan_table import diff_document

        print_json(diff_document(first, second, differences))
    elif differences:
        rows = [
            (
                one.partition,
                None if one.before is None else f"b{one.before}",
                None if one.after is None else f"b{one.after}",
                count(one.loss_before),
                count(one.loss_after),
                "other" if one.evidence_changed else "same",
            )
            for one in differences
        ]
        print_table(DIFF_COLUMNS, rows)
    if differences:
        raise typer.Exit(1)


DIFF_COLUMNS = columns(
    "Topic-partition", "Leader in A", "Leader in B", ">Loses in A", ">Loses in B", "Evidence"
)
CHECK_COLUMNS = columns("Topic-partition", "Leader", "Status", "Reason")

app.command()(plan_edits.edit)
app.command()(plan_edits.approve)


def _print_checked(appraisal: Appraisal, *, each: bool) -> None:
    from collections import Counter

    from breakglass.console.plan_table import folded, named

    groups = folded(
        appraisal.checked,
        lambda checked: (checked.partition.topic, checked.leader, checked.status, checked.reason),
        each=each,
    )
    rows = [
        (
            named([checked.partition for checked in group]),
            f"b{group[0].leader}",
            group[0].status.value,
            group[0].reason,
        )
        for group in groups
    ]
    if rows:
        print_table(CHECK_COLUMNS, rows)
    counts = Counter(checked.status.value for checked in appraisal.checked)
    say(", ".join(f"{number:,} {status}" for status, number in counts.items()) or "elects nobody")


def _say_made(made: Plan, found: Triage, out: Path | None) -> None:
    from breakglass.services.recovery.plan.make import totals_of

    summary = found.summary
    for line in (summary.alarm, summary.headline):
        if line:
            say(line)
    for broker, reason in sorted(found.evidence.silent.items()):
        say(f"? b{broker}: {reason}")
    say(f"The plan {totals_of(made)}.")
    from breakglass.services.recovery.judgement.succession import AS_IT_WAS

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
    say_left_out(made, out)
    say(f"digest: {made.spoken_digest}")
    if out is not None:
        say(f"Written to {out}: read it with `breakglass plan show {out}`.")


def say_left_out(made: Plan, out: Path | None) -> None:
    """Say which partitions the plan leaves out, why, and how one of them is decided by hand."""
    from breakglass.services.recovery.plan.make import candidates

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
            say(f"decided by hand: breakglass plan edit {out or 'FILE'} {first.partition}={able}")
