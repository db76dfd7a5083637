"""Reads lineage by Spark: `kafka.lineages.ReadLineages`, a job for each topic (H8).

Its tasks read record batches from the leaders, and answer with what counts for the cut: no key and
no value leaves them. What is written while ends are read is most often little, and read here
before Spark would have begun.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from breakglass.services.checkpoint.kafka.lineages import Lineages, Sought, read_here
from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs
from breakglass.services.checkpoint.kafka.scanning import require_stamp
from breakglass.services.checkpoint.protocol.lineage import Lineage, RecordLineage
from breakglass.services.errors import LogBeginsLater, Refused, TimedOut
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.converting import FetchedBatches, records_of
from breakglass.services.pipeline.batches.log_range import (
    LogRange,
    Ranges,
    divided,
    fetches_in,
    range_of,
)
from breakglass.services.pipeline.batches.tasks import run_tasks
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import WantedTopics, read_sources

ASK_SECONDS = 60.0
SMALL = 10_000
"""Offsets of a topic that are read without Spark."""


@dataclass(frozen=True, slots=True)
class SparkLineages:
    """Of the cluster that *run* reads."""

    run: BackupRun
    small: int = SMALL

    def __call__(self, logs: Logs, starts: Ends, ends: Ends, sought: Sought) -> Lineages:
        found: Lineages = {name: [] for name in sought.groups}
        for topic in sorted({one.topic for one in starts}):
            own = {one: start for one, start in starts.items() if one.topic == topic}
            for group, lineages in self._of_topic(topic, logs, own, ends, sought).items():
                found[group] += lineages
        return found

    def _of_topic(
        self, topic: str, logs: Logs, starts: Ends, ends: Ends, sought: Sought
    ) -> Lineages:
        spans = _spans(starts, ends)
        if sum(end - start for start, end in spans.values()) > self.small:
            # What is gone is named by reading without Spark.
            with suppress(LogBeginsLater):
                return self._job(topic, spans, sought)
        return read_here(logs, starts, ends, sought)

    def _job(self, topic: str, spans: Ranges, sought: Sought) -> Lineages:
        deadline = Deadline.after(ASK_SECONDS)
        (source,) = read_sources(self.run.client, WantedTopics((topic,)), deadline, spans)
        ranges = [
            range_of(source.identity, one, *spans[one.partition.partition])
            for one in source.partitions
        ]
        if len(ranges) < len(spans):
            raise TimedOut(f"not every partition of {topic} has a leader: try again", "no leader")
        with jvm_errors(f"reading lineage of topic {topic}"):
            cluster_id, work = source.identity.cluster_id, TraceWork(sought)
            answers = run_tasks(self.run, divided(ranges, self.run.cores()), cluster_id, work)
        return together([json.loads(text) for _, text in answers], sought)


def _spans(starts: Ends, ends: Ends) -> Ranges:
    return {one.partition: (start, ends[one]) for one, start in starts.items() if start < ends[one]}


@dataclass(frozen=True, slots=True)
class TraceWork:
    """Traces the records of ranges in tasks: `tasks.RangeWork`."""

    sought: Sought

    def __call__(
        self, client: ReadClient, wanted: LogRange, attempt: int, patience: float
    ) -> Iterator[str]:
        """What counts of the records of each fetch, as JSON, whatever the *attempt*."""
        del attempt
        with closing(fetches_in(client, wanted, patience)) as fetches:
            for fetched in fetches:
                yield json.dumps(_traced(fetched, wanted, self.sought))


def _traced(fetched: FetchedBatches, wanted: LogRange, sought: Sought) -> Mapping[str, Any]:
    """Rows of group, number, offset, and the cause's number, offset and index.

    Or the first record that is refused: nothing else matters then.
    """
    partition, rows = wanted.partition, []
    for record in records_of(fetched, wanted.start, wanted.end):
        try:
            stamp = require_stamp(partition, record.offset, record.headers)
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
    """The *answers* of all tasks, in the order of the logs.

    Raises:
        Refused: a record was; the first one says why.
    """
    refused = sorted(one for some in answers for one in some.get("refused", ()))
    if refused:
        raise Refused(refused[0][-1])
    found: Lineages = {name: [] for name in sought.groups}
    for group, number, offset, *cause in sorted(row for some in answers for row in some["rows"]):
        found[sought.groups[group]].append(Lineage(number, offset, RecordLineage(*cause)))
    return found
