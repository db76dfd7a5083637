"""`breakglass plan`: make a plan with a leader for each offline partition, show, check, compare.

`edit` and `approve` write a plan back, changed by hand or by rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.cli import new_app
from breakglass.console.option_values import (
    broker_ids,
    leaders_named,
    partitions_named,
    require_topics,
)
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
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import EvidenceChanged, Refused, UsageError
from breakglass.services.session import Effort
from breakglass.services.words.figures import count

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan
    from breakglass.services.recovery.plan.edit import PlanDifference
    from breakglass.services.recovery.plan.make import Appraisal
    from breakglass.services.recovery.triage import Triage

app = new_app(
    "Make, read, edit, check and compare recovery plans.\n\nA plan names the leader to elect for "
    "each offline partition, with the evidence for that choice. `breakglass recover PLAN` "
    "runs the elections."
)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The file of the plan.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="NEW", help="A new file or folder to write."),
]
CHANGES_SAID = 20
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
    from breakglass.services.recovery.plan.document import rendered, write_plan
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

    shown = opened(path).plan
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

    read = opened(path).plan
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

    first, second = opened(before).plan, opened(after).plan
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


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan as it was read."""

    path: Path
    text: str
    plan: Plan


def opened(path: Path) -> PlanText:
    """Read the plan in *path*; says so if other means changed it.

    Raises: MalformedInput, UnsupportedSchema, StorageError.
    """
    from breakglass.services.recovery.plan.document import parse_plan
    from breakglass.services.recovery.plan.partition_file import read_text

    text = read_text(path)
    plan = parse_plan(text, str(path))
    if plan.altered:
        say(f"{path} was changed by other means than `breakglass plan` since it was written.")
    return PlanText(path, text, plan)


class Words(StrEnum):
    """What the words after the plan are; `plan exclude` and `plan never` were commands."""

    SET = "set"
    EXCLUDE = "exclude"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChanges:
    """What one call changes."""

    leaders: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC-PARTITION=BROKER...", help="orders-3=1, or 'orders-*=1'."),
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="TOPIC-PARTITION",
            help="Leave a partition out; the plan keeps its evidence (repeatable).",
        ),
    ] = None
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; the plan keeps it.")
    ] = "left out by hand"
    prefer: Annotated[
        list[str] | None,
        typer.Option(
            "--prefer",
            "--broker",
            metavar="ID",
            help="Choose this broker for each partition in which its log ranks as high as the "
            "chosen leader's and electing it loses the same (4,7, or repeated).",
        ),
    ] = None
    rack: Annotated[
        str | None,
        typer.Option(
            "--prefer-rack", "--rack", metavar="NAME", help="Prefer all brokers of this rack."
        ),
    ] = None
    never: Annotated[
        list[str] | None,
        typer.Option(
            "--never",
            metavar="ID",
            help="Elect the next best replica wherever this broker was chosen; name all of them "
            "in one call (4,7, or repeated).",
        ),
    ] = None
    least_loss: Annotated[
        bool,
        typer.Option(
            "--least-loss",
            help="Elect the replica that loses the fewest records, whatever its rank.",
        ),
    ] = False
    words: Annotated[Words, typer.Option("--words", hidden=True, help="What words name.")] = (
        Words.SET
    )

    def __post_init__(self) -> None:
        if not any(
            (self.leaders, self.without, self.prefer, self.rack, self.never, self.least_loss)
        ):
            raise UsageError(
                "say what to change: TOPIC-PARTITION=BROKER, --exclude, --prefer, --prefer-rack, "
                "--never or --least-loss"
            )

    def applied(self, plan: Plan, in_rack: Callable[[str], frozenset[int]]) -> Plan:
        """*plan* with them: the rules first, then the leaders that are named."""
        from breakglass.services.recovery.plan import edit as plan_edit

        words, listed = self.words, list(self.leaders or ())
        never = [*(self.never or ()), *(listed if words is Words.NEVER else ())]
        without = [*(self.without or ()), *(listed if words is Words.EXCLUDE else ())]
        preferred = frozenset(broker_ids(self.prefer, "--prefer"))
        if self.least_loss:
            plan = plan_edit.least_loss(plan)
        if preferred or self.rack is not None:
            of_rack = frozenset() if self.rack is None else in_rack(self.rack)
            plan = plan_edit.prefer(plan, of_rack | preferred)
        if never:
            plan = plan_edit.never(plan, *broker_ids(never, "--never"))
        if without:
            found = partitions_named(without, plan.records)
            plan = plan_edit.exclude_all(plan, found, self.reason)
        if listed and words is Words.SET:
            plan = plan_edit.set_leaders(plan, leaders_named(listed, plan.records))
        return plan


@app.command()
@connected
def edit(
    connection: Connection,
    path: PlanFile,
    changes: PlanChanges,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Change a plan, and print what that changes in leaders and losses.

    `plan edit PLAN orders-3=1` designates a leader by hand, and adds a partition that was left out.
    You may set a replica that could not be read; its election then needs a separate consent, to an
    unknown loss. A replica that cannot be elected is refused with the reason. Rules apply first:
    --least-loss, --prefer, --never, --exclude, then the leaders that you set. If one of them is
    refused, nothing is written. Any edit voids the approvals. With --out, PLAN stays as it is.
    """

    def change(plan: Plan) -> Plan:
        return changes.applied(plan, lambda rack: _brokers_in(connection, plan, path, rack))

    # Change the plan in *path*, say what that changes, write it back or to *out*.
    from breakglass.services.recovery.plan.edit import diff

    before = opened(path)
    after = change(before.plan)
    differences = diff(before.plan, after)
    _say_changes(before.plan, after, differences)
    _save(before, after, out)
    if as_json:
        from breakglass.console.plan_table import diff_document

        print_json({"path": out or path, **diff_document(before.plan, after, differences)})


@app.command()
def approve(
    path: PlanFile,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="NAME", help="Who approves (default: your account)."),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="DIGEST",
            help="The digest that is expected; another one is refused.",
        ),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Record that you approve a plan as it is.

    An approval is of all that `plan show` prints: any edit of the plan voids it, a note as well.
    """
    from breakglass.services.guard.lock import operator
    from breakglass.services.recovery.plan.edit import approve as agree
    from breakglass.services.recovery.plan.make import totals_of

    before, who = opened(path), by or operator()
    plan = before.plan
    if plan.breakglass is None:
        raise UsageError(f"{path} has no evidence to agree to: make a plan of ours first.")
    if digest is not None and digest not in (plan.digest, plan.spoken_digest):
        raise Refused(
            f"{path} has digest {plan.spoken_digest}, not {digest}: compare the plans before you "
            "agree."
        )
    after = agree(plan, who, now_ms())
    _save(before, after, out)
    if after is plan:
        say(f"{who} approved it already, and counts once: digest {plan.spoken_digest}")
    else:
        say(f"{who} approves digest {plan.spoken_digest}: {totals_of(plan)}")
    if as_json:
        from breakglass.console.plan_table import plan_document

        print_json({"path": out or path, **plan_document(after)})


def _save(before: PlanText, after: Plan, out: Path | None) -> None:
    """Write *after* to *out*, or back over what was read if it is still that.

    Raises EvidenceChanged: somebody else wrote the file in the meantime.
    """
    from breakglass.services.recovery.plan.document import write_plan
    from breakglass.services.recovery.plan.partition_file import read_text

    if out is not None:
        write_plan(after, out)
    elif after is not before.plan:
        if read_text(before.path) != before.text:
            raise EvidenceChanged(
                f"{before.path} was changed by somebody else in between, so nothing was written: "
                "look at it and run this again."
            )
        # Of a link, what it leads to is replaced and not the link.
        write_plan(after, before.path.resolve(), replace=True)


def _say_changes(before: Plan, after: Plan, differences: tuple[PlanDifference, ...]) -> None:
    from breakglass.services.recovery.plan.make import totals_of

    if after.digest == before.digest:
        say(f"Nothing to change: it {totals_of(after)}.")
        return
    for difference in differences[:CHANGES_SAID]:
        say(
            f"{difference.partition}: {_leader(difference.before)} -> {_leader(difference.after)}, "
            f"loses {count(difference.loss_before)} -> {count(difference.loss_after)}"
        )
    if len(differences) > CHANGES_SAID:
        say(f"and {len(differences) - CHANGES_SAID:,} more: see them with `breakglass plan diff`")
    say(f"before: {totals_of(before)}; digest {before.spoken_digest}")
    say(f"after:  {totals_of(after)}; digest {after.spoken_digest}")
    if before.approvals and not after.approvals:
        say("The approvals were of the plan before this edit: ask for them again.")


def _leader(broker: int | None) -> str:
    return "left out" if broker is None else f"b{broker}"


def _brokers_in(connection: Connection, plan: Plan, path: Path, rack: str) -> frozenset[int]:
    from breakglass.services.recovery.plan.check import require_cluster
    from breakglass.services.recovery.plan.edit import brokers_in_rack

    with connection.reading() as client:
        described = client.describe(deadline_after(patience.SNAPSHOT))
    require_cluster(plan, described.cluster_id, str(path))
    found = brokers_in_rack(described.brokers, rack)
    if not found:
        racks = sorted({broker.rack for broker in described.brokers if broker.rack is not None})
        raise UsageError(
            f"No broker is in rack {rack}: the racks are {', '.join(racks) or 'not known'}."
        )
    return found
