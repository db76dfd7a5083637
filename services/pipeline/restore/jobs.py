"""Partitions of a restore as Spark's tasks: each is produced by one, and tried again by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from services.errors import (
    AuthenticationFailed,
    BreakglassError,
    CannotProduce,
    NotAuthorized,
    TopicRecreated,
    UsageError,
)
from services.kafka.read_client import ReadClient
from services.pipeline.batches.carried import packed, unpacked
from services.pipeline.restore.producing import Producing
from services.pipeline.restore.progress import ClusterProgress
from services.pipeline.restore.record_client import RecordClient
from services.pipeline.restore.task import (
    ForeignRecords,
    Hopeless,
    PartitionRestored,
    PartitionTask,
)
from services.pipeline.spark_job import answers
from services.session import Power, ReadAccess

if TYPE_CHECKING:
    from services.pipeline.backup_context import BackupRun

IN_VAIN = (
    AuthenticationFailed,
    CannotProduce,
    Hopeless,
    NotAuthorized,
    TopicRecreated,
    UsageError,
)
"""What another attempt meets again."""


@dataclass(frozen=True, slots=True)
class RestoreJob:
    """What each task of a job knows beside its partitions."""

    connection: bytes = field(repr=False)
    """As `packed` makes it."""
    cluster_id: str

    def __call__(self, tasks: Iterable[PartitionTask]) -> Iterator[str]:
        """What one task does."""
        power = Power(ReadAccess(unpacked(self.connection)))
        for task in tasks:
            yield produced(power, self.cluster_id, task).to_json()


def produced(power: Power, cluster_id: str, task: PartitionTask) -> PartitionRestored:
    """Restore one partition, from where an earlier attempt came.

    Raises:
        BreakglassError: another attempt may be luckier.
    """
    try:
        with (
            power.records(cluster_id) as sender,
            RecordClient(client := ReadClient(sender), task) as records,
        ):
            return Producing(task, records, ClusterProgress(client, task)).run()
    except IN_VAIN as error:
        foreign = isinstance(error, ForeignRecords)
        return PartitionRestored(task.partition, error=str(error), foreign=foreign)


def produce_by_tasks(
    run: BackupRun, cluster_id: str, tasks: Sequence[PartitionTask], doing: str
) -> list[PartitionRestored]:
    """Restore *tasks*, one for each task of Spark.

    Raises:
        PipelineError: a task has failed again and again, or Spark has.
    """
    job = RestoreJob(packed(run.access.settings), cluster_id)
    told = answers(run.context(), tasks, len(tasks), job, doing)
    return [PartitionRestored.from_json(text) for text in told]


def failures(restored: Iterable[PartitionRestored]) -> BreakglassError | None:
    """What kept partitions from being restored; that somebody else writes there comes first."""
    failed = sorted((one for one in restored if one.error), key=lambda one: not one.foreign)
    if not failed:
        return None
    return (ForeignRecords if failed[0].foreign else Hopeless)(failed[0].error)
