"""What an application is to a participant: records in, records out, and the state in between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from breakglass.services.model import TopicPartition

Headers = tuple[tuple[str, bytes | None], ...]


class Guarantee(StrEnum):
    """How often a record is processed, seen from outside."""

    EXACTLY_ONCE = "exactly-once"
    """Outputs and offsets in one transaction."""
    AT_LEAST_ONCE = "at-least-once"
    """Outputs before offsets; whoever reads them passes over what it has seen."""


@dataclass(frozen=True, slots=True)
class Input:
    """A record that was read."""

    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A record to be written; the participant adds its own headers."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    """None: by the key, as the producer does it."""
    headers: Headers = field(default=())


class Application(Protocol):
    """Processes the records of partitions, each with a state of its own.

    The same records in the same order have to lead to the same outputs: after a failure, or a
    restore, they are processed again.
    """

    def begin(self, partition: TopicPartition, state: bytes | None) -> None:
        """The partition is this member's from now on; *state* is what `save` gave, if anything.

        What was processed behind it comes by `replay` next.
        """

    def replay(self, record: Input) -> None:
        """Take over what a record did to the state; its outputs are there already."""

    def process(self, record: Input) -> Iterable[Output]:
        """Process a record, once each."""

    def save(self, partition: TopicPartition) -> bytes | None:
        """The state of the partition for a checkpoint; None: it is replayed from the log."""

    def end(self, partition: TopicPartition) -> None:
        """The partition is another member's from now on."""
