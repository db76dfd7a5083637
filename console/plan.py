"""`breakglass plan`: make a recovery plan, read it, edit it, hold it against the present."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console import plan_edits
from console.commands import new_app
from console.options import Gone, connected
from console.output import Column, print_json, print_table, say
from console.plan_edits import AsJson, PlanFile
from console.wiring import Connection
from services.errors import UsageError

if TYPE_CHECKING:
    from services.model import ClusterSnapshot
    from services.recovery.appraisal import Appraisal
    from services.recovery.plan import PartitionRecord, Plan
    from services.recovery.plan_edit import Difference
    from services.recovery.triage import Triage

app = new_app(
    "Make, read, edit, check and compare recovery plans.\n\nA plan names the leader to elect for "
    "each offline partition, with the evidence it rests on. `breakglass recover --plan FILE` holds "
    "its elections."
)

Duration = Annotated[
    int, typer.Option("--recovery-duration-ms", min=1, help="How long brokers may answer.")
]
Each = Annotated[bool, typer.Option("--each", help="A row for every partition.")]
DURATION_MS = 30_000
NAMED_OF_A_REASON = 3
"""Partitions named of those that are left out for one reason; the rest is counted."""


@app.callback()
def plan() -> None:
    """Make, read, edit, check and compare recovery plans."""


@app.command()
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
            "--without-waiting", help="Leave out what a broker's start would bring back whole."
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
) -> None:
    """Propose a leader for every offline partition.

    Reads only. Partitions for which none can be recommended are left out. The plan goes to
    --out, which must not exist, or to stdout; what it elects and what it leaves out, and why,
    to stderr. Exits 1 when it can recommend nobody.
    """
    from console.evidence import final
    from services.recovery.plan_file import render_plan, write_plan
    from services.recovery.planning import make_plan
    from services.recovery.triage import triage

    if out is not None and out.exists():
        raise UsageError(f"{out} exists already and is kept: name another file.")
    with connection.reading() as client:
        found = final(
            triage(
                client,
                recovery_duration_ms / 1000,
                topics=tuple(topic or ()),
                native_choice=connection.native_rpc,
                gone=gone or (),
            )
        )
    _refuse_unknown_topics(topic or (), found.snapshot)
    made = make_plan(
        found.assessments,
        found.snapshot.cluster_id,
        found.snapshot.observed_at_ms,
        include_waiting=not without_waiting,
        notes=(*(f"b{broker} was declared gone" for broker in gone or ()), *(note or ())),
    )
    if out is None:
        print(render_plan(made), end="")
    else:
        write_plan(made, out)
    _say_made(made, found, out)
    if found.assessments and not made.leaders:
        raise typer.Exit(1)


@app.command()
def show(path: PlanFile, each: Each = False, as_json: AsJson = False) -> None:
    """Print what a plan elects and what that loses.

    With its digest, to be compared over the phone; who agreed; the consents that electing it
    will ask for; and what is left out, and why.
    """
    from console.plan_table import print_facts, print_plan, rows_of

    shown = plan_edits.opened(path).plan
    if as_json:
        from console.plan_documents import plan_document

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
    "among the live replicas of its assignment; `breakglass recover --plan` sees to that."
)
"""R24."""


@app.command()
@connected
def check(
    connection: Connection,
    path: PlanFile,
    recovery_duration_ms: Duration = DURATION_MS,
    each: Each = False,
    as_json: AsJson = False,
) -> None:
    """Hold a plan against evidence read now.

    Says of each election whether it can still go on. Reads only. Exits 0 if every partition
    can be elected as planned or is online by now, else 1.
    """
    from console.evidence import appraised

    read = plan_edits.opened(path).plan
    with connection.reading() as client:
        appraisal, found = appraised(
            client, read, str(path), recovery_duration_ms / 1000, connection.native_rpc
        )
    if as_json:
        from console.plan_documents import check_document

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

    Exits 0 if there are none, 1 otherwise.
    """
    from services.recovery.plan_edit import diff as compare

    first, second = plan_edits.opened(before).plan, plan_edits.opened(after).plan
    if None not in (first.cluster_id, second.cluster_id) and first.cluster_id != second.cluster_id:
        say(f"{before} is for cluster {first.cluster_id}, {after} for {second.cluster_id}.")
    differences = compare(first, second)
    if as_json:
        from console.plan_documents import diff_document

        print_json(diff_document(first, second, differences))
    elif differences:
        print_table(DIFF_COLUMNS, [_difference(one) for one in differences])
    if differences:
        raise typer.Exit(1)


DIFF_COLUMNS = (
    Column("Topic-partition"),
    Column("Leader in A"),
    Column("Leader in B"),
    Column("Loses in A", right=True),
    Column("Loses in B", right=True),
    Column("Evidence"),
)
CHECK_COLUMNS = (
    Column("Topic-partition"),
    Column("Leader"),
    Column("Status"),
    Column("Reason"),
)

app.command("set")(plan_edits.set_leaders)
app.command()(plan_edits.exclude)
app.command()(plan_edits.prefer)
app.command()(plan_edits.never)
app.command("least-loss")(plan_edits.least_loss)
app.command()(plan_edits.approve)


def _refuse_unknown_topics(topics: list[str] | tuple[()], snapshot: ClusterSnapshot) -> None:
    known = {one.partition.topic for one in snapshot.partitions}
    unknown = [one for one in topics if one not in known]
    if unknown:
        raise UsageError(
            f"Cluster {snapshot.cluster_id} has no topic {', '.join(unknown)}: correct the name, "
            "or leave --topic out for all."
        )


def _say_made(made: Plan, found: Triage, out: Path | None) -> None:
    from console.plan_table import totals
    from services.recovery.summary import summarize

    summary = summarize(found.assessments)
    for line in (summary.alarm, summary.headline):
        if line:
            say(line)
    for broker, reason in sorted(found.evidence.silent.items()):
        say(f"? b{broker}: {reason}")
    say(f"The plan {totals(made)}.")
    _say_waiting(made)
    _say_left_out(made)
    say(f"digest: {made.spoken_digest}")
    if out is not None:
        say(f"Written to {out}: read it with `breakglass plan show {out}`.")


def _say_waiting(made: Plan) -> None:
    """Elections that are not needed, if a broker can be started."""
    waiting = [made.records[one] for one in made.leaders if made.records[one].verdict == "WAIT"]
    if waiting:
        actions = ", ".join(sorted({one.action for one in waiting}))
        say(
            f"{len(waiting):,} of these need no election if you can {actions}: --without-waiting "
            "leaves them out, --gone ID says that broker never returns with its disk."
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


def _print_checked(appraisal: Appraisal, *, each: bool) -> None:
    from collections import Counter

    from console.plan_table import folded, named

    groups = folded(
        appraisal.checked,
        lambda one: (one.partition.topic, one.leader, one.status, one.reason),
        each=each,
    )
    rows = [
        (
            named([one.partition for one in group]),
            f"b{group[0].leader}",
            group[0].status.value,
            group[0].reason,
        )
        for group in groups
    ]
    if rows:
        print_table(CHECK_COLUMNS, rows)
    counts = Counter(one.status.value for one in appraisal.checked)
    say(", ".join(f"{number:,} {status}" for status, number in counts.items()) or "elects nobody")


def _difference(one: Difference) -> tuple[object, ...]:
    from console.offsets import count

    return (
        one.partition,
        None if one.before is None else f"b{one.before}",
        None if one.after is None else f"b{one.after}",
        count(one.loss_before),
        count(one.loss_after),
        "other" if one.evidence_changed else "same",
    )
