"""`breakglass rescue`: save what a plan will cut off, or a broker's log folder; elect nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import FAILED, INTERRUPTED
from breakglass.console.options import DURATION_MS, AsJson, Duration, connected
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.appraisal import Appraisal
    from breakglass.services.recovery.plan.check import Checked
    from breakglass.services.recovery.rescue.rescue import Rescuer
    from breakglass.services.recovery.rescue.results import RescuedPartition
    from breakglass.services.recovery.rescue.spans import AtRisk

app = new_app()


@app.command()
@connected
def rescue(
    connection: Connection,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="A plan of ours, or one in Kafka's form."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="log:DIR",
            help="Instead: a log folder of a broker that is down, or one replica's (repeatable).",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Of a log folder, only this topic (repeatable)."),
    ] = None,
    while_running: Annotated[
        bool,
        typer.Option("--while-running", help="Read a log folder though its broker runs."),
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Where to save it (your state folder)."),
    ] = None,
    rate_limit: Annotated[
        int | None,
        typer.Option(
            "--rate-limit",
            metavar="BYTES",
            min=0,
            help="Read at most so many a second from all brokers together; 0 for no limit "
            "(52,428,800).",
        ),
    ] = None,
    recovery_duration_ms: Duration = DURATION_MS,
    as_json: AsJson = False,
) -> None:
    """Save the records that the elections of a plan will cut off, read from their replicas.

    Each losing replica gets a topic backup in the Kafka Backup format, in
    DIR/cluster/time/b<broker>; look into it with `breakglass backup cat`. Reads the cluster
    only. Elections do the same by themselves; --without-rescue leaves it out.

    --from log:DIR saves whole partitions from the disk of a broker that is down, and asks no
    cluster; with --bootstrap-server only what the leaders of now do not hold. The folder is
    only read. What is damaged is passed over and named (exit 1).
    """
    from breakglass.console.rescuing import default_folder

    if (plan is None) == (not source):
        raise UsageError("name either a plan or a log folder: --plan FILE, or --from log:DIR")
    if source:
        from breakglass.console.rescue_log import FromLog, rescue_logs

        folder = to or default_folder()
        leaders = connection if connection.named else None
        wanted = FromLog(tuple(source), tuple(topic or ()), folder, while_running, as_json, leaders)
        raise typer.Exit(rescue_logs(wanted))
    if plan is None or topic or while_running:
        raise UsageError("--topic and --while-running belong to --from log:DIR: leave them out")
    raise typer.Exit(
        _rescue_by_plan(connection, plan, to, rate_limit, recovery_duration_ms / 1000, as_json)
    )


def _rescue_by_plan(
    connection: Connection,
    plan: Path,
    to: Path | None,
    rate_limit: int | None,
    duration: float,
    as_json: bool,
) -> int:
    """Save what the elections of *plan* cut off; returns the exit code."""
    from breakglass.console.evidence import appraised
    from breakglass.console.plan_edits import opened
    from breakglass.console.rescuing import default_folder, rescuer
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.recovery.rescue.rescue import new_folder

    read = opened(plan).plan
    with StopSignal() as stop:
        with connection.reading() as client:
            appraisal, found = appraised(client, read, str(plan), duration, connection.native_rpc)
        stop.armed()
        cluster_id = found.snapshot.cluster_id
        rescuing = rescuer(connection, cluster_id, lambda: stop.requested, rate_limit)
        folder = new_folder(to or default_folder(), cluster_id)
        results = _rescue(rescuing, appraisal, folder)
    if as_json:
        from breakglass.console.documents import rescue_document

        print_json(rescue_document(cluster_id, results))
    else:
        _print(results)
    if all(one.whole for one in results):
        return 0
    return INTERRUPTED if stop.requested else FAILED


def _rescue(rescuing: Rescuer, appraisal: Appraisal, folder: Path) -> list[RescuedPartition]:
    at_risk, beyond = _sorted_out(appraisal)
    return [*rescuing.rescue(at_risk, folder), *beyond]


def _sorted_out(appraisal: Appraisal) -> tuple[list[AtRisk], list[RescuedPartition]]:
    """What can be rescued as it is now, and the results of what cannot."""
    from breakglass.services.recovery.plan.check import CheckStatus
    from breakglass.services.recovery.rescue.results import RescuedPartition
    from breakglass.services.recovery.rescue.spans import AtRisk

    at_risk: list[AtRisk] = []
    beyond: list[RescuedPartition] = []
    for one in appraisal.checked:
        why_not = _why_not(one, appraisal)
        if one.status is CheckStatus.ONLINE:
            say(f"{one.partition}  is led by now: the plan cuts nothing off")
        elif why_not:
            beyond.append(RescuedPartition(one.partition, one.leader, reason=why_not))
        else:
            if one.reason:
                say(f"{one.partition}  {one.reason}: rescued as it is now")
            at_risk.append(AtRisk(appraisal.evidence[one.partition], one.leader))
    return at_risk, beyond


def _why_not(one: Checked, appraisal: Appraisal) -> str:
    """Why nothing that the plan means can be rescued; empty if it can."""
    now = appraisal.evidence.get(one.partition)
    if now is None:
        return f"{one.reason}: leave it out of the plan"
    record = appraisal.plan.records.get(one.partition)
    if record is not None and record.evidence.state.topic_id != now.state.topic_id:
        return "its topic was deleted and created again: make the plan again"
    if one.leader not in now.state.assignment:
        return f"b{one.leader} is not in the assignment: choose another leader"
    return ""


def _print(results: Sequence[RescuedPartition]) -> None:
    rows = list(_rows(results))
    if rows:
        print_table(COLUMNS, rows)
    losing = sum(1 for one in results if one.saved)
    records = sum(one.records for one in results)
    say(f"{records:,} records of {losing:,} of {len(results):,} partitions saved")
    for one in results:
        if not one.whole:
            say(f"{one.partition}  not rescued: {one.reason}")


def _rows(results: Sequence[RescuedPartition]) -> Iterator[tuple[object, ...]]:
    for one in results:
        for saved in one.saved:
            offsets = ", ".join(f"{span.start:,}-{span.end - 1:,}" for span in saved.spans)
            yield (
                one.partition,
                f"b{saved.broker}",
                offsets,
                f"{saved.records:,}",
                f"{saved.bytes:,}",
                saved.path,
            )


COLUMNS = (
    Column("Topic-partition"),
    Column("Replica"),
    Column("Offsets"),
    Column("Records", right=True),
    Column("Bytes", right=True),
    Column("Saved in"),
)
