"""What the Checkpoints screen is told by its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from services.checkpoint.watch import SeenStore


@dataclass(eq=False)
class CheckpointsLooked(Message):
    """The stores of checkpoints have been looked at."""

    stores: tuple[SeenStore, ...]
