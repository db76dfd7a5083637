"""Approving a plan: its digest large enough to be read out loud, and who agrees to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from rich.align import Align
from rich.console import Group as Lines
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.widgets.dialog import Dialog
from breakglass.screens.widgets.field import Field
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style


class Agreement(NamedTuple):
    """What was given."""

    name: str
    heard: str
    """The digest as they read it out; empty: they looked at this screen."""


class ApproveDialog(Dialog[Agreement]):
    """Ends with an `Agreement`, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_on", "Go on"),
        Binding("tab", "app.focus_next", "Other field"),
        Binding("escape", "leave", "Empty it, then cancel"),
    ]

    def __init__(
        self, spoken: str, totals: str, approved: Sequence[str], void: Sequence[str], name: str
    ) -> None:
        super().__init__("Approve this plan: read the digest out loud")
        self._spoken, self._totals, self._name = spoken, totals, name
        self._approved, self._void = approved, void

    def body(self) -> Iterator[Widget]:
        yield Static(self._large(), markup=False)
        yield Static(self.styled(f"It {self._totals}."), markup=False)
        yield Static(self.styled(self._who()), markup=False)
        yield Static(self.styled("Who approves?", Role.HEADING), markup=False)
        yield Field(self._name, id="name", max_length=100, compact=True)
        yield Static(
            self.styled(
                "The digest as they read it from their own copy (empty: they sit here)",
                Role.HEADING,
            ),
            markup=False,
        )
        yield Field(id="heard", max_length=80, placeholder="xxxxx-xxxxx-xxxxx", compact=True)

    def on_mount(self) -> None:
        self.query_one("#name", Field).focus()

    @on(Field.Submitted, "#name")
    def _named(self) -> None:
        self.query_one("#heard", Field).focus()

    @on(Field.Submitted, "#heard")
    def _heard(self, message: Field.Submitted) -> None:
        name = self.query_one("#name", Field).value.strip()
        if not name:
            self.say("Say who approves.")
            self.query_one("#name", Field).focus()
            return
        self.dismiss(Agreement(name, message.value.strip()))

    async def action_go_on(self) -> None:
        if isinstance(self.focused, Field):
            await self.focused.action_submit()

    def _large(self) -> Align:
        """Each group on a line of its own, its letters apart."""
        style = role_style(self.app, Role.HEADING)
        groups = [Text("  ".join(group.upper()), style) for group in self._spoken.split("-")]
        return Align.center(Lines(Text(""), *groups, Text("")))

    def _who(self) -> str:
        given = bounded(", ".join(self._approved), 200) or "nobody yet"
        void = f" Void, for the plan was edited since: {', '.join(self._void)}." * bool(self._void)
        return f"Approved by: {given}.{bounded(void, 200)}"
