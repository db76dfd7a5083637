"""Reads ranges of topics in Spark tasks: Spark schedules them, but its JVM sees no record.

A range of one partition's log is divided between tasks, and read in batches. The function of a task
contains its secrets and keys, because Spark keeps functions in memory but writes the data of
`parallelize` to a file. Therefore only the ranges are data.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, StorageError, WrongCluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.batches.reader import (
    CHUNK_BYTES,
    BatchReader,
    FetchedBatches,
    chunks_of,
)
from breakglass.services.pipeline.committed_log import NO_EPOCH
from breakglass.services.pipeline.part_writer import PartTarget, PartTask, RecordChunk
from breakglass.services.pipeline.source import PartitionSource
from breakglass.services.pipeline.spark_job import answers, packed, unpacked
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.part import SegmentPart

if TYPE_CHECKING:
    from breakglass.services.pipeline.backup_context import BackupRun

Ranges = Mapping[int, tuple[int, int]]
"""Offsets ``[start, end)`` by partition; never empty."""
OFFSETS_A_TASK = 200_000
"""A range is divided between cores if each gets at least this many offsets."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets ``[start, end)`` of one partition up to its stable end at most; never empty."""

    partition: TopicPartition
    topic_id: UUID
    leader: int
    start: int
    end: int
    leader_epoch: int = NO_EPOCH
    """The epoch of the leader; without it a former leader answers too."""

    @property
    def offsets(self) -> int:
        return self.end - self.start


def range_of(identity: TopicIdentity, source: PartitionSource, start: int, end: int) -> LogRange:
    """Offsets ``[start, end)`` of the partition *source* of a topic."""
    epoch = NO_EPOCH if source.leader_epoch is None else source.leader_epoch
    topic_id = identity.topic_id or UUID(int=0)
    return LogRange(source.partition, topic_id, source.leader, start, end, epoch)


def divided(ranges: list[LogRange], cores: int) -> list[LogRange]:
    """The *ranges* in about *cores* pieces, if they are long enough."""
    total = sum(wanted.offsets for wanted in ranges)
    tasks = min(cores, total // OFFSETS_A_TASK)
    if tasks <= len(ranges):
        return list(ranges)
    return [piece for wanted in ranges for piece in _pieces(wanted, total // tasks)]


def _pieces(whole: LogRange, size: int) -> Iterator[LogRange]:
    count = max(1, round(whole.offsets / size))
    bounds = [whole.start + whole.offsets * number // count for number in range(count + 1)]
    for start, end in pairwise(bounds):
        yield replace(whole, start=start, end=end)


def chunks_in(
    client: ReadClient,
    wanted: LogRange,
    seconds: float = patience.JOB,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[RecordChunk, None, None]:
    """The committed records of *wanted*, encoded; offsets rise.

    Raises ClusterError, Unreachable: as `BatchReader.fetches`.
    """
    with closing(fetches_in(client, wanted, seconds, chunk_bytes)) as fetches:
        for fetched in fetches:
            yield from chunks_of(fetched, wanted.start, wanted.end)


def fetches_in(
    client: ReadClient,
    wanted: LogRange,
    seconds: float = patience.JOB,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[FetchedBatches, None, None]:
    """The batches that contain *wanted*. Raises: as `BatchReader.fetches`."""
    reader = BatchReader(
        client,
        wanted.partition,
        wanted.topic_id,
        wanted.leader,
        wanted.leader_epoch,
        chunk_bytes,
        seconds,
    )
    return reader.fetches(wanted.start, wanted.end)


SIP_BYTES = 1024 * 1024
"""Size of a fetch at a limited rate: a fetch of megabytes delays the other clients of the
broker."""


def copy_range(
    targets: Mapping[str, PartTarget],
    client: ReadClient,
    wanted: LogRange,
    attempt: int,
    seconds: float,
) -> Iterator[SegmentPart]:
    """Write the committed records of *wanted*; yield each part once it is complete and durable.

    The *client* knows the brokers' addresses, *targets* where the parts of each topic go.

    Raises:
        StorageError: nothing more can be written.
        ClusterError, Unreachable: as `BatchReader.fetches`.
    """
    target = targets[wanted.partition.topic]
    chunk_bytes = CHUNK_BYTES if target.bytes_per_second is None else SIP_BYTES
    with (
        storage_errors(target.folder.where()),
        closing(chunks_in(client, wanted, seconds, chunk_bytes)) as chunks,
        PartTask(target, attempt) as task,
    ):
        for chunk in chunks:
            yield from task.take(chunk)
        yield from task.finish()


TASKS_A_CORE = 8
"""Tasks for each core of this machine: more tasks would mean more logins to brokers."""

T = TypeVar("T")
Answer = tuple[str, T] | BreakglassError
"""The topic and the answer for it, or an error that a retry does not change."""
RangeWork = Callable[[ReadClient, LogRange, int, float], Iterator[T]]
"""The work of a task on one range, which yields answers. It is sent to the task, so it can be
pickled, like its answers. No other attempt of a task has the same number; the last argument is how
many seconds a partition that cannot be read is tried again."""


@dataclass(frozen=True, slots=True)
class TaskJob(Generic[T]):
    """The data that each task of a job has in addition to its ranges."""

    connection: bytes = field(repr=False)
    """The bytes of `packed`."""
    cluster_id: str | None
    """The cluster of the ranges; None if unknown."""
    work: RangeWork[T]
    seconds: float = patience.JOB
    """Seconds that a task retries a partition that cannot be read."""

    def __call__(self, ranges: Iterable[LogRange]) -> Iterator[Answer[T]]:
        from pyspark import TaskContext

        try:
            with ReadAccess(unpacked(self.connection)).reading() as client:
                self._require_cluster(client)
                # The number of this attempt; no other attempt of any task has it.
                context = TaskContext.get()
                attempt = int(context.taskAttemptId()) if context else 0
                for wanted in ranges:
                    for answer in self.work(client, wanted, attempt, self.seconds):
                        yield wanted.partition.topic, answer
        except BreakglassError as error:
            if error.retriable or isinstance(error, StorageError):
                raise
            yield error

    def _require_cluster(self, client: ReadClient) -> None:
        """Check that the addresses lead from here to the cluster of the ranges.

        Raises:
            WrongCluster: they lead to another cluster.
            Unreachable: no broker answers.
        """
        description = until(
            Deadline.after(self.seconds), lambda: client.describe(Deadline.after(self.seconds))
        )
        if self.cluster_id not in (None, description.cluster_id):
            raise WrongCluster(
                f"from {socket.gethostname()}, where a task of Spark runs, the brokers' addresses "
                f"lead to cluster {description.cluster_id}, and {self.cluster_id} is meant: "
                "check names and tunnels there, then run this again"
            )


def run_tasks(
    run: BackupRun,
    ranges: Sequence[LogRange],
    cluster_id: str | None,
    work: RangeWork[T],
    seconds: float = patience.JOB,
) -> list[tuple[str, T]]:
    """Do *work* on each of *ranges*; return the answers, each with its topic.

    Answers of failed attempts, and of speculative copies of a task, are dropped.

    Raises:
        ClusterError, WrongCluster, AuthenticationFailed: a task returned this error.
        StorageError, PipelineError: a task failed in every attempt, or Spark failed.
    """
    job = TaskJob(packed(run.access.settings_now), cluster_id, work, seconds)
    context = run.context()
    tasks = task_count(len(ranges), str(context.master), context.defaultParallelism)
    topics = ", ".join(sorted({wanted.partition.topic for wanted in ranges}))
    found = []
    for answer in answers(context, ranges, tasks, job, f"reading topic {topics}"):
        if isinstance(answer, BreakglassError):
            raise answer
        found.append(answer)
    return found


def task_count(ranges: int, master: str, cores: int) -> int:
    """The number of tasks for *ranges* ranges.

    Each range of a divided partition has its own task, because the attempt of the task names its
    parts. On a Spark cluster each range has its own task: the number of cores is unknown before the
    workers register.
    """
    return min(ranges, TASKS_A_CORE * cores) if master.startswith("local") else ranges


def copy_by_tasks(
    run: BackupRun,
    ranges: Sequence[LogRange],
    cluster_id: str | None,
    targets: Mapping[str, PartTarget],
    seconds: float = patience.JOB,
) -> dict[str, list[SegmentPart]]:
    """Copy *ranges* to the *targets* of their topics; return the parts by topic, in order.

    Raises: as `run_tasks`.
    """
    found: dict[str, list[SegmentPart]] = {}
    for topic, part in run_tasks(run, ranges, cluster_id, partial(copy_range, targets), seconds):
        found.setdefault(topic, []).append(part)
    for parts in found.values():
        parts.sort(key=lambda part: (part.partition, part.first_offset))
    return found
