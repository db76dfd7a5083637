"""Reads lineage by Spark: `kafka.lineages.ReadLineages`, a job for each topic (H8).

Its tasks are given offsets and headers of ours alone, and answer with what counts for the cut:
no key and no value leaves the JVM. What is written while ends are read is most often little, and
read here before Spark would have begun.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from services.checkpoint.kafka.lineages import Lineages, Sought, read_here
from services.checkpoint.kafka.log_ends import Ends, Logs
from services.checkpoint.kafka.scanning import require_stamp
from services.checkpoint.kafka.stamps import MARKER, ORIGIN, SN, SOURCE
from services.checkpoint.protocol.lineage import Lineage, Origin
from services.errors import Refused
from services.model import TopicPartition
from services.pipeline.answers import answer
from services.pipeline.reading import DataLost, Ranges, TimestampTooWide, TopicReader
from services.pipeline.running import Run
from services.pipeline.session import jvm_errors

TRACED = "traced"
OURS = ", ".join(f"'{name}'" for name in (SN, ORIGIN, SOURCE, MARKER))
SMALL = 10_000
"""Offsets of a topic that are read without Spark."""
COLUMNS = ("partition", "offset", f"filter(headers, one -> one.key in ({OURS})) as headers")


@dataclass(frozen=True, slots=True)
class SparkLineages:
    """Of the cluster that *run* reads."""

    run: Run
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
        ranges = _ranges(starts, ends)
        if sum(end - start for start, end in ranges.values()) > self.small:
            # What Spark cannot hold is read without it; what is gone is named by that.
            with suppress(TimestampTooWide, DataLost):
                return self._job(topic, ranges, sought)
        return read_here(logs, starts, ends, sought)

    def _job(self, topic: str, ranges: Ranges, sought: Sought) -> Lineages:
        reader = TopicReader(self.run.session(), self.run.jvm_connection(), topic)
        worker = partial(traced_by_task, topic=topic, sought=sought)
        with jvm_errors(f"reading lineage of topic {topic}"):
            answers = reader.select(ranges, COLUMNS, worker, TRACED)
        return together([json.loads(one) for one in answers], sought)


def _ranges(starts: Ends, ends: Ends) -> Ranges:
    return {one.partition: (start, ends[one]) for one, start in starts.items() if start < ends[one]}


def traced_by_task(batches: Iterator[Any], topic: str, sought: Sought) -> Iterator[Any]:
    """What counts of the records of a task: an answer for each batch, both of Arrow."""
    for batch in batches:
        if len(batch):
            yield answer(TRACED, json.dumps(_traced(batch, topic, sought)))


def _traced(batch: Any, topic: str, sought: Sought) -> Mapping[str, Any]:
    """Rows of group, number, offset, and the cause's number, offset and index.

    Or, where a record is refused, the first one of each partition: nothing else matters then.
    """
    rows: list[tuple[int, ...]] = []
    refused: dict[int, tuple[int, int, str]] = {}
    columns = (batch.column(one).to_pylist() for one in ("partition", "offset", "headers"))
    for number, offset, headers in zip(*columns, strict=True):
        partition = TopicPartition(topic, number)
        pairs = [(one["key"], one["value"]) for one in headers or ()]
        try:
            found = sought.traced(partition, offset, require_stamp(partition, offset, pairs))
        except Refused as error:
            refused.setdefault(number, (sought.numbers[partition], offset, str(error)))
            continue
        if found is not None:
            group, one = found
            assert one.origin is not None
            cause = (one.origin.partition, one.origin.offset, one.origin.index)
            rows.append((sought.groups.index(group), one.partition, offset, *cause))
    return {"refused": list(refused.values())} if refused else {"rows": rows}


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
        found[sought.groups[group]].append(Lineage(number, offset, Origin(*cause)))
    return found
