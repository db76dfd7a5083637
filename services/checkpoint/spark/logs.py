"""Reads lineages (H8) and transactions of long logs with Spark, one job for each topic.

Tasks read record batches from the leaders, and return only what matters for the cut: no key and no
value of a record leaves a task. Short ranges are read in this process, because starting Spark would
take longer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.logs import (
    Ends,
    Lineages,
    Logs,
    Sought,
    read_here,
    require_stamp,
)
from breakglass.services.checkpoint.kafka.transaction_logs import (
    CommitRow,
    LoggedBatches,
    commits_in,
    read_contents_here,
    rows_in,
    whole_range,
)
from breakglass.services.checkpoint.protocol.lineage import Lineage, RecordLineage
from breakglass.services.checkpoint.protocol.transactions import BatchRow
from breakglass.services.errors import LogBeginsLater, Refused, TimedOut
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
