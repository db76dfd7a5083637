"""Boxes over the screen: texts, and dialogs that ask for a line, a choice, or whether to go on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.console import RenderableType
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.services.words.inert import bounded, inert
from breakglass.themes.roles import Role, role_style


class Overlay(ModalScreen[None]):
    """Subclasses say what stands in the box, and which keys close it."""

    DEFAULT_CSS = """
    Overlay { align: center middle; }
    Overlay > VerticalScroll {
        width: 76; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; padding: 0 1; background: $surface;
        scrollbar-size-vertical: 1;
    }
    """

    def content(self) -> RenderableType:
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self.content(), markup=False)

    def show_again(self) -> None:
        self.query_one(Static).update(self.content())


T = TypeVar("T")
R = TypeVar("R")

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
        yield from ()

    def on_mount(self) -> None:
        line = Text()
        told: set[str] = set()
        for binding in (*self.BINDINGS, *Dialog.BINDINGS):
            if isinstance(binding, Binding) and binding.action not in told:
                told.add(binding.action)
                key = Binding(binding.key.partition(",")[0], binding.action)
                line.append(self.app.get_key_display(key), role_style(self.app, Role.KEY))
                line.append(f" {binding.description}  ")
        self.query_one("#keys", Static).update(line)

    def say(self, text: str, role: Role | None = Role.FAILED) -> None:
        self.query_one("#said", Static).update(self.styled(bounded(text, TEXT_LENGTH), role))

    def styled(self, text: str, role: Role | None = None) -> Text:
        return Text(inert(text), role_style(self.app, role))

    def action_leave(self) -> None:
        self.dismiss(None)


class Field(Input):
    """An `Input`: Esc and Ctrl+U empty it, Enter submits; Esc in an empty one is the screen's.

    Textual runs a key's binding after the characters behind it, where they come in one burst as
    over a slow link: `ctrl+u` would empty what was typed after it, and Enter would give that too.
    """

    async def on_key(self, event: Key) -> None:
        if event.key not in ("enter", "ctrl+u") and not (event.key == "escape" and self.value):
            return
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            await self.action_submit()
        else:
            self.value = ""


LONGEST = 4_096
"""Characters that can be typed: what a path may have."""


class Prompt(Dialog[str]):
    """Ends with the text, or None. Esc empties the field first, and leaves when it is empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Clear, then cancel"),
        Binding("enter", "give", "OK"),
    ]

    def __init__(
        self,
        title: str,
        *,
        about: str = "",
        value: str = "",
        fault: Callable[[str], str] = lambda _: "",
        longest: int = LONGEST,
    ) -> None:
        super().__init__(title)
        self._about, self._value, self._fault, self._longest = about, value, fault, longest

    def body(self) -> Iterator[Widget]:
        if self._about:
            yield Static(self.styled(self._about), markup=False)
        yield Field(self._value, max_length=self._longest, compact=True)

    @on(Field.Submitted)
    def _given(self, message: Field.Submitted) -> None:
        fault = self._fault(message.value)
        if fault:
            self.say(fault)
        else:
            self.dismiss(message.value)

    async def action_give(self) -> None:
        await self.query_one(Field).action_submit()


class ChoiceDialog(Dialog[T], Generic[T, R]):
    """A table of *rows*, of which one is chosen: it ends with what `choose` makes of that."""

    EMPTY: ClassVar[str] = ""

    def __init__(
        self,
        title: str,
        columns: Sequence[LineColumn[R]],
        rows: Sequence[R],
        key: Callable[[R], Hashable],
    ) -> None:
        super().__init__(title)
        self._columns, self._rows, self._key = columns, rows, key
        self.at: Hashable = None
        """The key of the row that the cursor is on first."""
        self.marked: set[Hashable] | None = None
        """The keys of rows that are marked; None: rows are never marked."""

    def body(self) -> Iterator[Widget]:
        yield LineTable(self._columns, self._key, empty=self.EMPTY)

    def on_mount(self) -> None:
        self.table.set_rows(self._rows, marked=self.marked)
        self.table.move_to(self.at)
        self.table.focus()
        if self.table.current is not None:
            self.explain(self.table.current)

    @property
    def table(self) -> LineTable[R]:
        return self.query_one(LineTable)

    def explain(self, row: R) -> None:
        """Say more of *row*, which the cursor is on."""

    def choose(self, row: R) -> None:
        raise NotImplementedError

    @on(LineTable.Moved)
    def _moved(self, message: LineTable.Moved) -> None:
        if message.row is not None:
            self.explain(message.row)

    @on(LineTable.Chosen)
    def _chosen(self, message: LineTable.Chosen) -> None:
        self.choose(message.row)

    def action_choose(self) -> None:
        self.table.action_choose()


class Question(Dialog[bool]):
    """Asks whether to continue where something would be lost. Enter keeps it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "leave", "Keep it"),
        Binding("ctrl+d", "go_on", "Discard it"),
    ]

    def __init__(self, title: str, about: str) -> None:
        super().__init__(title)
        self._about = about

    def body(self) -> Iterator[Widget]:
        yield Static(self.styled(self._about), markup=False)

    def action_leave(self) -> None:
        self.dismiss(False)

    def action_go_on(self) -> None:
        self.dismiss(True)
