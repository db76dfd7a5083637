"""Running the app on the operator's terminal: signals, stray output, and a prompt way out.

Textual draws on the terminal, and so would a native library that reports a lost connection on file
descriptor 2. While the console draws, that descriptor leads into a file of the state folder; the
operator is informed of the file at the end if anything came.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from breakglass.console.exits import INTERRUPTED
from breakglass.console.output import say
from breakglass.screens.messages import Interrupted

if TYPE_CHECKING:
    from textual.driver import Driver

    from breakglass.console.app import BreakglassApp


SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
LAST_SECONDS = 0.4
"""For threads that only read; nothing waits longer for a broker that does not answer."""


def run_on_terminal(
    app: BreakglassApp,
    *,
    mouse: bool,
    state_folder: Path,
    typed: Callable[[], object] | None = None,
) -> int:
    """Run *app* until the operator leaves or a signal ends it; returns the exit code.

    *typed* is called for each key, in the thread that reads the keyboard.
    Threads that read may still wait for a broker then: `leave` ends the process without them.
    What failed without being expected is raised, once the terminal is as it was.
    """
    from rich.console import Console

    from breakglass.console.driver import ConsoleDriver

    stray = StrayOutput(state_folder)
    app.driver_class = cast("type[Driver]", partial(ConsoleDriver, stray=stray, typed=typed))
    app.error_console = Console(quiet=True)
    try:
        return run_in_loop(app, mouse=mouse)
    finally:
        told = stray.close()
        if told:
            say(told)


def run_in_loop(app: BreakglassApp, *, mouse: bool) -> int:
    """Run *app* with the driver it has, ended by signals; returns the exit code.

    What failed without being expected is raised.
    """
    with asyncio.Runner() as runner:
        runner.run(_run(app, mouse))
        if app.executor is not None:
            app.executor.shutdown(wait=False, cancel_futures=True)
        # A loop that is closed waits for its executor; this one has nothing to wait for.
        runner.get_loop().set_default_executor(ThreadPoolExecutor(1))
    if app._exception is not None:
        raise app._exception
    return app.return_code or 0


def leave(code: int) -> NoReturn:
    """End the process with *code*, whatever a thread that only reads still waits for."""
    if _still_running():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


async def _run(app: BreakglassApp, mouse: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, app.post_message, Interrupted(INTERRUPTED))
    await app.run_async(mouse=mouse)


def _still_running() -> bool:
    """Whether a worker's thread still runs after the last moment it is given."""
    from breakglass.console.app import WORKER_NAME

    end = time.monotonic() + LAST_SECONDS
    for thread in threading.enumerate():
        if thread.name.startswith(WORKER_NAME):
            thread.join(max(end - time.monotonic(), 0))
            if thread.is_alive():
                return True
    return False


STDERR = 2
FOLDER = "output"


class StrayOutput:
    """File descriptor 2, led aside and back again as often as the screen is left and shown."""

    def __init__(self, state_folder: Path) -> None:
        self._file = state_folder / FOLDER / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.txt"
        self._aside: int | None = None
        """Where it is led, once opened."""
        self._before: int | None = None
        """What it was, while it is led aside."""

    def begin(self) -> None:
        if self._before is not None:
            return
        if self._aside is None:
            self._aside = self._opened()
        self._before = os.dup(STDERR)
        os.dup2(self._aside, STDERR)

    def end(self) -> None:
        if self._before is None:
            return
        os.dup2(self._before, STDERR)
        os.close(self._before)
        self._before = None

    def close(self) -> str:
        """End for good; returns what to tell the operator, or nothing if nothing came."""
        self.end()
        if self._aside is None:
            return ""
        written = os.fstat(self._aside).st_size
        os.close(self._aside)
        self._aside = None
        if written:
            return f"Libraries wrote {written:,} bytes while the console was open: {self._file}"
        self._file.unlink(missing_ok=True)
        return ""

    def _opened(self) -> int:
        """The file; nowhere, if there can be none."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return os.open(os.devnull, os.O_WRONLY)
