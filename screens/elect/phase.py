"""The steps of a guarded screen, in their order."""

from __future__ import annotations

from enum import Enum, auto


class Phase(Enum):
    """Where it stands."""

    READING = auto()
    """What is to be carried out is read; nothing can be agreed to yet."""
    REVIEW = auto()
    """Everything is shown, and the phrases are asked for."""
    REREADING = auto()
    """Agreed to: read again, nothing sent yet. Esc gives it up."""
    RUNNING = auto()
    """Armed: it ends between two batches only."""
    DONE = auto()
    """Over; what was elected is watched."""
