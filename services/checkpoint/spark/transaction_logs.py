"""Reads transactions with Spark: `kafka.transaction_logs.ReadContents`, one job for each topic.

Tasks read record batches from the leaders and return their headers and the commits of the groups:
no key and no value of a record leaves a task. Short ranges are read in this process, because
starting Spark would take longer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs
from breakglass.services.checkpoint.kafka.transaction_logs import (
    CommitRow,
    LoggedBatches,
    commits_in,
    read_contents_here,
    rows_in,
    whole_range,
)
from breakglass.services.checkpoint.protocol.transaction_names import BatchRow
from breakglass.services.checkpoint.spark.range_jobs import answers_of, offsets_in, spans_of
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.log_range import LogRange, Ranges

SMALL = 100_000
"""Maximum number of offsets of a topic that are read without Spark."""


@dataclass(frozen=True, slots=True)
class SparkContents:
    """Reads from the cluster of *run*."""

    run: BackupRun
    small: int = SMALL

    def __call__(
        self, logs: Logs, starts: Ends, ends: Ends, groups: Collection[str]
    ) -> LoggedBatches:
        found = LoggedBatches()
        for topic in sorted({partition.topic for partition in starts}):
            own = {log: start for log, start in starts.items() if log.topic == topic}
            some = self._of_topic(topic, logs, own, ends, groups)
            found.batches.update(some.batches)
            found.commits.update(some.commits)
        return found

    def _of_topic(
        self, topic: str, logs: Logs, starts: Ends, ends: Ends, groups: Collection[str]
    ) -> LoggedBatches:
        spans = spans_of(starts, ends)
        if offsets_in(spans) <= self.small:
            return read_contents_here(logs, starts, ends, groups)
        found = LoggedBatches({partition: [] for partition in starts})
        if topic == OFFSETS_TOPIC:
            found.commits.update({partition: [] for partition in starts})
        for number, rows, commits in sorted(self._read(topic, spans, tuple(groups))):
            partition = TopicPartition(topic, number)
            found.batches[partition] += [BatchRow(*row) for row in rows]
            if topic == OFFSETS_TOPIC:
                found.commits[partition] += [CommitRow(*row) for row in commits]
        return found

    def _read(
        self, topic: str, spans: Ranges, groups: tuple[str, ...]
    ) -> Iterator[tuple[int, list[Any], list[Any]]]:
        """Partition, rows and commits of each fetch that has any, in any order."""
        doing = f"reading transactions of topic {topic}"
        for number, rows, commits in answers_of(
            self.run, topic, spans, ContentsWork(groups), doing
        ):
            if rows or commits:
                yield number, rows, commits


@dataclass(frozen=True, slots=True)
class ContentsWork:
    """Reads the contents of ranges in tasks: `tasks.RangeWork`."""

    groups: tuple[str, ...]

    def __call__(
        self, client: ReadClient, wanted: LogRange, attempt: int, seconds: float
    ) -> Iterator[str]:
        """The contents of each fetch as JSON, independent of the *attempt*."""
        del attempt
        for fetched in whole_range(client, wanted, seconds):
            rows = rows_in(fetched, wanted)
            commits = commits_in(fetched, wanted, self.groups)
            yield json.dumps([wanted.partition.partition, rows, commits])
