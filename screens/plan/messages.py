"""What the threads of the Plan screen report to it, and what its dialogs need from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from textual.message import Message

from breakglass.services.errors import BreakglassError

if TYPE_CHECKING:
    from textual.app import App

    from breakglass.screens.plan.desk import Desk
    from breakglass.screens.plan.view import PlanView
    from breakglass.services.incident.incident import Incident
    from breakglass.services.model import TopicPartition
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


class Editing(Protocol):
    """A plan that is being edited."""

    desk: Desk

    @property
    def app(self) -> App[object]:
        """Shows the dialogs."""

    @property
    def view(self) -> PlanView | None:
        """What is shown; None: there is no plan."""

    @property
    def incident(self) -> Incident | None:
        """What is known of the cluster."""

    @property
    def marked(self) -> tuple[TopicPartition, ...]:
        """What is marked, in the plan's order."""

    def say(self, text: str, *, failed: bool = False) -> None:
        """Show *text* as what was done last."""

    def renew(self) -> None:
        """Rest the plan on what was read last."""

    def rest_on_nothing(self) -> None:
        """The next plan is an older one: changes of the cluster since then are not reported."""
