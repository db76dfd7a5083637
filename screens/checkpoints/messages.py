"""What the Checkpoints screen and its guarded steps are told by their threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from services.model import Unknown

if TYPE_CHECKING:
    from services.checkpoint.guarded.act import Event, Frozen, TargetResult
    from services.checkpoint.watch import SeenStore


@dataclass(eq=False)
class CheckpointsLooked(Message):
    """The stores of checkpoints have been looked at, or the reason why not."""

    stores: tuple[SeenStore, ...] | Unknown


@dataclass(eq=False)
class ActFrozen(Message):
    """What would be done; with *changed*, what was agreed to is no longer so."""

    frozen: Frozen
    changed: tuple[str, ...] = ()


@dataclass(eq=False)
class ActTold(Message):
    """The act has come to *event*."""

    event: Event


@dataclass(eq=False)
class ActEnded(Message):
    """The act has ended; None: it failed before anything was done, or was given up."""

    result: TargetResult | None
    told: str


@dataclass(eq=False)
class FollowEnded(Message):
    """What came after it has ended, too."""

    told: str
    good: bool
