"""Running the app on the operator's terminal: signals, stray output, and a prompt way out."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from breakglass.console.exits import INTERRUPTED
from breakglass.console.output import say
from breakglass.console.stray_output import StrayOutput
from breakglass.screens.messages import Interrupted

if TYPE_CHECKING:
    from textual.driver import Driver

    from breakglass.console.app import BreakglassApp

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
LAST_SECONDS = 0.4
"""For threads that only read; nothing waits longer for a broker that does not answer."""


def run_on_terminal(app: BreakglassApp, *, mouse: bool, state_folder: Path) -> int:
    """Run *app* until the operator leaves or a signal ends it; returns the exit code.

    Threads that read may still wait for a broker then: `leave` ends the process without them.
    What failed without being expected is raised, once the terminal is as it was.
    """
    from rich.console import Console

    from breakglass.console.driver import ConsoleDriver

    stray = StrayOutput(state_folder)
    app.driver_class = cast("type[Driver]", partial(ConsoleDriver, stray=stray))
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
    for one in SIGNALS:
        loop.add_signal_handler(one, app.post_message, Interrupted(INTERRUPTED))
    await app.run_async(mouse=mouse)


def _still_running() -> bool:
    """Whether a worker's thread goes on after the last moment it is given."""
    from breakglass.console.app import WORKER_NAME

    end = time.monotonic() + LAST_SECONDS
    for thread in threading.enumerate():
        if thread.name.startswith(WORKER_NAME):
            thread.join(max(end - time.monotonic(), 0))
            if thread.is_alive():
                return True
    return False
