"""What a rescue would save, worked out before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.spans import AtRisk


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be saved."""

    at_risk: tuple[AtRisk, ...]
    """Partitions of which electing the recommended replica cuts something off."""
    offsets: int
    """To be copied at most."""
    brokers: tuple[int, ...]
    """They are read."""
    without: int
    """Partitions that lose nothing, or have nobody to be elected."""
    folder: Path

    @property
    def partitions(self) -> int:
        return len(self.at_risk)
