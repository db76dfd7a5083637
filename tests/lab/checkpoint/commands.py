"""The program itself, as an operator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 400.0
RUN = "from breakglass.console.cli import main; raise SystemExit(main())"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


class Running:
    """A command under way; what it says is kept."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._said: list[str] = []
        self._silent = False
        """Nothing more will be said."""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._news:
                self._said.append(line.strip())
                self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()

    def wait_for(self, begin: str) -> str:
        """The first line that begins so."""

        def found() -> str | None:
            return next((text for text in self._said if text.startswith(begin)), None)

        with self._news:
            self._news.wait_for(lambda: self._silent or found(), SECONDS)
            line = found()
            assert line is not None, self._said
            return line

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has come to its end."""
        return self._process.poll() is not None

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Send SIGTERM; it may take its time."""
        self._process.terminate()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait(SECONDS)

    @property
    def said(self) -> tuple[str, ...]:
        """Its lines on stderr so far."""
        with self._news:
            return tuple(self._said)

    def kill(self) -> None:
        """kill -9, if it still runs."""
        self._process.kill()
        self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


@dataclass(frozen=True, slots=True)
class Program:
    """`breakglass checkpoint` on one cluster and one store."""

    bootstrap: str
    store: Path
    state: Path
    url: str = ""
    """Where the store is, if that is no folder."""

    @property
    def own_state(self) -> Path:
        """The state folder of Breakglass itself."""
        return self.state / "breakglass"

    def __call__(self, command: str, *arguments: str, cluster: bool = True) -> Ended:
        """Run it to its end."""
        given = [command, "--store", self.url or str(self.store), *arguments]
        if cluster:
            given += ["--bootstrap-server", self.bootstrap]
        done = subprocess.run(
            [sys.executable, "-c", RUN, "checkpoint", *given],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "XDG_STATE_HOME": str(self.state)},
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, command: str, *arguments: str, token: str = "") -> Iterator[Running]:
        """Start it; it is killed with the block, if not before."""
        given = [command, "--store", self.url or str(self.store), *arguments]
        own = {"XDG_STATE_HOME": str(self.state), "BREAKGLASS_CHECKPOINT_TOKEN": token}
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, "checkpoint", *given, "--bootstrap-server", self.bootstrap],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **{name: value for name, value in own.items() if value}},
        )
        found = Running(process)
        try:
            yield found
        finally:
            found.kill()

    def consented(self, command: str, *arguments: str, cluster: bool = True) -> dict[str, Any]:
        """Run it with --write and the consent that it asks for; it must succeed."""
        asked = self(command, *arguments, "--write", cluster=cluster)
        assert asked.code == 3, asked.err
        phrase = asked.err.strip().splitlines()[-1].removeprefix("consent: ")
        return self.whole(command, *arguments, "--write", "--consent", phrase, cluster=cluster)

    def whole(self, command: str, *arguments: str, cluster: bool = True) -> dict[str, Any]:
        """Run it with --json; it must succeed."""
        done = self(command, *arguments, "--json", cluster=cluster)
        assert done.code == 0, done.err
        return done.document
