"""The screen of checkpoints: level, state and progress of each, down to its partitions."""

from breakglass.screens.checkpoints.screen import CheckpointsScreen

__all__ = ["CheckpointsScreen"]
