"""Errors of a thread, as its screen tells them: ours say it themselves, others are named."""

from __future__ import annotations

from breakglass.services.errors import BreakglassError, ClusterError
from breakglass.services.extras import in_vain

REPORT = "please report it"


def in_words(error: Exception, failed: str) -> str:
    """What *error* says; one that nobody expected says that *failed*, and how."""
    if (ours := _known(error)) is not None:
        return str(ours)
    return f"{failed} ({type(error).__name__}: {error})"


def as_ours(error: Exception, failed: str, then: str = REPORT) -> BreakglassError:
    """*error*, or for one that nobody expected that *failed*; *then* is what the operator does."""
    if (ours := _known(error)) is not None:
        return ours
    return ClusterError(f"{in_words(error, failed)}: {then}")


def of_step(error: Exception, changed: str) -> BreakglassError:
    """*error* of a guarded step; *changed* is a word for what the step changes."""
    look = f"look at the journal and at the {changed}, and {REPORT}"
    return as_ours(error, "this step ended unexpectedly", look)


def _known(error: Exception) -> BreakglassError | None:
    return error if isinstance(error, BreakglassError) else in_vain(error)
