"""Running commands as an operator's script does: one after another, agreed to, killed, resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM_SECONDS = 1200.0
"""It only ends a hang."""
HUNG = -1
POLL_SECONDS = 0.001
AMID_SECONDS = 0.5
MOST_CONSENTS = 40
REFUSED = 3
CONSENT = "consent: "


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    killed: bool = False

    @property
    def wanted(self) -> str | None:
        """The phrase for want of which it was refused."""
        said = self.err.strip().splitlines()
        last = said[-1] if said else ""
        refused = self.code == REFUSED and last.startswith(CONSENT)
        return last.removeprefix(CONSENT) if refused else None

    @property
    def document(self) -> dict[str, Any]:
        """What it printed, as JSON; empty where that is none."""
        try:
            read = json.loads(self.out)
        except ValueError:
            return {}
        return read if isinstance(read, dict) else {}

    def __str__(self) -> str:
        how = "killed" if self.killed else f"exit {self.code}"
        return f"$ {' '.join(self.words)}\n[{how}, {self.seconds:.1f} s]\n{self.out}{self.err}"


@dataclass
class Shell:
    """Runs the installed programs, with a state folder of their own."""

    folder: Path
    bootstrap: tuple[str, ...]
    """What names the cluster to every command."""
    kill_at: int | None = None
    """How many lines a journal has when the command that writes it is killed; once."""
    ran: list[Ran] = field(default_factory=list)
    phrases: int = 0
    """How often the operator had to agree."""
    amid: Callable[[], object] | None = None
    """Done once, half a second after the next command has begun."""
    machine: int = 1
    """Raised where what follows is done on another machine."""

    @property
    def _home(self) -> Path:
        return self.folder / (f"state-{self.machine}" if self.machine > 1 else "state")

    @property
    def state(self) -> Path:
        """Where journals and rescues are."""
        return self._home / "breakglass"

    @property
    def commands(self) -> int:
        """How many commands an operator typed: agreeing to one is not typing another."""
        return sum(ran.wanted is None for ran in self.ran)

    def breakglass(self, *words: object, online: bool = True) -> Ran:
        """Run `breakglass` to its end."""
        return self.run("breakglass", *words, *(self.bootstrap if online else ()))

    def agreeing(self, *words: object) -> Ran:
        """Run `breakglass` with `--write` and every consent that it asks for."""
        given: list[str] = []
        while True:
            consents = [word for phrase in given for word in ("--consent", phrase)]
            ran = self.breakglass(*words, "--write", *consents)
            if ran.wanted is None or len(given) >= MOST_CONSENTS:
                return ran
            given.append(ran.wanted)
            self.phrases += 1

    def run(self, program: str, *words: object) -> Ran:
        """Run an installed program; it is killed where `kill_at` says so."""
        command = [str(Path(sys.executable).with_name(program)), *map(str, words)]
        return self._run((program, *map(str, words)), command)

    def run_foreign(self, words: Sequence[str], command: Sequence[str]) -> Ran:
        """Run *command*, which is reported as *words*."""
        return self._run(tuple(words), command)

    def _run(self, words: tuple[str, ...], command: Sequence[str]) -> Ran:
        began = time.monotonic()
        out, err = self.folder / "stdout", self.folder / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            kept = {
                name: value
                for name, value in os.environ.items()
                if not name.startswith("BREAKGLASS_")
            }
            process = subprocess.Popen(
                command,
                env={**kept, "XDG_STATE_HOME": str(self._home)},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            try:
                killed = self._watch(process)
                code = process.wait(PROGRAM_SECONDS)
            except subprocess.TimeoutExpired:
                code = HUNG
            finally:
                process.kill()
                process.wait()
        seconds = time.monotonic() - began
        said = out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace")
        self.ran.append(Ran(words, code, *said, seconds, killed))
        return self.ran[-1]

    def _watch(self, process: subprocess.Popen[bytes]) -> bool:
        """Kill the process once its journal is long enough; whether it was."""
        before, began = self._journal_lines(), time.monotonic()
        while (self.kill_at is not None or self.amid) and process.poll() is None:
            if self.amid and time.monotonic() - began >= AMID_SECONDS:
                act, self.amid = self.amid, None
                act()
            if self.kill_at is not None and self._journal_lines() - before >= self.kill_at:
                process.send_signal(signal.SIGKILL)
                self.kill_at = None
                return process.wait() == -signal.SIGKILL
            time.sleep(POLL_SECONDS)
        return False

    def _journal_lines(self) -> int:
        journals = self.state.glob("journal/*/*.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in journals)
