"""`breakglass return`: whether a dead broker may be started under the present leaders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import FAILED, INTERRUPTED
from breakglass.console.options import AsJson, WhileRunning, connected
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.errors import BreakglassError, Refused, UsageError, WrongCluster
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.rescue.broker_folder import BrokerFolder
    from breakglass.services.recovery.rescue.returning import ReturningReplica

app = new_app()

SAID = 20
"""More replicas than these are said by their number."""


@app.command("return")
@connected
def check_return(
    connection: Connection,
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            "--from",
            metavar="log:DIR",
            help="A folder of the broker's log.dirs; name each folder (repeatable).",
        ),
    ],
    rescued: Annotated[
        list[Path] | None,
        typer.Option(
            "--store",
            "--rescued",
            metavar="DIR",
            help="Folder with rescues, besides your state folder (repeatable).",
        ),
    ] = None,
    while_running: WhileRunning = False,
    as_json: AsJson = False,
) -> None:
    """Say what a dead broker would lose if it started now, from its log folders on disk.

    A broker that starts as a follower cuts its logs to those of the present leaders. The broker is
    safe to start when a rescue has every record that the broker would drop, byte for byte, and
    every transaction marker. That speaks of this broker's records only: what the others lose where
    it leads as soon as it starts, `rescue --before-return` says and saves. The cluster, the folders
    and the rescues are only read. Ends with 0 if the broker is safe to start, and with 1 if not.
    """
    from breakglass.console.stop_signal import StopSignal

    folders = _opened(source, while_running=while_running)
    broker, cluster_id = _one_broker(folders)
    with StopSignal() as stop, connection.reading() as client:
        stop.armed()

        def go_on() -> None:
            if stop.requested:
                raise Refused("stopped on request")

        found = list(_found(client, broker, cluster_id, folders, rescued or [], go_on))
    if as_json:
        print_json(_document(broker, cluster_id, folders, found))
    else:
        print_table(
            COLUMNS,
            (_row(replica) for replica in found if not replica.fate.safe or replica.records),
        )
    code = _conclude(broker, source, found)
    raise typer.Exit(INTERRUPTED if stop.requested else code)


def _opened(sources: Sequence[str], *, while_running: bool) -> list[BrokerFolder]:
    from breakglass.services.recovery.rescue.broker_folder import open_log_folder

    folders = [open_log_folder(source, while_running=while_running) for source in sources]
    for name in (name for folder in folders for name in folder.aside):
        say(f"passed over: {inert(name)}")
    return folders


def _one_broker(folders: Sequence[BrokerFolder]) -> tuple[int, str]:
    """Whose folders these are. Raises UsageError where they do not say, or of several brokers."""
    brokers = {(folder.broker, folder.cluster_id) for folder in folders}
    broker, cluster_id = next(iter(brokers))
    if len(brokers) > 1:
        raise UsageError("these folders are of several brokers: check each broker by itself")
    if broker is None or cluster_id is None:
        raise UsageError(
            f"{folders[0].path} does not say whose it is: name the folder with meta.properties"
        )
    return broker, cluster_id


def _found(
    client: ReadClient,
    broker: int,
    cluster_id: str,
    folders: Sequence[BrokerFolder],
    rescued: Sequence[Path],
    go_on: Callable[[], None],
) -> Iterator[ReturningReplica]:
    """One for each replica of the broker, by partition.

    Raises:
        WrongCluster: the folders are of another cluster.
        Refused: the broker runs.
    """
    from breakglass.console.rescuing import default_folder
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.recovery.rescue.from_log import log_end
    from breakglass.services.recovery.rescue.past_leader import kept_by_leaders
    from breakglass.services.recovery.rescue.returning import absent, rescues_in, returning

    snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), with_settings=False)
    if snapshot.cluster_id != cluster_id:
        raise WrongCluster(
            f"these folders are of cluster {cluster_id}, and the addresses lead to "
            f"{snapshot.cluster_id}: connect to the broker's own cluster"
        )
    if snapshot.description.fenced(broker) is False:
        raise Refused(
            f"b{broker} runs, or was stopped a moment ago: its logs are cut already where they "
            "differ; if it is stopped, wait until the cluster has fenced it"
        )
    states = {partition.partition: partition for partition in snapshot.partitions}
    replicas = [replica for folder in folders for replica in folder.replicas]
    replicas.sort(key=lambda replica: replica.partition)
    ends: dict[TopicPartition, int] = {}
    for replica in replicas:
        # One that cannot be read is reported with the reason below.
        with suppress(BreakglassError):
            ends[replica.partition] = log_end(replica)
    led = [
        replica for replica in replicas if replica.partition in states and replica.partition in ends
    ]
    kept = kept_by_leaders(client, led, ends, Deadline.after(patience.SNAPSHOT))
    reaches = {reach.partition: reach for reach in kept}
    rescues = rescues_in([default_folder(), *rescued], states)
    hidden = _hidden(client, {replica.partition.topic for replica in replicas}, states)
    held = {replica.partition for replica in replicas}
    for replica in replicas:
        name = replica.partition
        yield returning(
            broker,
            replica,
            states.get(name),
            reaches.get(name),
            rescues,
            go_on,
            hidden.get(name.topic, ""),
        )
    for name, state in sorted(states.items()):
        if broker in state.assignment and name not in held:
            yield absent(broker, state)


def _hidden(
    client: ReadClient, topics: Collection[str], states: Collection[TopicPartition]
) -> dict[str, str]:
    """Which of *topics* the cluster may have and does not show to this user, and why.

    Brokers leave out, without a word, what a user may not describe, unless it is named.
    """
    from breakglass.services.kafka.wire.deadline import Deadline

    found: dict[str, str] = {}
    for topic in sorted(set(topics) - {state.topic for state in states}):
        try:
            client.partitions([topic], Deadline.after(patience.SNAPSHOT))
        except BreakglassError as error:
            found[topic] = str(error)
    return found


def _conclude(broker: int, sources: Sequence[str], found: Sequence[ReturningReplica]) -> int:
    """Say whether it is safe to start, and what to do if it is not; the exit code."""
    from breakglass.services.recovery.rescue.returning import lost_text

    unsafe = [replica for replica in found if not replica.fate.safe]
    for replica in unsafe[:SAID]:
        say(f"{replica.partition}  {replica.fate}: {replica.why}")
    if len(unsafe) > SAID:
        say(f"and {len(unsafe) - SAID:,} more: --json names them all")
    if not unsafe:
        rescued = sum(replica.rescued for replica in found)
        say(
            f"b{broker} is safe to start: {partitions_text(len(found))}, {rescued:,} records that "
            "it drops are rescued"
        )
        leads = [replica for replica in found if replica.leads]
        if leads:
            say(
                f"it leads {partitions_text(len(leads))} as soon as it starts, and the others are "
                f"cut to its log: first run breakglass rescue --before-return {broker}"
            )
        return 0
    lost = sum(replica.lost for replica in found)
    markers = sum(replica.lost_markers for replica in found)
    say(
        f"do not start b{broker}: {lost_text(lost, markers)} would be lost, "
        f"{partitions_text(len(unsafe))} not safe"
    )
    if lost or markers:
        folders = " ".join(f"--source {inert(source)}" for source in sources)
        say(f"save them: breakglass rescue {folders} --bootstrap-server HOST:PORT")
    return FAILED


COLUMNS = (
    Column("Topic-partition"),
    Column("Leader"),
    Column("Drops"),
    Column("Records", right=True),
    Column("Rescued", right=True),
    Column("Lost", right=True),
    Column("Fate"),
)


def _row(one: ReturningReplica) -> tuple[object, ...]:
    return (
        one.partition,
        None if one.leader is None else f"b{one.leader}",
        ", ".join(f"{span.start:,}-{span.end - 1:,}" for span in one.dropped) or None,
        f"{one.records:,}",
        f"{one.rescued:,}",
        f"{one.lost:,}",
        one.fate,
    )


def _document(
    broker: int,
    cluster_id: str,
    folders: Sequence[BrokerFolder],
    found: Sequence[ReturningReplica],
) -> dict[str, Any]:
    return {
        "schema": 1,
        "cluster_id": cluster_id,
        "broker": broker,
        "from": [{"path": folder.path, "passed_over": folder.aside} for folder in folders],
        "safe_to_start": all(replica.fate.safe for replica in found),
        "lost": sum(replica.lost for replica in found),
        "partitions": [
            {
                "topic": replica.partition.topic,
                "partition": replica.partition.partition,
                "log": replica.log,
                "leader": replica.leader,
                "start": replica.start,
                "end": replica.end,
                "fate": replica.fate,
                "why": replica.why,
                "dropped": replica.dropped,
                "records": replica.records,
                "rescued": replica.rescued,
                "lost": replica.lost,
                "leads": replica.leads,
                "markers": replica.markers,
                "lost_markers": replica.lost_markers,
                "first_lost": replica.first_lost,
                "unreadable": replica.unreadable,
                "torn": replica.torn,
            }
            for replica in found
        ],
    }
