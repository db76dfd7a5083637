"""The interface of an application to a participant: records in, records out, and state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from breakglass.services.model import TopicPartition

Headers = tuple[tuple[str, bytes | None], ...]


class Guarantee(StrEnum):
    """How often a record takes effect, as an outside observer sees it."""

    EXACTLY_ONCE = "exactly-once"
    """Outputs and offsets in one transaction."""
    AT_LEAST_ONCE = "at-least-once"
    """Outputs before offsets; readers skip duplicates."""


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
    """None: the producer partitions by the key."""
    headers: Headers = field(default=())


class Application(Protocol):
    """Processes the records of partitions, each partition with its own state.

    The same records in the same order must produce the same outputs: after a failure or a restore
    the records are processed again.
    """

    def begin(self, partition: TopicPartition, state: bytes | None) -> None:
        """The partition is assigned to this member; *state* is the last result of `save`, if any.

        `replay` then passes the records that were processed after that state.
        """

    def replay(self, record: Input) -> None:
        """Apply a processed record to the state; its outputs already exist."""

    def process(self, record: Input) -> Iterable[Output]:
        """Process a record; called once for each record."""

    def save(self, partition: TopicPartition) -> bytes | None:
        """The state of the partition for a checkpoint; None: the state is replayed from the log."""

    def end(self, partition: TopicPartition) -> None:
        """The partition is revoked from this member."""
