"""The two guarded screens: an election, and a journal taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from breakglass.screens.context import Context
from breakglass.screens.elect import wording
from breakglass.screens.elect.page import GuardedPage
from breakglass.screens.elect.phase import Phase
from breakglass.screens.elect.proposals import PickedPartitions, PlannedElections
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.elect import Elect
from breakglass.services.recovery.acts.resume import ResumeJournal
from breakglass.themes.roles import Role

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan


class ElectScreen(GuardedPage):
    """The elections of picked partitions, each its recommended replica, or of a plan."""

    TITLE = "Elect"
    ABOUT = (
        "What is elected and what it loses; type the phrase to go on. Everything is read again "
        "before anything is sent, and what is cut off is saved first."
    )

    def __init__(
        self,
        context: Context,
        partitions: Sequence[TopicPartition] = (),
        plan: Plan | None = None,
    ) -> None:
        find = PickedPartitions(context.known, tuple(partitions))
        super().__init__(context, Elect(find if plan is None else PlannedElections(plan)))


class ResumeScreen(GuardedPage):
    """What an unfinished journal left: carried on, or its orders put back."""

    TITLE = "Resume"
    ABOUT = (
        "Where a journal stopped and what is left of it. What was elected is confirmed and its "
        "order put back, the rest is elected at the price that was agreed to."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+y", "undo", "Finish/undo", tooltip="Put orders back in place of electing"),
    ]

    def __init__(self, context: Context, journal: Path) -> None:
        super().__init__(context, ResumeJournal(journal, asks_again=True))

    def action_undo(self) -> None:
        assert isinstance(self.act, ResumeJournal)
        self.state.undo = not self.state.undo
        self.act = replace(self.act, undo=self.state.undo)
        self._freeze()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "undo":
            return self.state.phase is Phase.REVIEW
        return super().check_action(action, parameters)

    def _review(self, note: str = "", role: Role | None = None) -> None:
        if self._frozen is not None:
            view = self._frozen.plan.survey.view
            self.state.intro = wording.journal_told(view.path, view.who, view.result)
        super()._review(note, role)
