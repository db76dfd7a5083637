"""How long and how often an execution tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecutionLimits:
    """Bounds of every wait of an execution. Seconds."""

    read: float = 10.0
    election: float = 30.0
    """One request; past it the outcome is unknown."""
    confirmation: float = 10.0
    ladder: float = 0.0
    """How long to wait for partitions to become readable; 0 looks once."""
    retries: int = 3
    """KIP-1275's --recovery-election-attempts."""
