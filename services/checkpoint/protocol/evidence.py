"""What logs and group coordinators show of who takes part in a checkpoint: values, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

_STRICT: Mapping[str, Any] = {"extra": "forbid"}


class WriterKind(StrEnum):
    """Who wrote a record, as its batch shows it."""

    PARTICIPANT = "participant"
    """Its headers say what led to it (H2), whatever its producer is."""
    TRANSACTIONAL = "transactional"
    """A transaction's batch, without these headers."""
    IDEMPOTENT = "idempotent"
    """A batch with a producer id, outside a transaction."""
    UNKNOWN = "unknown"
    """A batch without a producer id."""


class Committing(StrEnum):
    """How a group commits its offsets."""

    PARTICIPANT = "participant"
    """With a checkpoint's id in the metadata, or noted in the control topic."""
    TRANSACTIONAL = "transactional"
    """In transactions alone, as the last part of ``__consumer_offsets`` shows."""
    PLAIN = "plain"
    """Outside transactions, at least at times."""
    UNKNOWN = "unknown"
    """No commit was seen, or ``__consumer_offsets`` cannot be read."""


@dataclass(frozen=True, slots=True)
class TopicEvidence:
    """The last part of a topic's logs."""

    __pydantic_config__: ClassVar = _STRICT

    topic: str
    partitions: int
    records: int
    """Committed records that were looked at, without markers; 0: the topic may be empty."""
    writers: tuple[WriterKind, ...] = ()
    stamped: bool = True
    """Every record says what led to it."""
    transactional: bool = True
    """Every record was written in a transaction."""
    unstamped: str = ""
    """``orders-0 at offset 12``: a record that does not say what led to it; empty: none."""
    compacted: bool = False
    """Records may be compacted away before they are copied."""


@dataclass(frozen=True, slots=True)
class GroupEvidence:
    """A group on the topics: with offsets there, or with members that are assigned there."""

    __pydantic_config__: ClassVar = _STRICT

    name: str
    kind: str
    """Kafka's type: ``consumer``, ``classic``, ``share``, ``streams``; ``?`` if not known."""
    state: str
    """Kafka's state: ``Stable``, ``Empty``, ...; ``?`` if not known."""
    reads: tuple[str, ...]
    """Of the checkpoint's topics."""
    commits: Committing = Committing.UNKNOWN
    writes: tuple[str, ...] = ()
    """The topics in which transactions that commit its offsets have records, as far as seen."""

    @property
    def shared(self) -> bool:
        """Whether it is a share group, which has no offset that could be saved."""
        return self.kind == "share"


@dataclass(frozen=True, slots=True)
class CheckpointEvidence:
    """Everything that a promise depends on, at one moment."""

    __pydantic_config__: ClassVar = _STRICT

    topics: tuple[TopicEvidence, ...]
    groups: tuple[GroupEvidence, ...]
