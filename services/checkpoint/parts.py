"""Builds what takes, reads and finishes checkpoints, for one cluster and one store.

One worker of a node at a time copies a checkpoint: two would replace each other's files. A node is
one machine, so a file lock is enough, which the operating system releases when its process ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakglass.services import patience
from breakglass.services.checkpoint.coordinator import SIDE_BY_SIDE, Coordinator, Finisher
from breakglass.services.checkpoint.kafka.logs import (
    Ends,
    Lineages,
    Logs,
    Sought,
    read_here,
    require_stamp,
)
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.kafka.transaction_logs import (
    CommitRow,
    LoggedBatches,
    commits_in,
    read_contents_here,
    rows_in,
    whole_range,
)
from breakglass.services.checkpoint.promises import CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.protocol.lineage import Lineage, RecordLineage
from breakglass.services.checkpoint.protocol.transactions import BatchRow
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.errors import LogBeginsLater, Refused, StorageError, TimedOut
from breakglass.services.file_lock import lock, open_lock_file, unlock
from breakglass.services.guard.lock import private_folder
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.reader import FetchedBatches, records_of
from breakglass.services.pipeline.batches.tasks import (
    LogRange,
    Ranges,
    RangeWork,
    divided,
    fetches_in,
    range_of,
    run_tasks,
)
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import WantedTopics, read_sources
from breakglass.services.state_folder import state_folder
from breakglass.services.topic_backup.manifest import tool_version
from breakglass.services.topic_backup.store.store import local_path, open_store

if TYPE_CHECKING:
    from breakglass.services.kafka.marker_client import MarkerClient
    from breakglass.services.session import ReadAccess


@contextmanager
def alone(address: str, node: int, folder: Path, id: int) -> Iterator[None]:
    """Exclude other workers of *node* from checkpoint *id* of the store at *address* for the block.

    Excludes workers that use the same *folder*, in other threads and in other processes.

    Raises:
        AlreadyRunning: another worker has the lock.
        StorageError: the lock file cannot be used.
    """
    # Tells stores apart, in whatever form their path is written.
    local = local_path(address)
    place = address if local is None else str(local.resolve())
    digest = hashlib.sha256(place.encode()).hexdigest()[:16]
    path = private_folder(folder) / f"checkpoint-{digest}-{node}-{id}.lock"
    busy = (
        f"node {node} is at work on checkpoint {id}, in another process: wait until that has "
        f"ended; `breakglass checkpoint show {id}` says how far it is."
    )
    descriptor = _locked(path, busy)
    try:
        yield
    finally:
        # Removed under the lock: a process that opened the file earlier sees that its name is gone.
        path.unlink(missing_ok=True)
        unlock(descriptor)


def _locked(path: Path, busy: str) -> int:
    """The descriptor of a locked file that still has the name *path*."""

    def unusable(reason: str) -> str:
        return f"lock file {path} cannot be used ({reason}): check its rights, or remove it"

    while True:
        try:
            descriptor = open_lock_file(path)
        except OSError as error:
            raise StorageError(unusable(str(error.strerror))) from error
        try:
            lock(descriptor, lambda: busy, unusable)
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(descriptor)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def coordinator_of(
    client: ReadClient,
    markers: MarkerClient | None,
    store: BackupStore,
    wanted: WantedCheckpoint,
    prepare: Callable[[str], object] = lambda _: None,
) -> Coordinator:
    """The coordinator of the *wanted* checkpoints; coordinated checkpoints require *markers*.

    *prepare*: see `Coordinator`.
    """
    topics, node = KafkaTopics(client, markers, wanted), wanted.how.node
    return Coordinator(store, topics, node=node, tool_version=tool_version(), prepare=prepare)


@contextmanager
def finisher_of(
    access: ReadAccess,
    client: ReadClient,
    store: BackupStore,
    how: CopySettings,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Finisher]:
    """The finisher that decides and copies, until the end of the block; *wait*: see `Finisher`."""
    from breakglass.services.checkpoint.kafka.deciding import Decider
    from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
    from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from breakglass.services.pipeline.session import BEHIND_OTHERS, Spark

    version = tool_version()
    # A rate limit means that the copy shares the brokers with live traffic.
    niceness = 0 if how.rate is None else BEHIND_OTHERS
    with Spark(how.master, niceness=niceness) as spark:
        settings = BackupSettings(open_store(store.address), bytes_per_second=how.rate)
        run = BackupRun(client, spark, access, settings, Meter(lambda _: None))
        yield Finisher(
            store,
            Decider(
                client,
                how.drain_seconds,
                wait,
                control_topic=how.control_topic,
                read_lineages=partial(read_lineages, run),
                read_contents=partial(read_contents, run),
            ),
            KafkaSources(run, how.control_topic, version),
            how.node,
            version,
            # The rate limits each copy by itself.
            side_by_side=SIDE_BY_SIDE if how.rate is None else 1,
            wait=wait,
            alone=partial(alone, store.address, how.node, state_folder() / "locks"),
        )


def by_topic(starts: Ends) -> dict[str, Ends]:
    """The *starts* of each topic."""
    found: dict[str, Ends] = {}
    for partition in sorted(starts):
        found.setdefault(partition.topic, {})[partition] = starts[partition]
    return found


def spans_of(starts: Ends, ends: Ends) -> tuple[Ranges, int]:
    """The spans from *starts* to *ends*, by partition of one topic, and how many offsets they have.

    Empty ones are left out.
    """
    spans = {log.partition: (at, ends[log]) for log, at in starts.items() if at < ends[log]}
    return spans, sum(end - start for start, end in spans.values())


def answers_of(
    run: BackupRun, topic: str, spans: Ranges, work: RangeWork[str], doing: str
) -> Iterator[Any]:
    """What the tasks of *work* answer for the *spans* of *topic*, decoded, in any order.

    Raises:
        TimedOut: a partition has no leader.
        PipelineError: a task failed in every attempt, or Spark failed while *doing* this.
    """
    deadline = Deadline.after(patience.JOB)
    (source,) = read_sources(run.client, WantedTopics((topic,)), deadline, spans)
    ranges = [
        range_of(source.identity, partition, *spans[partition.partition.partition])
        for partition in source.partitions
    ]
    if len(ranges) < len(spans):
        raise TimedOut(f"not every partition of {topic} has a leader: try again", "no leader")
    with jvm_errors(doing):
        answers = run_tasks(run, divided(ranges, run.cores()), source.identity.cluster_id, work)
    for _, text in answers:
        yield json.loads(text)


FEW_OFFSETS = 10_000
"""Maximum number of offsets of a topic that are read without Spark."""


def read_lineages(
    run: BackupRun,
    logs: Logs,
    starts: Ends,
    ends: Ends,
    sought: Sought,
    *,
    small: int = FEW_OFFSETS,
) -> Lineages:
    """`ReadLineages` from the cluster of *run*."""
    found: Lineages = {name: [] for name in sought.groups}
    for topic, own in by_topic(starts).items():
        spans, offsets = spans_of(own, ends)
        some: Lineages | None = None
        if offsets > small:
            # The read without Spark names the offset that is gone.
            with suppress(LogBeginsLater):
                doing = f"reading lineage of topic {topic}"
                answers = answers_of(run, topic, spans, partial(trace, sought), doing)
                some = together(list(answers), sought)
        if some is None:
            some = read_here(logs, own, ends, sought)
        for group, lineages in some.items():
            found[group] += lineages
    return found


def trace(
    sought: Sought, client: ReadClient, wanted: LogRange, attempt: int, seconds: float
) -> Iterator[str]:
    """The lineage in each fetch as JSON, independent of the *attempt*: a `tasks.RangeWork`."""
    del attempt
    with closing(fetches_in(client, wanted, seconds)) as fetches:
        for fetched in fetches:
            yield json.dumps(_traced(fetched, wanted, sought))


def _traced(fetched: FetchedBatches, wanted: LogRange, sought: Sought) -> Mapping[str, Any]:
    """Rows of group, number, offset, and the cause's number, offset and index.

    Or the first refused record, because then nothing else matters.
    """
    partition, rows = wanted.partition, []
    for record in records_of(fetched, wanted.start, wanted.end):
        try:
            stamp = require_stamp(partition, record.offset, record.headers, sought.external)
            found = sought.traced(partition, record.offset, stamp)
        except Refused as error:
            return {"refused": [(sought.numbers[partition], record.offset, str(error))]}
        if found is not None:
            group, one = found
            assert one.origin is not None
            cause = (one.origin.partition, one.origin.offset, one.origin.index)
            rows.append((sought.groups.index(group), one.partition, record.offset, *cause))
    return {"rows": rows}


def together(answers: Sequence[Mapping[str, Any]], sought: Sought) -> Lineages:
    """The *answers* of all tasks, in log order.

    Raises Refused: a task refused a record; the message of the first.
    """
    refused = sorted(one for some in answers for one in some.get("refused", ()))
    if refused:
        raise Refused(refused[0][-1])
    found: Lineages = {name: [] for name in sought.groups}
    for group, number, offset, *cause in sorted(row for some in answers for row in some["rows"]):
        found[sought.groups[group]].append(Lineage(number, offset, RecordLineage(*cause)))
    return found


FEW_IN_TRANSACTION_LOGS = 100_000
"""Maximum number of offsets of a topic that are read without Spark."""


def read_contents(
    run: BackupRun,
    logs: Logs,
    starts: Ends,
    ends: Ends,
    groups: Collection[str],
    *,
    small: int = FEW_IN_TRANSACTION_LOGS,
) -> LoggedBatches:
    """`ReadContents` from the cluster of *run*."""
    found = LoggedBatches()
    for topic, own in by_topic(starts).items():
        spans, offsets = spans_of(own, ends)
        if offsets <= small:
            some = read_contents_here(logs, own, ends, groups)
            found.batches.update(some.batches)
            found.commits.update(some.commits)
            continue
        found.batches.update({partition: [] for partition in own})
        if topic == OFFSETS_TOPIC:
            found.commits.update({partition: [] for partition in own})
        doing = f"reading transactions of topic {topic}"
        answers = answers_of(run, topic, spans, partial(contents, tuple(groups)), doing)
        for number, rows, commits in sorted(one for one in answers if one[1] or one[2]):
            partition = TopicPartition(topic, number)
            found.batches[partition] += [BatchRow(*row) for row in rows]
            if topic == OFFSETS_TOPIC:
                found.commits[partition] += [CommitRow(*row) for row in commits]
    return found


def contents(
    groups: tuple[str, ...], client: ReadClient, wanted: LogRange, attempt: int, seconds: float
) -> Iterator[str]:
    """The contents of each fetch as JSON, independent of the *attempt*: a `tasks.RangeWork`."""
    del attempt
    for fetched in whole_range(client, wanted, seconds):
        rows, commits = rows_in(fetched, wanted), commits_in(fetched, wanted, groups)
        yield json.dumps([wanted.partition.partition, rows, commits])
