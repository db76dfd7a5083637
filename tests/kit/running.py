"""Commands of the program in processes of their own: run to their end, or under way."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.kit.program import RUN, Ended
from tests.kit.waiting import DEADLINE_SECONDS, wait_until


def words_of(words: Sequence[object]) -> list[str]:
    """The command line of `breakglass` with these *words*."""
    return [sys.executable, "-c", RUN, *map(str, words)]


def ran(*words: object, environment: dict[str, str] | None = None) -> Ended:
    """Run `breakglass` to its end, with more *environment*."""
    done = subprocess.run(
        words_of(words),
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_SECONDS,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Running:
    """A command under way; what it prints is kept."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._out: list[str] = []
        self._said: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        pipes = ((process.stdout, self._out), (process.stderr, self._said))
        self._readers = [threading.Thread(target=_keep, args=given, daemon=True) for given in pipes]
        for reader in self._readers:
            reader.start()

    @property
    def said(self) -> tuple[str, ...]:
        """Its lines on stderr so far."""
        return tuple(self._said)

    @property
    def told(self) -> list[dict[str, Any]]:
        """Its lines on stdout so far, as JSON."""
        return [json.loads(line) for line in tuple(self._out)]

    @property
    def out(self) -> str:
        """All that it has printed on stdout so far."""
        return "\n".join(self._out)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self.process.poll()

    def wait_for(self, begin: str) -> str:
        """The first line on stderr that begins so."""

        def found() -> str:
            return next((text for text in self.said if text.startswith(begin)), "")

        self._until(found, begin)
        return found()

    def event(self, **fields: object) -> dict[str, Any]:
        """The first line on stdout with these *fields*."""

        def found() -> dict[str, Any]:
            fits = (one for one in self.told if fields.items() <= one.items())
            return next(fits, {})

        self._until(found, str(fields))
        return found()

    def _until(self, found: Callable[[], object], what: str) -> None:
        """Wait until it is *found*; a command that has ended prints no more."""

        def known() -> bool:
            silent = self.ended and not any(reader.is_alive() for reader in self._readers)
            return bool(found()) or silent

        wait_until(known, what, instead=lambda: (self.said, self._out))
        assert found(), (what, self.said, self._out)

    def terminate(self) -> None:
        """Send SIGTERM; it may take its time."""
        self.process.terminate()

    def wait(self) -> int:
        """Its exit code, once it has ended and all that it printed is here."""
        code = self.process.wait(DEADLINE_SECONDS)
        for reader in self._readers:
            reader.join(DEADLINE_SECONDS)
        return code

    def stop(self) -> dict[str, Any]:
        """Ask it to end; returns the last line on stdout, which sums up."""
        self.terminate()
        self.wait()
        return self.told[-1]

    def kill(self) -> None:
        """kill -9, if it still runs."""
        self.process.kill()
        self.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def _keep(pipe: IO[str], lines: list[str]) -> None:
    for line in pipe:
        # What a killed command leaves of a line is no line.
        if line.endswith("\n"):
            lines.append(line.strip())


def at_rest(process: int) -> bool:
    """Whether a process has got every signal, and each of its threads waits for something."""
    proc = Path("/proc", str(process))
    pending = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)$", (proc / "status").read_text(), re.MULTILINE)
    states = [(task / "stat").read_text().rpartition(")")[2][1] for task in proc.glob("task/*")]
    return not any(int(mask, 16) for mask in pending) and set(states) == {"S"}


@contextmanager
def running(
    state: Path | None,
    *words: object,
    environment: dict[str, str] | None = None,
    before: Sequence[str] = (),
) -> Iterator[Running]:
    """`breakglass` with these *words*; it is killed with the block, if not before.

    *before* is a command that starts it.
    """
    own = {} if state is None else {"XDG_STATE_HOME": str(state)}
    process = subprocess.Popen(
        [*before, *words_of(words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **own, **(environment or {})},
    )
    found = Running(process)
    try:
        yield found
    finally:
        found.kill()
