"""`breakglass plan`: its commands, and those that only read a plan: show, check, diff."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console import plan_edits, plan_make
from breakglass.console.commands import new_app
from breakglass.console.options import DURATION_MS, AsJson, Duration, connected
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.plan_edits import PlanFile
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.appraisal import Appraisal
    from breakglass.services.recovery.plan.edit import PlanDifference

app = new_app(
    "Make, read, edit, check and compare recovery plans.\n\nA plan names the leader to elect for "
    "each offline partition, with the evidence for that choice. `breakglass recover --plan FILE` "
    "holds the elections of a plan."
)

Each = Annotated[bool, typer.Option("--each", help="Print a row for every partition.")]


@app.callback()
def plan() -> None:
    """Make, read, edit, check and compare recovery plans."""


app.command()(plan_make.make)


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
        from breakglass.console.plan_documents import plan_document

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
    """Compare a plan with evidence that is read now.

    For each election this says whether it can still be held. This command only reads. Ends with 0
    if every partition can be elected as planned or is online already, else with 1.
    """
    from breakglass.console.evidence import appraised

    read = plan_edits.opened(path).plan
    with connection.reading() as client:
        appraisal, found = appraised(
            client, read, str(path), recovery_duration_ms / 1000, connection.native_rpc
        )
    if as_json:
        from breakglass.console.plan_documents import check_document

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

    Ends with 0 if there are none, else with 1.
    """
    from breakglass.services.recovery.plan.edit import diff as compare

    first, second = plan_edits.opened(before).plan, plan_edits.opened(after).plan
    if None not in (first.cluster_id, second.cluster_id) and first.cluster_id != second.cluster_id:
        say(f"{before} is for cluster {first.cluster_id}, {after} for {second.cluster_id}.")
    differences = compare(first, second)
    if as_json:
        from breakglass.console.plan_documents import diff_document

        print_json(diff_document(first, second, differences))
    elif differences:
        print_table(DIFF_COLUMNS, [_difference(difference) for difference in differences])
    if differences:
        raise typer.Exit(1)


DIFF_COLUMNS = columns(
    "Topic-partition", "Leader in A", "Leader in B", ">Loses in A", ">Loses in B", "Evidence"
)
CHECK_COLUMNS = columns("Topic-partition", "Leader", "Status", "Reason")

app.command("set")(plan_edits.set_leaders)
app.command()(plan_edits.exclude)
app.command()(plan_edits.prefer)
app.command()(plan_edits.never)
app.command("least-loss")(plan_edits.least_loss)
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


def _difference(difference: PlanDifference) -> tuple[object, ...]:
    from breakglass.services.words.figures import count

    return (
        difference.partition,
        None if difference.before is None else f"b{difference.before}",
        None if difference.after is None else f"b{difference.after}",
        count(difference.loss_before),
        count(difference.loss_after),
        "other" if difference.evidence_changed else "same",
    )
