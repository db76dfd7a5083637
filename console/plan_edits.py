"""The `plan` commands that write a plan back: by hand, by rule, and an approval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.option_values import broker_ids, leaders_named, partitions_named
from breakglass.console.options import AsJson, connected
from breakglass.console.output import print_json, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import EvidenceChanged, Refused, UsageError
from breakglass.services.words.figures import count

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan
    from breakglass.services.recovery.plan.edit import PlanDifference

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The file of the plan.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="NEW", help="A new file or folder to write."),
]
CHANGES_SAID = 20


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
    from breakglass.services.recovery.plan.file import parse_plan
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

    _edit(path, change, out, as_json=as_json)


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


def _edit(path: Path, change: Callable[[Plan], Plan], out: Path | None, *, as_json: bool) -> None:
    """Change the plan in *path*, say what that changes, write it back or to *out*."""
    from breakglass.services.recovery.plan.edit import diff

    before = opened(path)
    after = change(before.plan)
    differences = diff(before.plan, after)
    _say_changes(before.plan, after, differences)
    _save(before, after, out)
    if as_json:
        from breakglass.console.plan_table import diff_document

        print_json({"path": out or path, **diff_document(before.plan, after, differences)})


def _save(before: PlanText, after: Plan, out: Path | None) -> None:
    """Write *after* to *out*, or back over what was read if it is still that.

    Raises EvidenceChanged: somebody else wrote the file in the meantime.
    """
    from breakglass.services.recovery.plan.file import write_plan
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
