"""Playing a drill: by a person, at the console or in a shell, or by Breakglass unattended.

The keys of the console are counted, and the lines that are typed in the shell of the drill. What is
done from another terminal counts for the score and is not counted itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from breakglass.console.drill_result import clock
from breakglass.console.exits import INTERRUPTED
from breakglass.console.output import json_text, say
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.bookkeeping.said import SaidPartition
    from breakglass.services.lab.incidents.drill import Drill

STDIN = 0
READ_SIZE = 4096
LOOK_SECONDS = 1.0
"""How soon the drill notices that nothing is offline any more."""
ANSWER_SECONDS = 10.0
CHOICES = "Enter: the console   s: a shell   d: done"
SHELL = "/bin/sh"
AUTO, KEYS = "auto", "keys"


@dataclass
class Played:
    """Who played, and what it took."""

    player: str
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    keys: int = 0
    commands: int = 0

    @property
    def clock(self) -> str:
        return clock(time.monotonic() - self.began)

    def count_key(self) -> None:
        self.keys += 1

    def ended(self) -> Played:
        self.seconds = time.monotonic() - self.began
        return self


def heard(connection: Connection, gone: Collection[int]) -> list[SaidPartition]:
    """What `breakglass triage --json --gone` says."""
    from breakglass.bookkeeping.said import judged
    from breakglass.console.documents import PARTITIONS, triage_partitions
    from breakglass.services.recovery.triage import triage

    with connection.reading() as client:
        *_, found = triage(client, ANSWER_SECONDS, gone=tuple(gone))
    return judged(json.loads(json_text({PARTITIONS: list(triage_partitions(found))})))


def by_breakglass(drill: Drill, connection: Connection) -> Played:
    """Let Breakglass recover unattended."""
    from breakglass.console.unattended import Unattended

    played = Played(AUTO)
    Unattended(connection, drill.cluster, drill.handed_over.scene.returnable).recover()
    return played.ended()


def by_hand(drill: Drill, connection: Connection) -> Played:
    """Let a person recover, until nothing is offline or the person is done.

    Raises KeyboardInterrupt: the console was ended by a signal, or the terminal is gone.
    """
    played = Played(KEYS)
    say(f"The clock runs.   {CHOICES}")
    while (choice := _choice(drill)) is not None:
        if choice == "s":
            _shell(drill, played)
        elif choice == "":
            from breakglass.console.console import run_console

            if run_console(connection, (), None, typed=played.count_key) == INTERRUPTED:
                raise KeyboardInterrupt
        else:
            say(CHOICES)
            continue
        if drill.over:
            break
        say(f"{played.clock}  Partitions are offline.   {CHOICES}")
    return played.ended()


def _choice(drill: Drill) -> str | None:
    """What is typed at the prompt; None: the person is done, or nothing is offline any more."""
    while True:
        ready, _, _ = select.select([STDIN], [], [], LOOK_SECONDS)
        if ready:
            # Not by sys.stdin, which would keep what was typed ahead for itself.
            typed = os.read(STDIN, READ_SIZE).decode("utf-8", "replace")
            choice = typed.strip().lower()
            return None if choice == "d" or not typed else choice
        if drill.over:
            say("Nothing is offline any more that can be brought back.")
            return None


def _shell(drill: Drill, played: Played) -> None:
    """Run the person's shell on a terminal of its own, which counts the lines that are typed."""
    say('`breakglass` finds the cluster here; "$LAB" is the lab; `exit` leads back.')
    terminal = _CountingTerminal()
    lab = drill.cluster.state_dir
    settings = {"BREAKGLASS_BOOTSTRAP_SERVER": drill.cluster.bootstrap_servers, "LAB": str(lab)}
    with _environment(settings, str(lab.parent)), terminal.resized_as_ours():
        try:
            pty.spawn([os.environ.get("SHELL", SHELL)], terminal.shown, terminal.typed)
        except termios.error as error:
            # The terminal is gone, and cannot be set as it was.
            raise KeyboardInterrupt from error
        finally:
            played.commands += terminal.lines


@contextmanager
def _environment(settings: dict[str, str], folder: str) -> Iterator[None]:
    """What the shell inherits: these settings, and its folder, where plans may be written."""
    before, here = dict(os.environ), os.getcwd()
    os.environ.update(settings)
    os.chdir(folder)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)


class _CountingTerminal:
    """Between our terminal and the shell's: passes everything on, and counts lines."""

    def __init__(self) -> None:
        self.lines = 0
        self._descriptor: int | None = None

    def typed(self, descriptor: int) -> bytes:
        """What the keyboard says; an Enter ends a line, also one that was typed ahead."""
        content = os.read(descriptor, READ_SIZE)
        self.lines += content.count(b"\r") + content.count(b"\n")
        return content

    def shown(self, descriptor: int) -> bytes:
        if self._descriptor is None:
            self._descriptor = descriptor
            self._resize()
        return os.read(descriptor, READ_SIZE)

    @contextmanager
    def resized_as_ours(self) -> Iterator[None]:
        """Give the shell's terminal the size of ours, now and whenever it changes."""
        before = signal.signal(signal.SIGWINCH, lambda *_: self._resize())
        try:
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)

    def _resize(self) -> None:
        if self._descriptor is not None:
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, size)
