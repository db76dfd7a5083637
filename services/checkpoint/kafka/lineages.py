"""The lineage of records after a checkpoint's floors, by the group that wrote them.

`read_here` reads one partition at a time; `spark.lineages` reads in Spark tasks. Both use
`Sought` to decide which records count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs
from breakglass.services.checkpoint.kafka.scanning import scan_all
from breakglass.services.checkpoint.kafka.stamps import Stamp
from breakglass.services.checkpoint.protocol.lineage import Lineage, Offsets, RecordLineage, needed
from breakglass.services.errors import Refused
from breakglass.services.model import TopicPartition

Lineages: TypeAlias = dict[str, list[Lineage]]
"""By group; for each partition in log order."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Which partitions, groups and records matter for a decision."""

    numbers: Mapping[TopicPartition, int]
    """The number of each partition in the checkpoint."""
    ids: Mapping[tuple[str, int], int]
    """The same number by topic id and partition, as origins name them."""
    groups: tuple[str, ...]
    ends: Offsets | None = None
    """Skip records that matter for no cut within these ends; None: every record counts."""
    offsets: Mapping[str, Offsets] | None = None
    """The offsets of each group, none after the ends."""
    external: frozenset[str] = frozenset()
    """Topics whose records come from outside, with or without headers."""

    def traced(
        self, partition: TopicPartition, offset: int, stamp: Stamp
    ) -> tuple[str, Lineage] | None:
        """The group that wrote a record, and its lineage; None if the record does not count.

        Raises:
            Refused: the checkpoint does not include the group that wrote it (H10).
        """
        cause = stamp.source or stamp.cause
        if cause is None:
            return None
        number = self.ids.get((cause.place.topic_id, cause.place.partition))
        if number is None:
            # An input of another timeline, or of a topic outside the checkpoint, counts as
            # external.
            return None
        if cause.group not in self.groups:
            raise Refused(
                f"unverifiable: group {cause.group} writes into {partition}, and is not in the "
                "checkpoint: name it with --group"
            )
        origin = RecordLineage(number, cause.place.offset, cause.index)
        found = Lineage(self.numbers[partition], offset, origin)
        return (cause.group, found) if self._counts(cause.group, found) else None

    def _counts(self, group: str, one: Lineage) -> bool:
        if self.ends is None or self.offsets is None:
            return True
        return needed(one, self.ends, self.offsets.get(group, {}))


class ReadLineages(Protocol):
    """Reads the lineage of records of many partitions."""

    def __call__(self, logs: Logs, starts: Ends, ends: Ends, sought: Sought) -> Lineages:
        """The lineage of offsets in ``[start, end)``, where *end* is at most the stable end.

        Raises:
            Refused: the lineage of a record is unknown, or a group is not named (H10).
            EvidenceChanged, ClusterError, Unreachable, PipelineError: a log cannot be read.
        """


def read_here(logs: Logs, starts: Ends, ends: Ends, sought: Sought) -> Lineages:
    """`ReadLineages` in this process."""
    found: Lineages = {name: [] for name in sought.groups}
    for record in scan_all(logs, starts, ends, sought.external):
        traced = sought.traced(record.partition, record.offset, record.stamp)
        if traced is not None:
            found[traced[0]].append(traced[1])
    return found
