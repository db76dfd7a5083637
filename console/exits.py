"""How every program of ours ends: one sentence on stderr, and an exit code with a meaning.

==== ================================================================================
0    done
1    failed, or partly failed
2    usage: the command line or a file is wrong
3    refused by a guard; nothing was changed
4    outcome unknown: something was sent, no answer came
130  interrupted, by Ctrl-C, SIGTERM or a lost terminal; a run that a signal stopped, too
==== ================================================================================

A refusal for want of consent ends with the line ``consent: PHRASE`` on stderr. A traceback is
never shown for an error that has a class; for one that has none it goes into a file.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from breakglass import __version__
from breakglass.console.output import LogFormat, log_as, say
from breakglass.services.errors import BreakglassError, ConsentMissing, Refused
from breakglass.services.extras import in_vain

if TYPE_CHECKING:
    from pathlib import Path

    import typer

FAILED = 1
REFUSED_BY_GUARD = 3
INTERRUPTED = 130
STDOUT = 1
"""The file descriptor, which is there even when sys.stdout has been replaced."""
STDERR = 2
OBJECTS_BETWEEN_COLLECTIONS = 100_000
CORE_FILTER = "/proc/self/coredump_filter"


def run_app(app: typer.Typer, name: str) -> int:
    """Run *app* on the command line under the program's *name*; returns the exit code."""
    from typer.main import get_command

    # What is made is for its owner alone, also by libraries and by programs that this one starts.
    os.umask(0o077)
    if not open_standard_streams():
        say("Standard output is closed, so nothing was done: redirect it to a file, or /dev/null.")
        return FAILED
    collect_cycles_seldom()
    leave_no_core()
    end_alike_by_any_signal()
    command = get_command(app)
    return guarded(lambda: command.main(prog_name=name))


def open_standard_streams() -> bool:
    """Open /dev/null for what the shell closed, such as ``2>&-``; return whether stdout was open.

    The next file that is opened, such as a journal, would take the number of a closed stream, and
    what children print would go into it.
    """
    was_open = sys.stdout is not None
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    return was_open


def leave_no_core() -> None:
    """Keep this process and its children, whose memory has secrets, out of core files.

    Where the system pipes cores to a program, the limit does not count, but the filter does: such a
    core has no memory of its own.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError), open(CORE_FILTER, "w", encoding="ascii") as which:
        which.write("0")


def collect_cycles_seldom() -> None:
    """Let the cyclic garbage collector look at what is made only now and then.

    The evidence of thousands of partitions lives until the end and holds no cycles: looking
    through it again and again takes a tenth of a triage.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)


def end_alike_by_any_signal() -> None:
    """Let SIGTERM and a lost terminal end a program as Ctrl-C does; what is ignored stays so."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def guarded(run: Callable[[], object]) -> int:
    """Return the exit code of *run*; every error ends here, as a sentence."""
    tolerate_any_text()
    try:
        return flushed(_exit_code(run))
    except BreakglassError as error:
        return _end_of_ours(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last one to see it: into a file, and say so
        extra = in_vain(error)
        return _end_of_unexpected(error) if extra is None else _end_of_ours(extra)
    finally:
        log_as(LogFormat.TEXT)


def _end_of_ours(error: BreakglassError) -> int:
    say(str(error))
    if isinstance(error, ConsentMissing):
        for phrase in error.phrases:
            say(f"consent: {phrase}")
    return error.exit_code


def tolerate_any_text() -> None:
    """Let no character that the terminal's encoding lacks end a program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flushed(code: int) -> int:
    """Return *code* once what was printed is out, so that a closed pipe is met here."""
    sys.stdout.flush()
    return code


def _exit_code(run: Callable[[], object]) -> int:
    """Run; a SystemExit, which is how Typer always ends, becomes its number."""
    try:
        run()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            # Typer takes every broken pipe for stdout's; a broker's connection has one too.
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _end_of_unexpected(error: Exception) -> int:
    broken = isinstance(error, BrokenPipeError) and _nobody_reads()
    if not (broken or _output_fails(error)):
        _report_unexpected(error)
        return FAILED
    # `breakglass triage | head`: end quietly. The interpreter flushes stdout once more at its
    # end, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
    if not broken:
        say(f"Standard output cannot be written ({error}): free space there, or redirect it.")
    return FAILED


def _output_fails(error: Exception) -> bool:
    """Whether *error* is stdout's, as on a full disk: what is written there fails again."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    try:
        sys.stdout.flush()
        os.write(STDOUT, b"\n")
    except OSError as again:
        return again.errno == error.errno
    return False


def _nobody_reads() -> bool:
    polled = select.poll()
    polled.register(STDOUT, 0)
    return bool(polled.poll(0))


def _report_unexpected(error: Exception) -> None:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    try:
        place = write_traceback(error)
    except OSError as problem:
        say(f"Breakglass failed unexpectedly ({what}); no details could be kept ({problem}).")
        return
    say(f"Breakglass failed unexpectedly ({what}); please report it with the file below.")
    say(str(place))


def write_traceback(error: Exception) -> Path:
    """Write *error*'s traceback to a new file in the user's state folder. Raises OSError."""
    import traceback
    from datetime import UTC, datetime

    from platformdirs import user_state_path

    folder = user_state_path("breakglass") / "failures"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.txt"
    # The command line is left out: it may hold secrets.
    lines = [f"breakglass {__version__}, Python {sys.version}, {sys.platform}\n\n"]
    lines += traceback.format_exception(error)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as out:
        out.writelines(lines)
    return file


def say_ready() -> None:
    """Tell systemd, if it waits for that, that the program has started; later calls do nothing."""
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            # An abstract address, which begins with NUL, is written with @.
            notified.sendto(b"READY=1", f"\0{address[1:]}" if address[0] == "@" else address)


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignal:
    """While entered, `requested` tells whether a signal asked to stop.

    Until `armed` is called a signal raises KeyboardInterrupt at once, because nothing has
    been sent; from then on the work under way is finished, journalled and reported first.
    """

    def __init__(self) -> None:
        self.requested = False
        self._armed = False
        self._before: dict[int, object] = {}

    def armed(self) -> None:
        self._armed = True

    def go_on(self) -> None:
        """Return unless a signal asked to stop; raises Refused then."""
        if self.requested:
            raise Refused("stopped on request")

    def __enter__(self) -> StopSignal:
        for number in STOP_SIGNALS:
            # `nohup` has a lost terminal ignored, and means it. A shell that ignores Ctrl-C for
            # what it runs in the background does not mean `kill -INT`.
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        if not self._armed:
            raise KeyboardInterrupt
