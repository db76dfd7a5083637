"""The `plan` commands that write a plan back: by hand, by rule, and an approval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="The plan.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="NEW", help="Write to a new file, and leave FILE unchanged."),
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


def set_leaders(
    path: PlanFile,
    leaders: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC-PARTITION=BROKER...", help="orders-3=1, or 'orders-*=1'."),
    ],
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Designate leaders by hand, and print what that loses.

    stderr says what each choice loses before and after the edit. You may set a replica that could
    not be read; its election then needs a separate consent, to an unknown loss. A replica that
    cannot be elected is refused with the reason, and nothing is written.
    """
    from breakglass.services.recovery.plan import edit as plan_edit

    def change(plan: Plan) -> Plan:
        return plan_edit.set_leaders(plan, leaders_named(leaders, plan.records))

    _edit(path, change, out, as_json=as_json)


def exclude(
    path: PlanFile,
    partitions: Annotated[
        list[str], typer.Argument(metavar="TOPIC-PARTITION...", help="orders-3, or 'orders-*'.")
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; the plan keeps it.")
    ] = "left out by hand",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Leave partitions out of a plan; the plan keeps their evidence.

    `plan set` adds them to the plan again.
    """
    from breakglass.services.recovery.plan import edit as plan_edit

    def change(plan: Plan) -> Plan:
        return plan_edit.exclude_all(plan, partitions_named(partitions, plan.records), reason)

    _edit(path, change, out, as_json=as_json)


@connected
def prefer(
    connection: Connection,
    path: PlanFile,
    broker: Annotated[
        list[str] | None,
        typer.Option("--broker", metavar="ID", help="Broker id (4,7, or repeated)."),
    ] = None,
    rack: Annotated[
        str | None, typer.Option("--rack", metavar="NAME", help="All brokers of this rack.")
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Elect the given brokers wherever that costs no records.

    A given broker replaces the chosen leader of a partition where its log is as good and loses the
    same.
    """
    from breakglass.services.recovery.plan import edit as plan_edit

    named = broker_ids(broker, "--broker")
    if not named and rack is None:
        raise UsageError("name brokers by --broker, a rack by --rack, or both")

    def change(plan: Plan) -> Plan:
        of_rack = frozenset() if rack is None else _brokers_in(connection, plan, path, rack)
        return plan_edit.prefer(plan, of_rack | frozenset(named))

    _edit(path, change, out, as_json=as_json)


def never(
    path: PlanFile,
    brokers: Annotated[
        list[str],
        typer.Argument(metavar="BROKER...", help="Ids of all brokers that must not lead."),
    ],
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Elect other brokers wherever the given brokers were chosen.

    Each of these partitions gets the next best replica of its ranking. A partition that only the
    given brokers could lead is left out. Name all these brokers in one call, because an earlier
    call is not remembered.
    """
    from breakglass.services.recovery.plan import edit as plan_edit

    named = broker_ids(brokers, "BROKER")
    _edit(path, lambda plan: plan_edit.never(plan, *named), out, as_json=as_json)


def least_loss(path: PlanFile, out: Out = None, as_json: AsJson = False) -> None:
    """Elect the replica that loses the fewest records, whatever its rank."""
    from breakglass.services.recovery.plan import edit as plan_edit

    _edit(path, plan_edit.least_loss, out, as_json=as_json)


def approve(
    path: PlanFile,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="NAME", help="Who approves (default: your account)."),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest", metavar="DIGEST", help="Refuse a plan with another digest (short or whole)."
        ),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Record that you approve a plan as it is.

    An approval holds for one digest: any edit of the plan voids it.
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
