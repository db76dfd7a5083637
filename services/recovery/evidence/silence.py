"""Why a broker's replicas could not be read, in words that stand beside its name."""

from __future__ import annotations

from breakglass.services.errors import BreakglassError, Unreachable


def why_silent(broker: int, error: Exception) -> str:
    """``b3 does not answer (connection refused)``; any other error keeps its text."""
    if isinstance(error, Unreachable):
        return f"b{broker} does not answer ({error.reason})"
    if isinstance(error, BreakglassError):
        return f"b{broker}: {error}"
    return f"b{broker} answers unreadably ({type(error).__name__}: {error})"
