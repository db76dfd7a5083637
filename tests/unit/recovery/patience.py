"""How long an execution waits in tests where somebody is hung."""

from __future__ import annotations

from breakglass.services.recovery.execution.batches import ExecutionLimits
from tests.kit.waiting import within


def patient() -> ExecutionLimits:
    """Short, and longer while much else runs: what answers at all is waited for."""
    return ExecutionLimits(read=within(2.0), election=within(0.5), confirmation=within(0.5))
