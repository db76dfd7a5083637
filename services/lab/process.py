"""Processes of the lab: started in groups of their own, and signalled only when surely ours."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import PROPERTIES_FILE
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular

POLL_SECONDS = 0.02
KILL_SECONDS = 120.0
EXEC_SECONDS = 30.0
SAME_START_SECONDS = 1.5
"""The boot time is known in whole seconds."""
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
"""Environment a node inherits: no JAVA_TOOL_OPTIONS, no secrets."""
NODE_RECORD = "process.json"
MOST_PID = 2**31 - 1
PR_SET_PDEATHSIG = 1
TETHER = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """What tells one process from any other that has, or will have, its pid."""

    pid: int
    started: float
    """Seconds after the machine's boot: corrections of the clock leave it as it is."""
    argument: str
    """The last word of its command line."""


def spawn(
    argv: Sequence[str], output: Path, *, environment: Mapping[str, str], tethered: bool
) -> ProcessRecord:
    """Start *argv* in a session of its own, stdout and stderr appended to *output*.

    A tethered process is killed by the kernel when the thread that started it ends (Linux).

    Raises:
        LabError: the program cannot be executed.
    """
    if tethered and sys.platform == "linux":
        argv = (sys.executable, "-ISc", TETHER, str(os.getpid()), *argv)
    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        pid = os.posix_spawn(
            argv[0],
            list(argv),
            {**{name: os.environ[name] for name in PASSED_ON if name in os.environ}, **environment},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(output), mode, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        raise LabError(f"{argv[0]} cannot be run ({error}): check the Java it names.") from error
    return ProcessRecord(pid, seconds_after_boot(psutil.Process(pid)), argv[-1])


def seconds_after_boot(process: psutil.Process) -> float:
    """When *process* was started."""
    return float(process.create_time() - psutil.boot_time())


def find(record: ProcessRecord) -> psutil.Process | None:
    """The running process of *record*; None when it ended, even if not yet reaped."""
    with suppress(ChildProcessError):
        os.waitpid(record.pid, os.WNOHANG)
    try:
        process = psutil.Process(record.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        same_start = abs(seconds_after_boot(process) - record.started) < SAME_START_SECONDS
        return process if (same_start and record.argument in _command_line(process)) else None
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def send(record: ProcessRecord, signum: signal.Signals) -> bool:
    """Signal the process of *record*; False when it is gone. No other is ever signalled."""
    process = find(record)
    if process is None:
        return False
    try:
        process.send_signal(signum)
    except psutil.NoSuchProcess:
        return False
    return True


def wait_ended(record: ProcessRecord, seconds: float) -> bool:
    """Whether the process ended within *seconds*."""
    give_up = time.monotonic() + seconds
    while find(record) is not None:
        if time.monotonic() >= give_up:
            return False
        time.sleep(POLL_SECONDS)
    return True


def stopped(record: ProcessRecord) -> bool:
    """Whether the process was stopped by SIGSTOP."""
    found = find(record)
    return found is not None and found.status() == psutil.STATUS_STOPPED


def wait_stopped(record: ProcessRecord, seconds: float) -> bool:
    """Whether the process was stopped within *seconds*: all of its threads have to notice."""
    give_up = time.monotonic() + seconds
    while not stopped(record):
        if time.monotonic() >= give_up:
            return False
        time.sleep(POLL_SECONDS)
    return True


def any_recorded(folders: Iterable[Path]) -> bool:
    """Whether a process with a record in one of *folders* runs."""
    return any(find(record) for record in _records(folders))


def end_recorded(folders: Iterable[Path]) -> None:
    """Kill every process whose record is in one of *folders*: nodes, and proxies before them.

    All are killed before any is awaited: an impatient second Ctrl-C finds them dying.

    Raises:
        LabError: one survives the signal.
    """
    killed = [record for record in _records(folders) if send(record, signal.SIGKILL)]
    for record in killed:
        if not wait_ended(record, KILL_SECONDS):
            raise LabError(f"Process {record.pid} survives SIGKILL: it hangs in the kernel.")


def save_record(record: ProcessRecord, path: Path) -> None:
    """Keep *record* for a later command."""
    path.write_text(json.dumps(asdict(record)) + "\n", encoding="utf-8")


def load_record(path: Path) -> ProcessRecord | None:
    """The record in *path*, or None when nothing was started yet.

    Its process has a file of that folder on its command line, whatever the record says: a node its
    properties, a proxy its record (S51).

    Raises:
        LabError: the file is damaged.
    """
    try:
        record = ProcessRecord(**json.loads(read_regular(path, SETTINGS_BYTES)))
        if type(record.pid) is not int or not 1 <= record.pid <= MOST_PID:
            raise ValueError(f"{record.pid!r} is no process id")
        own = path.with_name(PROPERTIES_FILE) if path.name == NODE_RECORD else path
        return replace(record, argument=str(own))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise LabError(
            f"{path} cannot be read ({error}): end the java process of that folder by hand."
        ) from error


def _records(folders: Iterable[Path]) -> list[ProcessRecord]:
    found = (load_record(path) for folder in folders for path in folder.glob("*.json"))
    return [record for record in found if record is not None]


def _command_line(process: psutil.Process) -> list[str]:
    """Its words; for an instant, while a process replaces its program, it has none."""
    give_up = time.monotonic() + EXEC_SECONDS
    while not (words := process.cmdline()) and time.monotonic() < give_up:
        time.sleep(POLL_SECONDS)
    return list(words)
