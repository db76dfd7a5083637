"""A Spark job that reads ranges of one topic's logs, for lineages and for transactions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.log_ends import Ends
from breakglass.services.errors import TimedOut
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.log_range import Ranges, divided, range_of
from breakglass.services.pipeline.batches.tasks import RangeWork, run_tasks
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import WantedTopics, read_sources


def spans_of(starts: Ends, ends: Ends) -> Ranges:
    """The spans from *starts* to *ends*, by partition of one topic; empty ones are left out."""
    return {log.partition: (start, ends[log]) for log, start in starts.items() if start < ends[log]}


def offsets_in(spans: Ranges) -> int:
    """How many offsets the *spans* have."""
    return sum(end - start for start, end in spans.values())


def answers_of(
    run: BackupRun, topic: str, spans: Ranges, work: RangeWork, doing: str
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
