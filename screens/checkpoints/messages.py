"""What the threads of the Checkpoints screen report to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from breakglass.services.checkpoint.watch import SeenStore


@dataclass(eq=False)
class CheckpointsLooked(Message):
    """The stores of checkpoints have been looked at, or the reason why not."""

    stores: tuple[SeenStore, ...] | Unknown
