"""Reads lineage with Spark: `kafka.lineages.ReadLineages`, one job for each topic (H8).

Tasks read record batches from the leaders, and return only the lineage that matters for the cut: no
key and no value leaves a task. Short ranges are read in this process, because starting Spark would
take longer.
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
from breakglass.services.checkpoint.spark.range_jobs import answers_of, offsets_in, spans_of
from breakglass.services.errors import LogBeginsLater, Refused
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.converting import FetchedBatches, records_of
from breakglass.services.pipeline.batches.log_range import (
    LogRange,
    fetches_in,
)

SMALL = 10_000
"""Maximum number of offsets of a topic that are read without Spark."""


@dataclass(frozen=True, slots=True)
class SparkLineages:
    """Reads from the cluster of *run*."""

    run: BackupRun
    small: int = SMALL

    def __call__(self, logs: Logs, starts: Ends, ends: Ends, sought: Sought) -> Lineages:
        found: Lineages = {name: [] for name in sought.groups}
        for topic in sorted({start.topic for start in starts}):
            own = {one: start for one, start in starts.items() if one.topic == topic}
            for group, lineages in self._of_topic(topic, logs, own, ends, sought).items():
                found[group] += lineages
        return found

    def _of_topic(
        self, topic: str, logs: Logs, starts: Ends, ends: Ends, sought: Sought
    ) -> Lineages:
        spans = spans_of(starts, ends)
        if offsets_in(spans) > self.small:
            # The read without Spark names the offset that is gone.
            with suppress(LogBeginsLater):
                doing = f"reading lineage of topic {topic}"
                answers = answers_of(self.run, topic, spans, TraceWork(sought), doing)
                return together(list(answers), sought)
        return read_here(logs, starts, ends, sought)


@dataclass(frozen=True, slots=True)
class TraceWork:
    """Traces the records of ranges in tasks: `tasks.RangeWork`."""

    sought: Sought

    def __call__(
        self, client: ReadClient, wanted: LogRange, attempt: int, seconds: float
    ) -> Iterator[str]:
        """The lineage in each fetch as JSON, independent of the *attempt*."""
        del attempt
        with closing(fetches_in(client, wanted, seconds)) as fetches:
            for fetched in fetches:
                yield json.dumps(_traced(fetched, wanted, self.sought))


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

    Raises:
        Refused: a task refused a record; the message of the first.
    """
    refused = sorted(one for some in answers for one in some.get("refused", ()))
    if refused:
        raise Refused(refused[0][-1])
    found: Lineages = {name: [] for name in sought.groups}
    for group, number, offset, *cause in sorted(row for some in answers for row in some["rows"]):
        found[sought.groups[group]].append(Lineage(number, offset, RecordLineage(*cause)))
    return found
