"""What the plan screen is told by its threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from breakglass.services.errors import BreakglassError

if TYPE_CHECKING:
    from breakglass.screens.plan.view import PlanView
    from breakglass.services.recovery.plan.read_back import Problem


@dataclass(eq=False)
class DraftChanged(Message):
    """The plan that is being edited is now as *view* shows it; *said* is what was done."""

    view: PlanView
    said: str


@dataclass(eq=False)
class DraftRefused(Message):
    """Something could not be done to the plan: it stays as it is."""

    error: BreakglassError


@dataclass(eq=False)
class FormReady(Message):
    """The plan is written out to be edited as *text*; *line* is where to begin."""

    text: str
    line: int = 1


@dataclass(eq=False)
class FormFaulty(Message):
    """The edited *text* is no plan, for *problems*."""

    text: str
    problems: Sequence[Problem]
