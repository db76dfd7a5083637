"""Brokers that are down: which are gone, and what one would lose if it started now.

That is seen in its log folders on this machine. Folders, rescues and the cluster are only read: a
read-only session may do it too.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from breakglass.screens.context import Context
from breakglass.screens.refreshing import found_or_why, in_thread
from breakglass.screens.widgets.dialog import Field, Prompt
from breakglass.screens.widgets.replica_table import Line, TextPage, reason_lines
from breakglass.services.errors import Refused
from breakglass.services.model import Unknown
from breakglass.services.recovery.remembered.store import ReplicaMemory
from breakglass.services.words.broker_ids import brokers_in
from breakglass.services.words.figures import partitions_text
from breakglass.themes.roles import Role, Words

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.return_check import ReturnCheck


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

    def fault(text: str) -> str:
        return "" if folders_in(text) else "Name a folder: /mnt/b3/kafka-logs"

    return Prompt("Log folders of the broker that is down", about=ABOUT, value=given, fault=fault)


def folders_in(text: str) -> tuple[str, ...]:
    """The folders of *text*; `log:` before a folder may be left out."""
    named = (part.strip().removeprefix("log:") for part in text.split(","))
    return tuple(name for name in named if name)


class DeadBrokerScreen(TextPage):
    """Reads at once; Esc ends the reading and goes back."""

    TITLE = "Return"
    ABOUT = (
        "Whether a dead broker may be started: which records and transaction markers it would cut "
        "off under the present leaders, and whether a rescue has them. It changes nothing on the "
        "cluster or on the disk."
    )
    COPIED = "what its start would lose"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "copy", tooltip="Copy this text"),
        Binding("escape", "leave", "back", tooltip="Go back"),
    ]

    def __init__(self, context: Context, folders: Sequence[str]) -> None:
        super().__init__(context)
        self._folders = tuple(folders)
        self._check: ReturnCheck | Unknown | None = None
        self._left = threading.Event()

    def on_mount(self) -> None:
        read = partial(found_or_why, self._read, "the folders cannot be read")
        in_thread(self, "return", read, self._checked)
        self.draw()

    def show_known(self) -> None:
        """Stays as it was read: Esc and the same folders read again."""

    def action_leave(self) -> None:
        self._left.set()
        self.dismiss()

    def _checked(self, check: ReturnCheck | Unknown) -> None:
        self._check = check
        self.draw()

    def _read(self) -> ReturnCheck:
        """In a thread."""
        from breakglass.services.recovery.guarded.rescue_choice import all_folders
        from breakglass.services.recovery.rescue.broker_folder import LOG, open_log_folder
        from breakglass.services.recovery.rescue.return_check import check_return

        folders = [open_log_folder(f"{LOG}{folder}") for folder in self._folders]
        cluster_id, state = folders[0].cluster_id or "", self.context.state_folder
        rescues, memory = all_folders(cluster_id, state), ReplicaMemory(cluster_id, state)
        with self.context.reading() as client:
            return check_return(client, folders, rescues, self._go_on, memory=memory)

    def _go_on(self) -> None:
        if self._left.is_set() or self.context.stopping.is_set():
            raise Refused("stopped on request")

    def lines(self, width: int) -> Iterator[Line]:
        if self._check is None:
            yield (Words(" Reading the folders and the leaders.", Role.RUNNING),)
        elif isinstance(self._check, Unknown):
            yield from reason_lines([self._check.reason], width)
        else:
            yield from return_lines(self._check, width)


def return_lines(check: ReturnCheck, width: int) -> Iterator[Line]:
    """What to show of *check*, in *width* cells."""
    role = Role.VERIFIED if check.safe else Role.LOST
    verdict = "is safe to start, if what follows holds" if check.safe else "is NOT safe to start"
    yield (Words(f" b{check.broker} {verdict}", role),)
    for folder in check.folders:
        read = f"{folder.path}: {partitions_text(len(folder.replicas))}"
        yield from reason_lines([read, *(f"passed over: {name}" for name in folder.aside)], width)
    yield ()
    yield from reason_lines(check.sentences, width)
