"""What those who read two sources side by side tell the screen that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from breakglass.services.errors import BreakglassError

if TYPE_CHECKING:
    from breakglass.screens.diff.task import Task
    from breakglass.services.divergence.align import RecordPair
    from breakglass.services.divergence.hunks import HunkTotals
    from breakglass.services.divergence.minimap import Minimap
    from breakglass.services.divergence.source import Extent
    from breakglass.services.divergence.window import Window


@dataclass(eq=False)
class ComparisonRead(Message):
    """A stretch of two replicas was read."""

    task: Task
    window: Window
    goal: int | None
    """The offset that was gone to; None: the cursor stays on its record."""


@dataclass(eq=False)
class ComparisonSearched(Message):
    """A search among the records of two replicas has ended without a find."""

    task: Task
    forward: bool


class ComparisonProgress(Message):
    """How far a search or a count has come."""

    def __init__(self, task: Task, offset: int) -> None:
        super().__init__()
        self.task = task
        self.offset = offset

    def can_replace(self, message: Message) -> bool:
        """A newer word on the same task makes an older one needless."""
        return isinstance(message, ComparisonProgress) and message.task is self.task


@dataclass(eq=False)
class ComparisonCounted(Message):
    """All differences of two replicas from an offset on were counted."""

    task: Task
    totals: HunkTotals


@dataclass(eq=False)
class ComparisonFailed(Message):
    """Two replicas cannot be compared now."""

    task: Task
    error: BreakglassError


@dataclass(eq=False)
class SourcesOpened(Message):
    """What is to be looked at was opened: it has the offsets of *extent*."""

    task: Task
    extent: Extent
    notes: Sequence[str] = ()
    """What is to be known of it: bytes that are no part of a backup."""


class MapGrown(Message):
    """More is known of where two sources differ."""

    def __init__(self, task: Task, cells: Minimap) -> None:
        super().__init__()
        self.task = task
        self.cells = cells

    def can_replace(self, message: Message) -> bool:
        """A newer map of the same task makes an older one needless."""
        return isinstance(message, MapGrown) and message.task is self.task


@dataclass(eq=False)
class TaskEnded(Message):
    """The thread of *task* is done, whatever it told."""

    task: Task


@dataclass(eq=False)
class RecordRead(Message):
    """One record was read from both replicas, as far as it is shown."""

    task: Task
    pair: RecordPair | None
    """None: neither has it any more."""
    decoded: RecordPair | None = None
    """With keys and values as a schema registry tells them; None: they are as they are."""
    note: str = ""
    """By which schemas, or why not."""
