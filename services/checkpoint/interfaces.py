"""The coordinator's interfaces: the topics of checkpoints, and operations on checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.flows import GroupFlow
from breakglass.services.checkpoint.protocol.participant import Acknowledge
from breakglass.services.checkpoint.store.documents import (
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
    TransactionFloors,
)
from breakglass.services.checkpoint.store.stored import StoredCheckpoint


@dataclass(frozen=True, slots=True)
class Scope:
    """The partitions that a checkpoint covers."""

    level: Level
    partitions: tuple[NumberedPartition, ...]
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    floors: Mapping[int, int] = field(default_factory=dict)
    """Log ends by the partition's number, read before the checkpoint begins."""
    cluster_id: str | None = None
    incarnation: str | None = None
    external: tuple[str, ...] = ()
    """Topics that are written from outside alone."""
    transactions: TransactionFloors | None = None
    flows: tuple[GroupFlow, ...] = ()


class Topics(Protocol):
    """The partitions that checkpoints cover, as the cluster has them."""

    def scope(self) -> Scope:
        """What a checkpoint that is taken now covers."""

    def latest_id(self) -> int:
        """The greatest checkpoint id that their records carry; 0 if no record carries an id."""

    def start(self, id: int, partitions: Sequence[NumberedPartition]) -> Mapping[int, Acknowledge]:
        """Start a checkpoint in *partitions*, durably; the answers received, by partition number.

        Asking twice is harmless. The position in an answer is that of the checkpoint's marker: no
        record after the marker is in the checkpoint.
        """

    def offsets(self, partitions: Sequence[NumberedPartition]) -> Mapping[str, Mapping[int, int]]:
        """Group offsets that belong to the positions of `start`, by number; empty: read later."""

    def transactions(self) -> TransactionFloors | None:
        """Where transactions are read from, by `start`; None: from the take's floors on."""

    def passed(self, take: TakeDocument, positions: Mapping[int, int]) -> int:
        """The greatest id that records before *positions* carry, if greater than the take's.

        A partition that reached a greater id first has never seen the take's own id.
        """

    def epochs(
        self, partitions: Sequence[NumberedPartition], positions: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Leader epochs that wrote the offsets before *positions*, by number, where known."""


class Checkpoints(Protocol):
    """The operations on checkpoints that the HTTP API, the commands and the screen use."""

    def take(self, id: int | None = None, request: str | None = None) -> int | NotHigher:
        """Start a checkpoint, by default with the next id; returns its id once it has started."""

    def status(self, id: int) -> StoredCheckpoint | None:
        """A checkpoint; None if there is no checkpoint of that id."""

    def all(self) -> tuple[StoredCheckpoint, ...]:
        """All checkpoints, the newest first."""

    def delete(self, id: int) -> None:
        """Delete a checkpoint; a deleted or unknown checkpoint changes nothing."""
