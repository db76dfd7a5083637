"""What those who ask about a plan, or keep it in files, need of the screen that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from textual.app import App

    from breakglass.screens.plan.desk import Desk
    from breakglass.screens.plan.view import PlanView
    from breakglass.services.incident.incident import Incident
    from breakglass.services.model import TopicPartition


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
        """The plan that comes next is of another day: no change of the cluster is told of it."""
