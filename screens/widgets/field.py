"""A line to type into that does what the keys say in the order they come.

Textual runs a key's binding after the characters behind it, where they come in one burst as over
a slow link: `ctrl+u` would empty what was typed after it, and Enter would give that too.
"""

from __future__ import annotations

from textual.events import Key
from textual.widgets import Input


class Field(Input):
    """An `Input`: Esc and Ctrl+U empty it, Enter submits; Esc in an empty one is the screen's."""

    async def on_key(self, event: Key) -> None:
        if event.key == "enter":
            _taken(event)
            await self.action_submit()
        elif event.key == "ctrl+u" or (event.key == "escape" and self.value):
            _taken(event)
            self.value = ""


def _taken(event: Key) -> None:
    event.stop()
    event.prevent_default()
