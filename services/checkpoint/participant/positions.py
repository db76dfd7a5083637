"""A participant's position in one input partition, and the outputs that already exist (H3, H7).

The position is committed with the offsets. An at-least-once writer may write an output twice;
`KnownRecords` detects the duplicate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from breakglass.services.checkpoint.kafka.control import (
    LastOf,
    RecordAddress,
    RecordOrigin,
    RestoredTopic,
    Stamp,
)
from breakglass.services.checkpoint.protocol.participant import CheckpointState
from breakglass.services.model import TopicPartition

Writer = tuple[str, int, str]
"""Topic id and partition of the input, and the group that reads the input."""


class KnownRecords:
    """The records of one partition, as far as it was read.

    A writer processes its input in order and writes to a partition in that order, without gaps. So
    a record that is not after the writer's last record is a duplicate.
    """

    def __init__(self, lasts: Iterable[LastOf] = ()) -> None:
        """Begin with the *lasts* that were recorded before."""
        self._last: dict[Writer, tuple[int, int]] = {
            (last.topic_id, last.partition, last.group): (last.offset, last.index) for last in lasts
        }

    @property
    def lasts(self) -> tuple[LastOf, ...]:
        """The last record of each writer, to be recorded with a saved state."""
        return tuple(LastOf(*writer, *at) for writer, at in self._last.items())

    def take(self, stamp: Stamp) -> bool:
        """Add a record; returns whether it occurs for the first time."""
        cause = stamp.cause
        if cause is None:
            return True
        writer = cause.place.topic_id, cause.place.partition, cause.group
        at = cause.place.offset, cause.index
        last = self._last.get(writer)
        if last is not None and at <= last:
            return False
        self._last[writer] = at
        return True


METADATA = "breakglass sn="
_METADATA = re.compile(rf"{METADATA}([0-9]{{1,19}})", re.ASCII)


@dataclass(slots=True)
class InputPosition:
    """One input partition."""

    partition: TopicPartition
    topic_id: str
    next_offset: int
    checkpoint: CheckpointState
    """The checkpoint that the partition has reached: every output carries its id."""
    restored: RestoredTopic | None = None
    known: KnownRecords = field(default_factory=KnownRecords)

    @property
    def sn(self) -> int:
        """The id that every output carries."""
        return self.checkpoint.id

    @property
    def metadata(self) -> str:
        """The metadata of a committed offset: without it, cuts would contain orphans."""
        return f"{METADATA}{self.sn}"

    def causes(self, offset: int, index: int, group: str) -> tuple[RecordOrigin, RecordOrigin]:
        """The cause that an output of the record at *offset* names, and its current address.

        The two differ for a record that a restore has moved and that is processed again: its
        outputs must be recognized as the earlier outputs.
        """
        here = RecordAddress(self.topic_id, self.partition.partition, offset)
        before = self.restored and self.restored.original(self.partition.partition, offset)
        return RecordOrigin(before or here, index, group), RecordOrigin(here, index, group)


def sn_of(metadata: str | None) -> int:
    """The id that was committed with an offset; 0 if none was committed."""
    # In a transaction, librdkafka appends the NUL of its C string to the metadata.
    match = _METADATA.fullmatch((metadata or "").rstrip("\0"))
    return int(match[1]) if match else 0
