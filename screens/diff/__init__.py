"""Two replicas of a partition side by side, around the offset where they diverge."""

from breakglass.screens.diff.screen import DiffScreen

__all__ = ["DiffScreen"]
