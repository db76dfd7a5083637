"""What guarded elections report to their page, besides what every guarded act does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.screens.guard.messages import ActFrozen, GuardMessage

if TYPE_CHECKING:
    from breakglass.screens.elect.rows import ElectionRow
    from breakglass.services.recovery.execution.target import PartitionOutcome
    from breakglass.services.recovery.guarded.aftermath import Aftermath
    from breakglass.services.recovery.guarded.check_again import CheckedAgain


@dataclass(eq=False)
class SubjectFrozen(ActFrozen):
    """What is to be elected, with its price, and the *rows* that show it."""

    rows: tuple[ElectionRow, ...] = ()


@dataclass(eq=False)
class LadderMoved(GuardMessage):
    """Elected partitions stand on other rungs than before."""

    outcomes: tuple[PartitionOutcome, ...]


@dataclass(eq=False)
class AftermathFound(GuardMessage):
    """What the elections have left behind."""

    aftermath: Aftermath


@dataclass(eq=False)
class UnknownsAnswered(GuardMessage):
    """What the cluster says of steps whose outcome was unknown."""

    found: CheckedAgain
    settled: tuple[PartitionOutcome, ...]
    """Of those that were unknown: what came of them."""
