"""What led to the records behind a checkpoint's floors, by the group that wrote them.

Read here, one partition after the other, or by tasks of Spark (`spark.lineages`): what both do
with a record is in `Sought`.
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
"""By the group; of each partition in the order of its log."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Of which partitions and groups, and which of their records count."""

    numbers: Mapping[TopicPartition, int]
    """The number of each partition in the checkpoint."""
    ids: Mapping[tuple[str, int], int]
    """The same by the topic's id, as causes name it."""
    groups: tuple[str, ...]
    ends: Offsets | None = None
    """No record counts that matters for no cut within them; None: every record does."""
    offsets: Mapping[str, Offsets] | None = None
    """Of each group, none of them past the ends."""

    def traced(
        self, partition: TopicPartition, offset: int, stamp: Stamp
    ) -> tuple[str, Lineage] | None:
        """The group that wrote a record and what led to it; None where it does not count.

        Raises:
            Refused: a group wrote it that is not in the checkpoint (H10).
        """
        cause = stamp.source or stamp.cause
        if cause is None:
            return None
        number = self.ids.get((cause.place.topic_id, cause.place.partition))
        if number is None:
            # Of another timeline, or of a topic that is not in the checkpoint: from outside.
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
    """Reads what led to the records of many partitions."""

    def __call__(self, logs: Logs, starts: Ends, ends: Ends, sought: Sought) -> Lineages:
        """Those with offsets in ``[start, end)``, which is not past the stable end.

        Raises:
            Refused: nobody can tell what led to one, or a group is not named (H10).
            EvidenceChanged, ClusterError, Unreachable, PipelineError: a log cannot be read.
        """


def read_here(logs: Logs, starts: Ends, ends: Ends, sought: Sought) -> Lineages:
    """`ReadLineages` by this process."""
    found: Lineages = {name: [] for name in sought.groups}
    for one in scan_all(logs, starts, ends):
        traced = sought.traced(one.partition, one.offset, one.stamp)
        if traced is not None:
            found[traced[0]].append(traced[1])
    return found
