"""Where a participant is in one of its input partitions, and what it has committed of that (H3)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from breakglass.services.checkpoint.kafka.control import RestoredTopic
from breakglass.services.checkpoint.kafka.stamps import RecordAddress, RecordOrigin
from breakglass.services.checkpoint.participant.duplicate_filter import KnownRecords
from breakglass.services.model import TopicPartition

METADATA = "breakglass sn="
_METADATA = re.compile(rf"{METADATA}([0-9]{{1,19}})", re.ASCII)


@dataclass(slots=True)
class InputPosition:
    """One input partition."""

    partition: TopicPartition
    topic_id: str
    next_offset: int
    sn: int
    """The checkpoint that it has come to: what every output of it carries."""
    restored: RestoredTopic | None = None
    known: KnownRecords = field(default_factory=KnownRecords)

    @property
    def metadata(self) -> str:
        """What is committed beside the offset: lost, cuts would have orphans."""
        return f"{METADATA}{self.sn}"

    def causes(self, offset: int, index: int, group: str) -> tuple[RecordOrigin, RecordOrigin]:
        """What an output of the record at *offset* says led to it, and where that lies now.

        They differ for what a restore has put elsewhere and is processed once more: its outputs
        have to be told as the ones that they were.
        """
        here = RecordAddress(self.topic_id, self.partition.partition, offset)
        before = self.restored and self.restored.original(self.partition.partition, offset)
        return RecordOrigin(before or here, index, group), RecordOrigin(here, index, group)


def sn_of(metadata: str | None) -> int:
    """The id that was committed beside an offset; 0 where there was none."""
    # librdkafka puts the NUL of its string behind what it commits within a transaction.
    match = _METADATA.fullmatch((metadata or "").rstrip("\0"))
    return int(match[1]) if match else 0
