"""`breakglass rescue`: save what a plan or a returning broker will cut off, or a log folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.cli import new_app
from breakglass.console.documents import rescued_partitions
from breakglass.console.exits import FAILED, INTERRUPTED, StopSignal
from breakglass.console.option_values import require_topics
from breakglass.console.options import (
    SECONDS,
    SOURCE_HELP,
    AsJson,
    GivenPlan,
    Journals,
    RescueStore,
    Seconds,
    TopicNames,
    WhileRunning,
    connected,
    rate,
    size,
)
from breakglass.console.output import columns, members, of_partition, print_json, print_table, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.errors import UsageError, WrongCluster
from breakglass.services.recovery.guarded.rescue_choice import default_folder
from breakglass.services.session import Effort
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import PartitionEvidence, TopicPartition
    from breakglass.services.recovery.judgement.succession import PassedOver
    from breakglass.services.recovery.plan.check import Checked
    from breakglass.services.recovery.plan.make import Appraisal
    from breakglass.services.recovery.rescue.broker_folder import ReplicaFolder
    from breakglass.services.recovery.rescue.saver import CopiedLog
    from breakglass.services.recovery.rescue.spans import AtRisk, RescuedPartition

app = new_app()


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueRequest:
    """The options of one call."""

    plan: GivenPlan = None
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            "--from",
            metavar="log:DIR",
            help=SOURCE_HELP,
        ),
    ] = None
    before_return: Annotated[
        int | None,
        typer.Option(
            "--before-return",
            metavar="BROKER",
            help="In place of a plan: save the records that this broker cuts from other replicas "
            "when it returns and leads.",
        ),
    ] = None
    topics: TopicNames = ()
    while_running: WhileRunning = False
    store: RescueStore = None
    max_rate: Annotated[
        float | None,
        rate(
            "--max-rate",
            "--rate-limit",
            help="Maximum rate of reading, or unlimited.",
            shown="50MiB/s",
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        size(
            "--max-bytes",
            example="10GiB",
            help="With --before-return: save at most about this much, the newest records of each "
            "log first.",
            least=1,
            shown="10GiB",
        ),
    ] = None
    journals: Journals = None
    duration: Seconds = SECONDS
    as_json: AsJson = False

    @property
    def folder(self) -> Path:
        """Each rescue makes a folder of its own there."""
        return self.store or default_folder()


@app.command()
@connected
def rescue(connection: Connection, wanted: RescueRequest) -> None:
    """Save the records that the elections of a plan will cut off, without an election.

    Records are read from the losing replicas and saved as topic backups, in
    DIR/cluster/time/b<broker>; `breakglass backup cat` prints them. The command does not change the
    cluster.

    --before-return BROKER is for a broker that leads offline partitions as soon as it is started.
    Run the command before you start it: it saves the records of these partitions that other
    replicas hold and the broker may lack. That is everything that they hold, unless the broker
    already runs and reports its log: a power cut may have taken records that it had acknowledged
    and not flushed. The command exits with 1 if records are left out, if a replica cannot be read,
    or if another leader was elected without this broker's log. In the last case, save the broker's
    log folders before you start it, because it would also truncate its own log.

    --source log:DIR saves whole partitions from the disk of a broker that is down, without
    contacting a cluster. With --bootstrap-server, only the records that the current leaders do not
    hold are saved. The command changes nothing in the folder. Damaged parts are skipped and named;
    the command then exits with 1.
    """
    ways = (wanted.plan is not None, bool(wanted.source), wanted.before_return is not None)
    if sum(ways) != 1:
        raise UsageError(
            "name a plan, a log folder or a broker: rescue PLAN, --source log:DIR, or "
            "--before-return BROKER"
        )
    if wanted.source:
        raise typer.Exit(rescue_logs(wanted, connection if connection.named else None))
    if wanted.while_running or (wanted.topics and wanted.plan is not None):
        raise UsageError(
            "--while-running belongs to --source log:DIR, and --topics does not go with a plan: "
            "leave them out"
        )
    if wanted.max_bytes is not None and wanted.before_return is None:
        raise UsageError("--max-bytes belongs to --before-return: leave it out")
    if wanted.plan is not None:
        raise typer.Exit(_rescue_by_plan(connection, wanted, wanted.plan))
    assert wanted.before_return is not None
    raise typer.Exit(_rescue_before_return(connection, wanted, wanted.before_return))


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


def _rescue_by_plan(connection: Connection, wanted: RescueRequest, plan: Path) -> int:
    from breakglass.console.evidence import appraised
    from breakglass.console.plan import opened

    read = opened(plan).plan

    def look(client: ReadClient) -> RescueFindings:
        appraisal, found = appraised(
            client, read, str(plan), wanted.duration, connection.native_rpc
        )
        return RescueFindings(found.snapshot.cluster_id, *_sorted_out(appraisal))

    return _rescue(connection, wanted, look)


def _rescue_before_return(connection: Connection, wanted: RescueRequest, broker: int) -> int:
    """Save what *broker* cuts when it returns and leads; returns the exit code."""
    from breakglass.console.evidence import final, say_follows
    from breakglass.services.recovery.judgement.assessment import Action, Verb
    from breakglass.services.recovery.rescue.rescue import BEFORE_RETURN_BYTES
    from breakglass.services.recovery.rescue.spans import at_risk_of_return, harm_of
    from breakglass.services.recovery.triage import triage

    def look(client: ReadClient) -> RescueFindings:
        found = final(
            triage(
                client,
                wanted.duration,
                topics=wanted.topics,
                native_choice=connection.native_rpc,
                contents=Effort.OFF,
                journals=wanted.journals or (),
            )
        )
        require_topics(wanted.topics, found.snapshot)
        at_risk = [
            risk
            for evidence in found.evidence.partitions
            if (risk := at_risk_of_return(evidence, broker)) is not None
        ]
        unread = list(sentences_of_unread(found.evidence.partitions, broker, found.passed_over))
        for sentence in unread:
            say(sentence)
        if not at_risk:
            where = "in these topics " if wanted.topics else ""
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
            most_bytes=wanted.max_bytes or BEFORE_RETURN_BYTES,
        )

    return _rescue(connection, wanted, look)


def sentences_of_unread(
    partitions: Sequence[PartitionEvidence], broker: int, passed_over: Sequence[PassedOver] = ()
) -> Iterator[str]:
    """What each broker that could not be read loses if *broker* leads first, and the cure.

    One of *passed_over* does not return before its disk was saved, or checked (R27, R46).
    """
    from breakglass.services.recovery.rescue.spans import inherits, unread_beside

    unread: dict[tuple[int, bool], list[TopicPartition]] = {}
    for evidence in partitions:
        for other in unread_beside(evidence, broker):
            unread.setdefault((other, inherits(evidence, other)), []).append(evidence.partition)
    before = {one.broker: f"{one.act}; then " for one in passed_over}
    for (other, leads), names in sorted(unread.items()):
        more = f" and of {len(names) - 1:,} more" if len(names) > 1 else ""
        save = f"save b{other}'s log folders with `breakglass rescue --source log:DIR`"
        cure = (
            f"b{other} would lead as well if it returned first, so {save}"
            if leads
            else f"If b{other} can return, {before.get(other, '')}let b{other} return first, and "
            f"run this again; else {save}"
        )
        yield (
            f"b{other} could not be read: if b{broker} leads first, b{other} cuts what it alone "
            f"has of {min(names)}{more} when it returns. {cure}"
        )


Look = Callable[["ReadClient"], RescueFindings]
"""Reads the cluster."""


def _rescue(connection: Connection, wanted: RescueRequest, look: Look) -> int:
    from breakglass.services.recovery.rescue.rescue import new_folder, rescuer

    with StopSignal() as stop:
        with connection.reading() as client:
            found = look(client)
        stop.armed()
        cluster_id = found.cluster_id
        rate = None if wanted.max_rate is None else int(wanted.max_rate)
        rescuing = rescuer(connection.access(), cluster_id, lambda: stop.requested, rate)
        rescuing = replace(rescuing, most_bytes=found.most_bytes)
        folder = new_folder(wanted.folder, cluster_id)
        results = [*rescuing.rescue(found.at_risk, folder), *found.beyond]
    if wanted.as_json:
        print_json(
            {
                "schema": 1,
                "cluster_id": cluster_id,
                "succeeded": all(result.whole for result in results),
                "partitions": rescued_partitions(results),
                "passed_over": found.passed_over,
                "keep_down": found.harmful or None,
            }
        )
    else:
        rows = [
            (
                result.partition,
                f"b{saved.broker}",
                ", ".join(f"{span.start:,}-{span.end - 1:,}" for span in saved.spans),
                f"{saved.records:,}",
                f"{saved.bytes:,}",
                saved.path,
            )
            for result in results
            for saved in result.saved
        ]
        if rows:
            print_table(COLUMNS, rows)
        losing = sum(1 for result in results if result.saved)
        records = sum(result.records for result in results)
        say(f"{records:,} records of {losing:,} of {len(results):,} partitions saved")
        for result in results:
            if not result.whole:
                say(f"{result.partition}  not rescued: {result.reason}")
        root = next((saved.path.parents[2] for one in results for saved in one.saved), None)
        if wanted.before_return is not None and root is not None:
            say(
                f"after b{wanted.before_return} leads, `breakglass backup restore --tail-of {root} "
                f"--store {root}` puts back what its log lacks of them"
            )
    if all(result.whole for result in results):
        if found.passed_over or found.harmful or found.unsaved:
            say("the lines above name what is cut, or may be, and was not saved")
            return FAILED
        return 0
    return INTERRUPTED if stop.requested else FAILED


def _sorted_out(appraisal: Appraisal) -> tuple[list[AtRisk], list[RescuedPartition]]:
    """What can be rescued as it is now, and the results of what cannot."""
    from breakglass.services.recovery.plan.check import CheckStatus
    from breakglass.services.recovery.rescue.spans import AtRisk, RescuedPartition

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


COLUMNS = columns("Topic-partition", "Replica", "Offsets", ">Records", ">Bytes", "Saved in")


NO_CLUSTER = "unknown"
DAMAGE_SAID = 20


def rescue_logs(wanted: RescueRequest, leaders: Connection | None) -> int:
    """Save the log folders of *wanted*: all, or only what *leaders* do not hold.

    Returns the exit code.
    """
    from breakglass.services.recovery.rescue.broker_folder import open_log_folder
    from breakglass.services.recovery.rescue.rescue import new_folder
    from breakglass.services.recovery.rescue.saver import LogRescue

    folders = []
    for source in wanted.source or ():
        folders.append(open_log_folder(source, while_running=wanted.while_running))
        for name in folders[-1].aside:
            say(f"passed over: {inert(name)}")
    chosen = [
        (
            folder,
            [
                replica
                for replica in folder.replicas
                if not wanted.topics or replica.partition.topic in wanted.topics
            ],
        )
        for folder in folders
    ]
    if not any(replicas for _, replicas in chosen):
        raise UsageError(f"no topic of these is there: {', '.join(wanted.topics)}")
    ids = {folder.cluster_id for folder in folders if folder.cluster_id is not None}
    if len(ids) > 1:
        raise UsageError(f"these folders are of {len(ids)} clusters: rescue them one by one")
    cluster_id = next(iter(ids), None)
    results: list[CopiedLog] = []
    with StopSignal() as stop:
        stop.armed()
        replicas = [replica for _, some in chosen for replica in some]
        starts = {} if leaders is None else _starts(leaders, replicas, cluster_id)
        root = new_folder(wanted.folder, cluster_id or NO_CLUSTER)
        for folder, some in chosen:
            rescue = LogRescue(folder, root / folder.name, lambda: stop.requested, starts=starts)
            for topic in rescue.run(some) if some else ():
                results += topic
    if wanted.as_json:
        print_json(
            {
                "schema": 1,
                "cluster_id": cluster_id,
                "from": [
                    {"path": folder.path, "broker": folder.broker, "passed_over": folder.aside}
                    for folder in folders
                ],
                "succeeded": all(result.whole for result in results),
                "partitions": [
                    {
                        **of_partition(result.partition),
                        **members(result, "log start end records bytes path"),
                        "rescued": result.whole,
                        "reason": result.reason,
                        "missing": result.damage,
                    }
                    for result in results
                ],
            }
        )
    else:
        rows = [
            (
                result.partition,
                f"{result.start:,}-{result.end - 1:,}" if result.end > result.start else None,
                f"{result.records:,}",
                f"{result.bytes:,}",
                result.path,
            )
            for result in results
        ]
        print_table(COPIED_COLUMNS, rows)
    _say_what_is_missing(results)
    if all(result.whole for result in results):
        return 0
    return INTERRUPTED if stop.requested else FAILED


def _starts(
    leaders: Connection, replicas: Sequence[ReplicaFolder], cluster_id: str | None
) -> dict[TopicPartition, int]:
    """From where on the leaders do not hold the logs; nothing of a log that is saved whole.

    Raises:
        WrongCluster: the folders are of another cluster than the one that is named.
        Unreachable: it does not answer.
    """
    from breakglass.services.recovery.rescue.past_leader import kept_by_leaders
    from breakglass.services.recovery.rescue.saver import log_end

    starts: dict[TopicPartition, int] = {}
    with leaders.reading() as client:
        deadline = deadline_after(patience.SNAPSHOT)
        found = client.describe(deadline).cluster_id
        if found != cluster_id:
            raise WrongCluster(
                f"the log folder is of cluster {cluster_id}, and these addresses lead to {found}: "
                "leave them out to save whole logs"
            )
        ends = {replica.partition: log_end(replica) for replica in replicas}
        for kept in kept_by_leaders(client, replicas, ends, deadline_after(patience.SNAPSHOT)):
            if kept.until is None:
                say(f"{kept.partition}  saved whole: {kept.why}")
            else:
                starts[kept.partition] = kept.until
    return starts


def _say_what_is_missing(results: Sequence[CopiedLog]) -> None:
    records, size = sum(one.records for one in results), sum(one.bytes for one in results)
    say(f"{records:,} records of {partitions_text(len(results))} saved, {size:,} bytes")
    missing = [
        f"{result.partition}  offsets {damage.start:,}-{damage.end - 1:,} are missing: "
        f"{damage.reason}"
        for result in results
        for damage in result.damage
    ]
    missing += [
        f"{result.partition}  not whole: {result.reason}" for result in results if result.reason
    ]
    for line in missing[:DAMAGE_SAID]:
        say(line)
    if len(missing) > DAMAGE_SAID:
        say(f"and {len(missing) - DAMAGE_SAID:,} more: --json names them all")


COPIED_COLUMNS = columns("Topic-partition", "Offsets", ">Records", ">Bytes", "Saved in")
