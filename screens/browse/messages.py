"""What the Browse screen is told by its threads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from breakglass.screens.diff.task import Task


@dataclass(eq=False)
class RecordsExported(Message):
    """The marked records were written to *path*."""

    task: Task
    path: Path
    count: int


@dataclass(eq=False)
class BranchRead(Message):
    """A branch of the tree of backups was looked up."""

    key: tuple[str, ...]
    found: object
    """Unknown where it could not be read."""
