"""The last line of every screen: its keys, as many as fit, and always how to see all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text
from textual.binding import Binding
from textual.screen import Screen
from textual.widget import Widget

from themes.roles import Role, role_style

HELP = "question_mark"
URGENT = "acknowledge"
"""The action that comes first while it can be done: there is an alarm."""


class KeyBar(Widget):
    """Made from the bindings of the screen it stands on, so it cannot tell anything else."""

    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._line = Text()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_updated)

    def on_resize(self) -> None:
        self._bindings_updated(self.screen)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.size.width:
            self._bindings_updated(self.screen)

    def render(self) -> Text:
        return self._line

    def _bindings_updated(self, _: Screen[Any]) -> None:
        """Told with each change of the focus, which seldom changes what is to be seen."""
        line = self._made() if self.size.width else self._line
        if line != self._line:
            self._line = line
            self.refresh()

    def _made(self) -> Text:
        ending = Text(" ? help", role_style(self.app, Role.KEY))
        room = self.size.width - ending.cell_len
        line = Text(no_wrap=True, end="")
        for binding, enabled in self._shown():
            part = self._part(binding, enabled)
            if line.cell_len + part.cell_len > room:
                break
            line.append_text(part)
        line.append(" " * (room - line.cell_len))
        return line.append_text(ending)

    def _part(self, binding: Binding, enabled: bool) -> Text:
        key = role_style(self.app, Role.KEY if enabled else Role.MUTED)
        words = None if enabled else role_style(self.app, Role.MUTED)
        name = self.app.get_key_display(binding)
        return Text.assemble(" ", (name, key or ""), " ", (binding.description, words or ""))

    def _shown(self) -> Iterator[tuple[Binding, bool]]:
        """The bindings that ask to be shown, each action once."""
        told: set[str] = set()
        active_bindings = self.screen.active_bindings.values()
        for active in sorted(active_bindings, key=lambda one: one.binding.action != URGENT):
            binding = active.binding
            if binding.show and binding.key != HELP and binding.action not in told:
                told.add(binding.action)
                yield binding, active.enabled
