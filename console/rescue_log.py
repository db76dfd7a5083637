"""`breakglass rescue --source log:DIR`: save what a broker that is down has on its disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.console.exits import FAILED, INTERRUPTED
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.services import patience
from breakglass.services.errors import UsageError, WrongCluster
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.console.stop_signal import StopSignal
    from breakglass.console.wiring import Connection
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.rescue.broker_folder import BrokerFolder, ReplicaFolder
    from breakglass.services.recovery.rescue.from_log import CopiedLog

NO_CLUSTER = "unknown"
DAMAGE_SAID = 20


@dataclass(frozen=True, slots=True)
class FromLog:
    """The options of one call."""

    sources: tuple[str, ...]
    """``log:DIR``, one or more."""
    topics: tuple[str, ...]
    to: Path
    while_running: bool
    as_json: bool
    connection: Connection | None = None
    """Of the cluster, where only what its leaders do not hold is wanted."""


def rescue_logs(wanted: FromLog) -> int:
    """Carry out one call; returns the exit code."""
    from breakglass.console.stop_signal import StopSignal

    folders = [_opened(source, wanted) for source in wanted.sources]
    chosen = [(folder, _chosen(folder, wanted.topics)) for folder in folders]
    if not any(replicas for _, replicas in chosen):
        raise UsageError(f"no topic of these is there: {', '.join(wanted.topics)}")
    cluster_id = _one_cluster(folders)
    with StopSignal() as stop:
        stop.armed()
        starts = _starts(wanted, chosen, cluster_id)
        results = list(_saved(chosen, wanted.to, cluster_id, starts, stop))
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
                        "topic": result.partition.topic,
                        "partition": result.partition.partition,
                        "log": result.log,
                        "start": result.start,
                        "end": result.end,
                        "records": result.records,
                        "bytes": result.bytes,
                        "path": result.path,
                        "rescued": result.whole,
                        "reason": result.reason,
                        "missing": result.damage,
                    }
                    for result in results
                ],
            }
        )
    else:
        _print(results)
    _say_what_is_missing(results)
    if all(result.whole for result in results):
        return 0
    return INTERRUPTED if stop.requested else FAILED


def _opened(source: str, wanted: FromLog) -> BrokerFolder:
    """The folder that *source* names, if no broker writes in it. Raises as `open_log_folder`."""
    from breakglass.services.recovery.rescue.broker_folder import open_log_folder

    folder = open_log_folder(source, while_running=wanted.while_running)
    for name in folder.aside:
        say(f"passed over: {inert(name)}")
    return folder


def _chosen(folder: BrokerFolder, topics: Sequence[str]) -> list[ReplicaFolder]:
    return [
        replica for replica in folder.replicas if not topics or replica.partition.topic in topics
    ]


def _one_cluster(folders: Sequence[BrokerFolder]) -> str | None:
    """The id of the cluster that the folders are of; None where they do not say."""
    ids = {folder.cluster_id for folder in folders if folder.cluster_id is not None}
    if len(ids) > 1:
        raise UsageError(f"these folders are of {len(ids)} clusters: rescue them one by one")
    return next(iter(ids), None)


def _starts(
    wanted: FromLog,
    chosen: Sequence[tuple[BrokerFolder, list[ReplicaFolder]]],
    cluster_id: str | None,
) -> dict[TopicPartition, int]:
    """From where on the leaders do not hold the logs; nothing of a log that is saved whole.

    Raises:
        WrongCluster: the folders are of another cluster than the one that is named.
        Unreachable: it does not answer.
    """
    if wanted.connection is None:
        return {}
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.recovery.rescue.from_log import log_end
    from breakglass.services.recovery.rescue.past_leader import kept_by_leaders

    replicas = [replica for _, held in chosen for replica in held]
    starts: dict[TopicPartition, int] = {}
    with wanted.connection.reading() as client:
        deadline = Deadline.after(patience.SNAPSHOT)
        found = client.describe(deadline).cluster_id
        if found != cluster_id:
            raise WrongCluster(
                f"the log folder is of cluster {cluster_id}, and these addresses lead to {found}: "
                "leave them out to save whole logs"
            )
        ends = {replica.partition: log_end(replica) for replica in replicas}
        for kept in kept_by_leaders(client, replicas, ends, Deadline.after(patience.SNAPSHOT)):
            if kept.until is None:
                say(f"{kept.partition}  saved whole: {kept.why}")
            else:
                starts[kept.partition] = kept.until
    return starts


def _saved(
    chosen: Sequence[tuple[BrokerFolder, list[ReplicaFolder]]],
    to: Path,
    cluster_id: str | None,
    starts: dict[TopicPartition, int],
    stop: StopSignal,
) -> Iterator[CopiedLog]:
    from breakglass.services.recovery.rescue.from_log import LogRescue
    from breakglass.services.recovery.rescue.rescue import new_folder

    root = new_folder(to, cluster_id or NO_CLUSTER)
    for folder, replicas in chosen:
        rescue = LogRescue(folder, root / folder.name, lambda: stop.requested, starts=starts)
        for topic in rescue.run(replicas) if replicas else ():
            yield from topic


def _say_what_is_missing(results: Sequence[CopiedLog]) -> None:
    records, size = (
        sum(result.records for result in results),
        sum(result.bytes for result in results),
    )
    say(f"{records:,} records of {len(results):,} partitions saved, {size:,} bytes")
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


def _print(results: Sequence[CopiedLog]) -> None:
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
    print_table(COLUMNS, rows)


COLUMNS = columns("Topic-partition", "Offsets", ">Records", ">Bytes", "Saved in")
