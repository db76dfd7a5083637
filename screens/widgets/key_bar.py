"""The last line of every screen: its keys, as many as fit, and always how to see all of them.

For some seconds it says instead what became of a key where that changes nothing else that is
shown: words in a corner would cover what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.text import Text
from textual.binding import ActiveBinding, Binding
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from breakglass.services.words.inert import inert
from breakglass.themes.roles import Role, role_style

HELP = "question_mark"
URGENT = "acknowledge"
"""The action that comes first while it can be done: there is an alarm."""
REFRESH = "ctrl+r"
REFRESH_WIDTH = 60
"""Characters of a bar that always says how to read everything again."""
SAID_SECONDS = 8.0


class KeyBar(Widget):
    """Made from the bindings of the screen it stands on, so it always agrees with them."""

    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._line = Text()
        self._said: Sequence[str] = ()
        self._silence: Timer | None = None
        """When the keys come back."""

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

    def say(self, sentences: Sequence[str]) -> None:
        """Say as many *sentences* as fit in place of the keys, for some seconds."""
        if self._silence is not None:
            self._silence.stop()
        self._said = sentences
        self._silence = self.set_timer(SAID_SECONDS, self._fall_silent)
        self._bindings_updated(self.screen)

    def _fall_silent(self) -> None:
        self._said = ()
        self._bindings_updated(self.screen)

    def _bindings_updated(self, _: Screen[Any]) -> None:
        """Called at each change of the focus, which seldom changes what is shown."""
        line = self._line
        if self.size.width:
            line = self._sentences() if self._said else self._keys()
        if line != self._line:
            self._line = line
            self.refresh()

    def _sentences(self) -> Text:
        """The first sentence, and those after it that fit whole."""
        told = self._said[0]
        for sentence in self._said[1:]:
            if len(told) + len(sentence) + 2 > self.size.width:
                break
            told = f"{told} {sentence}"
        line = Text(f" {inert(told)}", role_style(self.app, Role.MARKED), no_wrap=True)
        line.truncate(self.size.width, overflow="ellipsis")
        return line

    def _keys(self) -> Text:
        ending = Text()
        active = self.screen.active_bindings.get(REFRESH)
        if active is not None and active.enabled and self.size.width >= REFRESH_WIDTH:
            name = self.app.get_key_display(active.binding)
            ending.append(f" {name} refresh", role_style(self.app, Role.KEY))
        name = self.app.get_key_display(Binding(HELP, "help", key_display="?"))
        ending = ending.append(f" {name} help", role_style(self.app, Role.KEY))
        room = self.size.width - ending.cell_len
        line = Text(no_wrap=True, end="")
        for binding, enabled in self._shown():
            key = role_style(self.app, Role.KEY if enabled else Role.MUTED)
            words = None if enabled else role_style(self.app, Role.MUTED)
            name = self.app.get_key_display(binding)
            part = Text.assemble(" ", (name, key or ""), " ", (binding.description, words or ""))
            if line.cell_len + part.cell_len > room:
                break
            line.append_text(part)
        line.append(" " * (room - line.cell_len))
        return line.append_text(ending)

    def _shown(self) -> Iterator[tuple[Binding, bool]]:
        told: set[str] = set()
        active_bindings = self.screen.active_bindings.values()
        offers: Callable[[ActiveBinding], bool] = getattr(self.app, "offers_key", lambda _: True)
        for active in sorted(active_bindings, key=lambda active: active.binding.action != URGENT):
            binding = active.binding
            shown = binding.show and binding.key not in (HELP, REFRESH) and offers(active)
            if shown and binding.action not in told:
                told.add(binding.action)
                yield binding, active.enabled
