"""Copies ranges of topics in Spark tasks: Spark schedules them, but its JVM sees no record.

The function of a task contains its secrets and keys, because Spark keeps functions in memory but
writes the data of `parallelize` to a file. Therefore only the ranges are data.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, StorageError, WrongCluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.pipeline.batches.log_range import LogRange, chunks_in
from breakglass.services.pipeline.batches.reader import CHUNK_BYTES
from breakglass.services.pipeline.part_writer import PartTarget, PartTask
from breakglass.services.pipeline.spark_job import answers, packed, unpacked
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.part import SegmentPart

if TYPE_CHECKING:
    from breakglass.services.pipeline.backup_context import BackupRun

SIP_BYTES = 1024 * 1024
"""Size of a fetch at a limited rate: a fetch of megabytes delays the other clients of the
broker."""


@dataclass(frozen=True, slots=True)
class CopyWork:
    """Copies ranges in tasks: `tasks.RangeWork`."""

    targets: Mapping[str, PartTarget]

    def __call__(
        self, client: ReadClient, wanted: LogRange, attempt: int, seconds: float
    ) -> Iterator[str]:
        target = self.targets[wanted.partition.topic]
        for part in copy_range(client, wanted, target, attempt, seconds):
            yield part.to_json()


def copy_range(
    client: ReadClient,
    wanted: LogRange,
    target: PartTarget,
    attempt: int,
    seconds: float = patience.JOB,
) -> Iterator[SegmentPart]:
    """Write the committed records of *wanted*; yield each part once it is complete and durable.

    The *client* knows the brokers' addresses.

    Raises:
        StorageError: nothing more can be written.
        ClusterError, Unreachable: as `BatchReader.fetches`.
    """
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

Answer = tuple[str, str] | BreakglassError
"""The topic and the answer for it, or an error that a retry does not change."""


class RangeWork(Protocol):
    """The work of a task on one range; it is sent to the task, so it can be pickled."""

    def __call__(
        self, client: ReadClient, wanted: LogRange, attempt: int, seconds: float
    ) -> Iterator[str]:
        """Yield the answers as JSON; no other attempt of a task has the number *attempt*."""
        ...


@dataclass(frozen=True, slots=True)
class TaskJob:
    """The data that each task of a job has in addition to its ranges."""

    connection: bytes = field(repr=False)
    """The bytes of `packed`."""
    cluster_id: str | None
    """The cluster of the ranges; None if unknown."""
    work: RangeWork
    seconds: float = patience.JOB
    """Seconds that a task retries a partition that cannot be read."""

    def __call__(self, ranges: Iterable[LogRange]) -> Iterator[Answer]:
        try:
            with ReadAccess(unpacked(self.connection)).reading() as client:
                self._require_cluster(client)
                yield from self._answers(client, ranges)
        except BreakglassError as error:
            if error.retriable or isinstance(error, StorageError):
                raise
            yield error

    def _answers(self, client: ReadClient, ranges: Iterable[LogRange]) -> Iterator[Answer]:
        # The number of this attempt; no other attempt of any task has it.
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = int(context.taskAttemptId()) if context else 0
        for wanted in ranges:
            for text in self.work(client, wanted, attempt, self.seconds):
                yield wanted.partition.topic, text

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
    work: RangeWork,
    seconds: float = patience.JOB,
) -> list[tuple[str, str]]:
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
    work = CopyWork(targets)
    for topic, text in run_tasks(run, ranges, cluster_id, work, seconds):
        found.setdefault(topic, []).append(SegmentPart.from_json(text))
    for parts in found.values():
        parts.sort(key=lambda part: (part.partition, part.first_offset))
    return found
