"""The coordinator's two seams: the topics that checkpoints are of, and whoever asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.participant import Acknowledge
from breakglass.services.checkpoint.store.documents import (
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
)
from breakglass.services.checkpoint.store.stored import StoredCheckpoint


@dataclass(frozen=True, slots=True)
class Scope:
    """What a checkpoint is of."""

    level: Level
    partitions: tuple[NumberedPartition, ...]
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    floors: Mapping[int, int] = field(default_factory=dict)
    """Ends of the logs by the partition's number, read before anything of it begins."""
    cluster_id: str | None = None
    incarnation: str | None = None


class Topics(Protocol):
    """The partitions that checkpoints are of, as the cluster has them."""

    def scope(self) -> Scope:
        """What a checkpoint is of that is taken now."""

    def latest_id(self) -> int:
        """The greatest checkpoint id that their records carry; 0 where none does."""

    def start(self, id: int, partitions: Sequence[NumberedPartition]) -> Mapping[int, Acknowledge]:
        """Start a checkpoint in *partitions*, durably; the answers that came, by number.

        Asking twice is harmless. The position in an answer is that of the checkpoint's marker:
        no record behind it is in the checkpoint.
        """

    def passed(self, take: TakeDocument, positions: Mapping[int, int]) -> int:
        """The greatest id that records before *positions* carry, where that is a greater one.

        A partition that came to such a one first has never seen the take's own.
        """

    def epochs(
        self, partitions: Sequence[NumberedPartition], positions: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Leader epochs that wrote the offsets before *positions*, by number, where known."""


class Checkpoints(Protocol):
    """What can be done about checkpoints: the seam of the HTTP API, the commands and the screen."""

    def take(self, id: int | None = None, request: str | None = None) -> int | NotHigher:
        """Start a checkpoint, by default with the next id; returns its id once it has started."""

    def status(self, id: int) -> StoredCheckpoint | None:
        """A checkpoint; None where there is none."""

    def all(self) -> tuple[StoredCheckpoint, ...]:
        """The newest first."""

    def delete(self, id: int) -> None:
        """Delete one; again, or one that there never was, changes nothing."""
