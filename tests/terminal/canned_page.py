"""Pages for a terminal: rows, a change that takes its time, a noisy library; a phrase to type."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.messages import MutationBegan, MutationEnded
from breakglass.screens.page import ConsentPage, Page
from breakglass.screens.widgets.consent import ConsentPanel
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.themes.roles import Words

NOISE = b"%3|1700000000.123|FAIL|rdkafka#producer-1| connection refused\r\n"


PHRASE = "orders-3 lose 50"


class CannedConsent(ConsentPage):
    TITLE = "Canned consent"

    def body(self) -> Iterator[Widget]:
        yield Static("nothing yet", id="state", markup=False)
        yield ConsentPanel()

    def on_mount(self) -> None:
        self.ask(PHRASE)

    def agreed(self) -> None:
        self.query_one("#state", Static).update("agreed")

    def refuse(self, told: str) -> None:
        self.query_one("#state", Static).update(told)


class CannedPage(Page):
    TITLE = "Canned"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "change", "Change"),
        Binding("n", "noise", "Noise"),
        Binding("b", "fail", "Fail"),
        Binding("h", "hang", "Hang"),
        Binding("t", "type", "Type"),
    ]

    def body(self) -> Iterator[Widget]:
        yield LineTable[str]([LineColumn("Row", Words)], str)
        yield Static("idle", id="state", markup=False)

    def on_mount(self) -> None:
        table = self.query_one(LineTable)
        table.set_rows([f"row-{number}" for number in range(50)])
        table.focus()

    def on_line_table_moved(self, message: LineTable.Moved) -> None:
        self._say(f"at {message.row}")

    def action_noise(self) -> None:
        """Write to file descriptor 2 as a C library does."""
        ctypes.CDLL(None).write(2, NOISE, len(NOISE))
        self._say("noise made")

    def action_type(self) -> None:
        self.app.push_screen(CannedConsent(self.context))

    def action_fail(self) -> None:
        raise RuntimeError("nobody expected this")

    def action_change(self) -> None:
        self.app.post_message(MutationBegan())
        self._say("changing")
        self._change()

    @work(thread=True)
    def _change(self) -> None:
        """The request goes on until its file appears, and is then written down."""
        _wait_for(self._folder / "answer")
        (self._folder / "journal").write_text("elected\n")
        self.app.post_message(MutationEnded())

    @work(thread=True)
    def action_hang(self) -> None:
        """A read that nothing ends."""
        self.app.call_from_thread(self._say, "hanging")
        _wait_for(Path("/nowhere"))

    @property
    def _folder(self) -> Path:
        return self.context.state_folder or Path()

    def _say(self, text: str) -> None:
        """On the screen, and in a file for who cannot see it."""
        (self._folder / "said").write_text(text)
        self.query_one("#state", Static).update(text)


def _wait_for(file: Path) -> None:
    """Until *file* is there, a hundred times a second."""
    ctypes_sleep = ctypes.CDLL(None).usleep
    while not file.exists():
        ctypes_sleep(10_000)
