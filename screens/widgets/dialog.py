"""What dialogs have in common: a box, a title, and their keys in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from breakglass.services.words.inert import bounded, inert
from breakglass.themes.roles import Role, role_style

T = TypeVar("T")

TEXT_LENGTH = 600


class Dialog(ModalScreen[T | None], Generic[T]):
    """Esc leaves without doing anything. Subclasses give `body`."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 76; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    Dialog LineTable { height: auto; max-height: 14; min-height: 2; }
    Dialog Static { height: auto; width: 1fr; }
    Dialog Field { height: 1; border: none; padding: 0; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self.styled(self._title, Role.HEADING), markup=False)
            yield from self.body()
            yield Static(id="said", markup=False)
            yield Static(id="keys", markup=False)

    def body(self) -> Iterator[Widget]:
        """The widgets between title and keys."""
        yield from ()

    def on_mount(self) -> None:
        self.query_one("#keys", Static).update(self._keys())

    def say(self, text: str, role: Role | None = Role.FAILED) -> None:
        """Show *text* above the keys."""
        self.query_one("#said", Static).update(self.styled(bounded(text, TEXT_LENGTH), role))

    def styled(self, text: str, role: Role | None = None) -> Text:
        """*text*, inert, in the style of *role*."""
        return Text(inert(text), role_style(self.app, role) if role else "")

    def action_leave(self) -> None:
        self.dismiss(None)

    def _keys(self) -> Text:
        line = Text()
        told: set[str] = set()
        for binding in (*self.BINDINGS, *Dialog.BINDINGS):
            if isinstance(binding, Binding) and binding.action not in told:
                told.add(binding.action)
                key = Binding(binding.key.partition(",")[0], binding.action)
                line.append(self.app.get_key_display(key), role_style(self.app, Role.KEY))
                line.append(f" {binding.description}  ")
        return line
