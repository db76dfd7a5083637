"""How long an execution waits in tests where a broker is hung."""

from __future__ import annotations

from breakglass.services.recovery.execution.batches import ExecutionLimits


def patient() -> ExecutionLimits:
    """Short enough for a broker that stays silent to be given up within a test."""
    return ExecutionLimits(read=10.0, election=3.0, confirmation=2.0, underway=2.0)
