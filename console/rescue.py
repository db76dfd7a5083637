"""`breakglass rescue`: save what a plan or a returning broker will cut off, or a log folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import FAILED, INTERRUPTED
from breakglass.console.option_values import names_in
from breakglass.console.options import (
    DURATION_MS,
    AsJson,
    Duration,
    Journals,
    Topics,
    WhileRunning,
    connected,
    rate,
    size,
)
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.rescuing import RescueStore, default_folder, rescuer
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.session import Effort

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import PartitionEvidence, TopicPartition
    from breakglass.services.recovery.judgement.starting import PassedOver
    from breakglass.services.recovery.plan.appraisal import Appraisal
    from breakglass.services.recovery.plan.check import Checked
    from breakglass.services.recovery.rescue.results import RescuedPartition
    from breakglass.services.recovery.rescue.spans import AtRisk

app = new_app()


@app.command()
@connected
def rescue(
    connection: Connection,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="A plan of `plan make`, or a file in Kafka's form."
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            "--from",
            metavar="log:DIR",
            help="In place of a plan: a log folder of a broker that is down, or of one replica "
            "(repeatable).",
        ),
    ] = None,
    before_return: Annotated[
        int | None,
        typer.Option(
            "--before-return",
            metavar="BROKER",
            help="In place of a plan: save the records that this broker cuts from other replicas "
            "when it returns and leads.",
        ),
    ] = None,
    topics: Topics = None,
    while_running: WhileRunning = False,
    store: RescueStore = None,
    max_rate: Annotated[
        float | None,
        rate(
            "--max-rate",
            "--rate-limit",
            help="Maximum read rate from all brokers together, or unlimited.",
            shown="50MiB/s",
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        size(
            "--max-bytes",
            example="10GiB",
            help="With --before-return: save about so many bytes at most, of each log the newest "
            "records first.",
            least=1,
            shown="10GiB",
        ),
    ] = None,
    journals: Journals = None,
    recovery_duration_ms: Duration = DURATION_MS,
    as_json: AsJson = False,
) -> None:
    """Save the records that the elections of a plan will cut off; elect nobody.

    Records are read from the losing replicas and saved as topic backups, in
    DIR/cluster/time/b<broker>; `breakglass backup cat` prints them. The cluster is only read.

    --before-return BROKER is for a broker that leads offline partitions as soon as it is started.
    It saves the records that other replicas hold of these partitions, where the broker is not
    proved to hold the same records: all of them while its log cannot be read, for a power cut takes
    records that were acknowledged and not yet flushed. Run the command before you start the broker.
    It ends with 1 where records are left out or a replica cannot be read, and where an election
    passed the broker over: its start cuts its own log, too.

    --source log:DIR saves whole partitions from the disk of a broker that is down, without asking a
    cluster. With --bootstrap-server, only the records that the present leaders do not hold are
    saved. The folder is only read. Damaged parts are skipped and named, and the command ends with
    1.
    """
    if (plan is not None) + bool(source) + (before_return is not None) != 1:
        raise UsageError(
            "name a plan, a log folder or a broker: --plan FILE, --source log:DIR, or "
            "--before-return BROKER"
        )
    if source:
        from breakglass.console.rescue_log import FromLog, rescue_logs

        folder = store or default_folder()
        leaders = connection if connection.named else None
        names = names_in(topics)
        from_log = FromLog(tuple(source), names, folder, while_running, as_json, leaders)
        raise typer.Exit(rescue_logs(from_log))
    if while_running or (topics and plan is not None):
        raise UsageError(
            "--while-running belongs to --source log:DIR, and --topics does not go with a plan: "
            "leave them out"
        )
    from breakglass.services.recovery.guarded.rescuing import BEFORE_RETURN_BYTES

    seconds = recovery_duration_ms / 1000
    limit = None if max_rate is None else int(max_rate)
    if max_bytes is not None and before_return is None:
        raise UsageError("--max-bytes belongs to --before-return: leave it out")
    wanted = RescueOptions(
        connection,
        store,
        limit,
        seconds,
        as_json,
        max_bytes or BEFORE_RETURN_BYTES,
        tuple(journals or ()),
    )
    if plan is not None:
        raise typer.Exit(_rescue_by_plan(wanted, plan))
    assert before_return is not None
    raise typer.Exit(_rescue_before_return(wanted, before_return, names_in(topics)))


@dataclass(frozen=True, slots=True)
class RescueOptions:
    """The options of one rescue from brokers."""

    connection: Connection
    store: Path | None
    bytes_per_second: int | None
    duration: float
    """Seconds that brokers have to answer."""
    as_json: bool
    most_bytes: int
    """About how many bytes are saved before a return."""
    journals: tuple[Path, ...]
    """Journals of colleagues."""


@dataclass(frozen=True, slots=True)
class RescueFindings:
    """What a look at the cluster found to be saved."""

    cluster_id: str
    at_risk: list[AtRisk]
    beyond: list[RescuedPartition] = field(default_factory=list)
    """The results of what cannot be saved."""
    passed_over: tuple[PassedOver, ...] = ()
    """The broker that returns, where an election passed it over."""
    harmful: str = ""
    """Why the broker that returns is not to be started at all."""
    unsaved: bool = False
    """What a log alone holds that could not be read is truncated, and not saved."""
    most_bytes: int | None = None


def _rescue_by_plan(wanted: RescueOptions, plan: Path) -> int:
    from breakglass.console.evidence import appraised
    from breakglass.console.plan_edits import opened

    read, connection = opened(plan).plan, wanted.connection

    def look(client: ReadClient) -> RescueFindings:
        appraisal, found = appraised(
            client, read, str(plan), wanted.duration, connection.native_rpc
        )
        return RescueFindings(found.snapshot.cluster_id, *_sorted_out(appraisal))

    return _rescue(wanted, look)


def _rescue_before_return(wanted: RescueOptions, broker: int, topics: tuple[str, ...]) -> int:
    """Save what *broker* cuts when it returns and leads; returns the exit code."""
    from breakglass.console.evidence import final, say_follows
    from breakglass.console.partition_names import require_topics
    from breakglass.services.recovery.judgement.assessment import Action, Verb
    from breakglass.services.recovery.rescue.spans import at_risk_of_return, harm_of
    from breakglass.services.recovery.triage import triage
    from breakglass.services.words.figures import partitions_text

    def look(client: ReadClient) -> RescueFindings:
        native = wanted.connection.native_rpc
        found = final(
            triage(
                client,
                wanted.duration,
                topics=topics,
                native_choice=native,
                contents=Effort.OFF,
                journals=wanted.journals,
            )
        )
        require_topics(topics, found.snapshot)
        at_risk = [
            risk
            for evidence in found.evidence.partitions
            if (risk := at_risk_of_return(evidence, broker)) is not None
        ]
        unread = list(sentences_of_unread(found.evidence.partitions, broker))
        for sentence in unread:
            say(sentence)
        if not at_risk:
            where = "in these topics " if topics else ""
            say(
                f"b{broker} cuts nothing of other replicas {where}when it returns, as far "
                "as those that can be read show"
            )
        passed = tuple([one for one in found.passed_over if one.broker == broker])
        for one in passed:
            say(one.advice)
        follows = not passed and say_follows(found.around or found.snapshot, broker)
        bombs = [one for one in found.assessments if one.action == Action(Verb.STOP, broker)]
        harm = (
            f"it is EMPTY, and about to lead {partitions_text(len(bombs))}"
            if bombs
            else harm_of(found.evidence.partitions, broker)
        )
        if harm:
            say(f"keep b{broker} down: {harm}")
        for trouble in found.troubles:
            say(f"? {trouble}")
        return RescueFindings(
            found.snapshot.cluster_id,
            at_risk,
            [],
            passed,
            harm,
            unsaved=bool(unread) or follows,
            most_bytes=wanted.most_bytes,
        )

    return _rescue(wanted, look)


def sentences_of_unread(partitions: Sequence[PartitionEvidence], broker: int) -> Iterator[str]:
    """What each broker that could not be read loses if *broker* leads first, and the cure."""
    from breakglass.services.recovery.rescue.spans import inherits, unread_beside

    unread: dict[tuple[int, bool], list[TopicPartition]] = {}
    for evidence in partitions:
        for other in unread_beside(evidence, broker):
            unread.setdefault((other, inherits(evidence, other)), []).append(evidence.partition)
    for (other, leads), names in sorted(unread.items()):
        yield _first_or_lost(broker, other, names, leads=leads)


def _first_or_lost(
    broker: int, other: int, partitions: Sequence[TopicPartition], *, leads: bool
) -> str:
    """What *other* loses if *broker* leads first, and the cure; *leads* if *other* leads, too."""
    more = f" and of {len(partitions) - 1:,} more" if len(partitions) > 1 else ""
    save = f"save b{other}'s log folders with `breakglass rescue --source log:DIR`"
    cure = (
        f"b{other} leads, too, if it returns first, so {save}"
        if leads
        else f"If b{other} can return, let b{other} return first, then run this again; else {save}"
    )
    return (
        f"b{other} could not be read: if b{broker} leads first, b{other} cuts what it alone has of "
        f"{min(partitions)}{more} when it returns. {cure}"
    )


Look = Callable[["ReadClient"], RescueFindings]
"""Reads the cluster."""


def _rescue(wanted: RescueOptions, look: Look) -> int:
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.recovery.rescue.rescue import new_folder

    connection = wanted.connection
    with StopSignal() as stop:
        with connection.reading() as client:
            found = look(client)
        stop.armed()
        cluster_id, rate = found.cluster_id, wanted.bytes_per_second
        rescuing = rescuer(connection, cluster_id, lambda: stop.requested, rate)
        rescuing = replace(rescuing, most_bytes=found.most_bytes)
        folder = new_folder(wanted.store or default_folder(), cluster_id)
        results = [*rescuing.rescue(found.at_risk, folder), *found.beyond]
    if wanted.as_json:
        from breakglass.console.documents import passed_over_document, rescue_document

        print_json(
            {
                **rescue_document(cluster_id, results),
                "passed_over": [passed_over_document(one) for one in found.passed_over],
                "keep_down": found.harmful or None,
            }
        )
    else:
        _print(results)
    if all(result.whole for result in results):
        return FAILED if found.passed_over or found.harmful or found.unsaved else 0
    return INTERRUPTED if stop.requested else FAILED


def _sorted_out(appraisal: Appraisal) -> tuple[list[AtRisk], list[RescuedPartition]]:
    """What can be rescued as it is now, and the results of what cannot."""
    from breakglass.services.recovery.plan.check import CheckStatus
    from breakglass.services.recovery.rescue.results import RescuedPartition
    from breakglass.services.recovery.rescue.spans import AtRisk

    at_risk: list[AtRisk] = []
    beyond: list[RescuedPartition] = []
    for checked in appraisal.checked:
        why_not = _why_not(checked, appraisal)
        if checked.status is CheckStatus.ONLINE:
            say(f"{checked.partition}  is led by now: the plan cuts nothing off")
        elif why_not:
            beyond.append(RescuedPartition(checked.partition, checked.leader, reason=why_not))
        else:
            if checked.reason:
                say(f"{checked.partition}  {checked.reason}: rescued as it is now")
            at_risk.append(AtRisk(appraisal.evidence[checked.partition], checked.leader))
    return at_risk, beyond


def _why_not(checked: Checked, appraisal: Appraisal) -> str:
    """Why nothing that the plan means can be rescued; empty if it can."""
    now = appraisal.evidence.get(checked.partition)
    if now is None:
        return f"{checked.reason}: leave it out of the plan"
    record = appraisal.plan.records.get(checked.partition)
    if record is not None and record.evidence.state.topic_id != now.state.topic_id:
        return "its topic was deleted and created again: make the plan again"
    if checked.leader not in now.state.assignment:
        return f"b{checked.leader} is not in the assignment: choose another leader"
    return ""


def _print(results: Sequence[RescuedPartition]) -> None:
    rows = list(_rows(results))
    if rows:
        print_table(COLUMNS, rows)
    losing = sum(1 for result in results if result.saved)
    records = sum(result.records for result in results)
    say(f"{records:,} records of {losing:,} of {len(results):,} partitions saved")
    for result in results:
        if not result.whole:
            say(f"{result.partition}  not rescued: {result.reason}")


def _rows(results: Sequence[RescuedPartition]) -> Iterator[tuple[object, ...]]:
    for result in results:
        for saved in result.saved:
            offsets = ", ".join(f"{span.start:,}-{span.end - 1:,}" for span in saved.spans)
            yield (
                result.partition,
                f"b{saved.broker}",
                offsets,
                f"{saved.records:,}",
                f"{saved.bytes:,}",
                saved.path,
            )


COLUMNS = columns("Topic-partition", "Replica", "Offsets", ">Records", ">Bytes", "Saved in")
