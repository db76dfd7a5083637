"""Brokers that are down: which are gone, and what one would lose if it started now.

That is seen in its log folders on this machine. Folders, rescues and the cluster are only read: a
read-only session may do it too.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.context import Context
from breakglass.screens.messages import CopyAsked
from breakglass.screens.offline.messages import ReturnChecked
from breakglass.screens.page import Page
from breakglass.screens.widgets.dialog import Field, Prompt
from breakglass.screens.widgets.replica_table import (
    Line,
    ReplicaTable,
    TablePiece,
    plain_text,
    reason_lines,
)
from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.recovery.remembered.store import ReplicaMemory
from breakglass.services.words.broker_ids import brokers_in
from breakglass.services.words.figures import partitions_text
from breakglass.themes.roles import Role

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.return_check import ReturnCheck

COPIED_WIDTH = 200
ABOUT = (
    "Each folder of its log.dirs, as this machine has them: mounted, or copied. Separate them by "
    "commas. They are only read."
)


class GonePrompt(Prompt):
    """Begins with those declared *gone* so far, and offers those that are *silent*.

    A broker that is not registered may be named.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *Prompt.BINDINGS,
        Binding("tab", "fill", "Those that do not answer", priority=True),
    ]

    def __init__(self, gone: Collection[int], silent: Collection[int]) -> None:
        self._silent = " ".join(map(str, silent))
        offered = f" Brokers that do not answer: {self._silent}." if silent else ""
        super().__init__(
            "Which brokers will never come back with their data?",
            about="Broker ids, separated by blanks or commas. Breakglass stops waiting for these "
            "brokers and does not propose to start them. This changes the verdicts, not the "
            f"cluster; an empty line undoes it.{offered}",
            value=" ".join(map(str, gone)),
            fault=fault_in,
        )

    def action_fill(self) -> None:
        self.query_one(Field).value = self._silent


def fault_in(text: str) -> str:
    """Why *text* names no brokers; empty if it does, or is empty."""
    try:
        brokers_in(text)
    except ValueError:
        return "Name brokers by their ids: 4 7."
    return ""


def folders_prompt(given: str) -> Prompt:
    """Begins with what was *given* the last time."""
    return Prompt("Log folders of the broker that is down", about=ABOUT, value=given, fault=_fault)


def _fault(text: str) -> str:
    return "" if folders_in(text) else "Name a folder: /mnt/b3/kafka-logs"


def folders_in(text: str) -> tuple[str, ...]:
    """The folders of *text*; `log:` before a folder may be left out."""
    named = (part.strip().removeprefix("log:") for part in text.split(","))
    return tuple(name for name in named if name)


class DeadBrokerScreen(Page):
    """Reads at once; Esc ends the reading and goes back."""

    TITLE = "Return"
    ABOUT = (
        "Whether a dead broker may be started: which records and transaction markers it would cut "
        "off under the present leaders, and whether a rescue has them. It changes nothing on the "
        "cluster or on the disk."
    )
    CSS = """
    DeadBrokerScreen ReplicaTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "copy", tooltip="Copy this text"),
        Binding("escape", "leave", "back", tooltip="Go back"),
    ]

    def __init__(self, context: Context, folders: Sequence[str]) -> None:
        super().__init__(context)
        self._folders = tuple(folders)
        self._check: ReturnCheck | None = None
        self._trouble = ""
        self._left = threading.Event()

    def body(self) -> Iterator[Widget]:
        yield ReplicaTable()

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(ReplicaTable).focus()
        self.run_worker(self._read, group="return", thread=True)
        self._draw()

    def show_known(self) -> None:
        """Stays as it was read: Esc and the same folders read again."""

    def action_leave(self) -> None:
        self._left.set()
        self.dismiss()

    def action_copy(self) -> None:
        text = plain_text(self._told(COPIED_WIDTH))
        self.app.post_message(CopyAsked(text, "what its start would lose"))

    @on(ReturnChecked)
    def _is_checked(self, message: ReturnChecked) -> None:
        self._check, self._trouble = message.check, message.trouble
        self._draw()

    def _read(self) -> None:
        """In a thread."""
        from breakglass.services.recovery.guarded.rescue_choice import all_folders
        from breakglass.services.recovery.rescue.broker_folder import LOG, open_log_folder
        from breakglass.services.recovery.rescue.return_check import check_return

        try:
            folders = [open_log_folder(f"{LOG}{folder}") for folder in self._folders]
            rescues = all_folders(folders[0].cluster_id or "", self.context.state_folder)
            with self.context.reading() as client:
                memory = ReplicaMemory(folders[0].cluster_id or "", self.context.state_folder)
                check = check_return(client, folders, rescues, self._go_on, memory=memory)
            self.post_message(ReturnChecked(check))
        except BreakglassError as error:
            self.post_message(ReturnChecked(None, str(error)))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            told = f"The folders cannot be read ({type(error).__name__}: {error})."
            self.post_message(ReturnChecked(None, told))

    def _go_on(self) -> None:
        if self._left.is_set() or self.context.stopping.is_set():
            raise Refused("stopped on request")

    def _draw(self) -> None:
        self.query_one(ReplicaTable).show(self._told, top=False)

    def _told(self, width: int) -> Iterator[Line]:
        if self._trouble:
            yield from reason_lines([self._trouble], width)
        elif self._check is None:
            yield (TablePiece(" Reading the folders and the leaders.", Role.RUNNING),)
        else:
            yield from return_lines(self._check, width)


def return_lines(check: ReturnCheck, width: int) -> Iterator[Line]:
    """What to show of *check*, in *width* cells."""
    role = Role.VERIFIED if check.safe else Role.LOST
    verdict = "is safe to start, if what follows holds" if check.safe else "is NOT safe to start"
    yield (TablePiece(f" b{check.broker} {verdict}", role),)
    for folder in check.folders:
        read = f"{folder.path}: {partitions_text(len(folder.replicas))}"
        yield from reason_lines([read, *(f"passed over: {name}" for name in folder.aside)], width)
    yield ()
    yield from reason_lines(check.sentences, width)
