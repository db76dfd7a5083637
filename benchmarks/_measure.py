"""Whole processes, ours and the peer's in turn: wall and processor time, memory, their ratio."""

from __future__ import annotations

import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil
from platformdirs import user_cache_path

from breakglass.services.lab.distribution import Distribution, tool_command
from breakglass.services.recovery.judgement.assessment import Verdict

KIBIBYTES_PER_MEGABYTE = 1000 * 1000 / 1024
LAST_WORDS = 2000
LAUNCHER = Path(__file__).with_name("_launch.py")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program from start to end. Seconds; megabytes."""

    wall: float
    cpu: float
    """User and system time of all its threads: what is left of it on a machine with more to do."""
    peak_rss: float


@dataclass(frozen=True, slots=True)
class Program:
    """A command line under the name it is reported by."""

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str] | None = None


def ours(script: str, folder: Path, *arguments: str | Path) -> Program:
    """One of our installed programs, with its bytecode, settings and journals under *folder*.

    Bytecode is kept as an installation keeps it, whatever the environment of the benchmark says.
    """
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    program = Path(sys.executable).with_name(script)
    name = " ".join(
        [
            script,
            *(argument for argument in map(str, arguments[:1]) if not argument.startswith("-")),
        ]
    )
    return Program(name, [program, *arguments], environment)


def run(program: Program, folder: Path) -> Run:
    """Run *program* to its end; what it prints is in *folder* afterwards.

    Raises:
        RuntimeError: it failed, with its last words.
    """
    launcher = [sys.executable, "-I", str(LAUNCHER), str(folder / "figures")]
    with (folder / "stdout").open("w+") as out, (folder / "stderr").open("w+") as err:
        subprocess.run(
            [*launcher, *map(str, program.command)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=program.environment,
        )
        wall, cpu, peak_kib, code = (folder / "figures").read_text().split()
        if int(code):
            said = _last_words(err) or _last_words(out)
            raise RuntimeError(f"{program.name} ended with {code}: {said}")
    return Run(float(wall), float(cpu), int(peak_kib) / KIBIBYTES_PER_MEGABYTE)


def _last_words(file: TextIO) -> str:
    file.seek(0)
    return file.read()[-LAST_WORDS:].strip()


def in_turn(times: int, programs: Sequence[Program], folder: Path) -> list[list[Run]]:
    """Each of *programs* so many times, one after the other in each round, after one for nothing.

    What disturbs one of them, neighbours on the machine above all, disturbs the others as well.
    """
    for program in programs:
        run(program, folder)
    rounds = [[run(program, folder) for program in programs] for _ in range(times)]
    return [list(runs) for runs in zip(*rounds, strict=True)]


def median_wall(runs: Sequence[Run]) -> float:
    """Seconds."""
    return statistics.median(one.wall for one in runs)


def print_program(program: Program, runs: Sequence[Run]) -> None:
    """One line: median wall time, the processor time and memory beside it, every run."""
    cpu = statistics.median(one.cpu for one in runs)
    rss = max(one.peak_rss for one in runs)
    each = " ".join(f"{one.wall:.2f}" for one in runs)
    print(
        f"  {program.name:<44} {median_wall(runs):6.2f} s   cpu {cpu:5.2f} s   {rss:4.0f} MB"
        f"   runs {each}"
    )


def meets(what: str, value: float, target: float, unit: str = "") -> bool:
    """Print *value* beside the most it may be; returns whether it is no more."""
    met = value <= target
    verdict = "met" if met else "MISSED"
    print(f"  {what:<44} {value:6.2f}{unit}   target {target:g}{unit}   {verdict}")
    return met


def reaches(what: str, value: float, target: float, unit: str = "") -> bool:
    """Print *value* beside the least it may be; returns whether it is no less."""
    met = value >= target
    verdict = "met" if met else "MISSED"
    print(f"  {what:<44} {value:6.2f}{unit}   target >= {target:g}{unit}   {verdict}")
    return met


def print_load() -> None:
    """How busy the machine is: figures of a busy one are worth little."""
    load, _, _ = os.getloadavg()
    print(f"  load {load:.1f} on {os.cpu_count()} processors")


@dataclass(frozen=True, slots=True)
class Options:
    """None where nothing was said: each benchmark then takes what its target names."""

    partitions: int | None = None
    runs: int | None = None
    records: int | None = None
    """Of 1,000 bytes; of 100 bytes there are ten times as many."""


JVM_OPTIONS = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
"""What bin/kafka-run-class.sh gives a tool when the environment says nothing."""


def kafka_tool(kafka: Distribution, script: str, tool: str, *arguments: str) -> Program:
    """The class *tool*, under the name of its *script*, without the script's own work."""
    command = [str(kafka.java), *JVM_OPTIONS, "-cp", kafka.classpath, tool, *arguments]
    return Program(script, command)


def lean_kafka_tool(kafka: Distribution, script: str, tool: str, *arguments: str) -> Program:
    """The same with a JVM set to start as fast as it can: no target, but worth knowing."""
    return Program(f"{script}, leanest JVM", tool_command(kafka, tool, arguments))


VERSION = "5.1.0"
NAME = f"kaskade {VERSION}"


def kaskade(address: str, environment: Mapping[str, str] | None) -> Program:
    """Its list of topics; installed if it is not there yet.

    Raises:
        subprocess.CalledProcessError: it cannot be installed.
    """
    folder = user_cache_path("breakglass") / f"kaskade-{VERSION}"
    program = folder / "bin" / "kaskade"
    if not program.exists():
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        install = ("-m", "pip", "install", "--quiet", f"kaskade=={VERSION}")
        subprocess.run([python, *install], check=True)
    return Program(NAME, [program, "admin", "-b", address], environment)


NEVER_SECONDS = 3600.0
"""Refreshes so far apart that no benchmark sees a second one."""
JUDGED_SECONDS = 300.0
"""Time enough to read 100,000 partitions on a busy machine."""

Shown = Callable[[str], bool]
"""Whether the text of a screen holds what is waited for."""

_VERDICT = re.compile(rf"\b({'|'.join(Verdict)})\b")


def console(address: str, folder: Path, interval: float = NEVER_SECONDS) -> Program:
    """The console, read-only, with a refresh each *interval* seconds."""
    program = ours("breakglass", folder, "--bootstrap-server", address)
    settings = folder / "config" / "breakglass" / "console.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"refresh-seconds = {interval}\n", encoding="utf-8")
    return program


def useful(count: int) -> Shown:
    """It tells how many partitions are offline, and at least one verdict."""
    offline = f"{count:,} offline"
    return lambda text: offline in text and _VERDICT.search(text) is not None


def judged(count: int) -> Shown:
    """All are judged: the headline speaks of *count*."""
    headline = f" of {count:,} come back whole."
    return lambda text: headline in " ".join(text.split())


ROLES = ("driver", "JVM", "workers")
SAMPLE_SECONDS = 0.25


def roles(driver: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    """The process *driver* and those it started, each with its role."""
    yield "driver", driver
    for child in driver.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            yield "JVM" if child.name() == "java" else "workers", child


def spent(driver: psutil.Process) -> dict[str, float]:
    """Seconds of processor time by role, of ended workers too."""
    seconds = dict.fromkeys(ROLES, 0.0)
    for role, one in roles(driver):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            seconds[role] += times.user + times.system
            if role == "workers":
                seconds[role] += times.children_user + times.children_system
    return seconds


def held(driver: psutil.Process) -> dict[str, float]:
    """Megabytes of memory by role, mapped files left out; what processes share is split."""
    megabytes = dict.fromkeys(ROLES, 0.0)
    for role, one in roles(driver):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            megabytes[role] += anonymous(one.pid)
    return megabytes


def anonymous(pid: int) -> float:
    """Megabytes of a process that lie in no file. Raises psutil.NoSuchProcess."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file.readlines()[1:])
    except OSError:
        raise psutil.NoSuchProcess(pid) from None
    return int(lines["Pss_Anon"].split()[0]) * 1024 / 1e6


class Peak:
    """The most that each role held while the block ran."""

    def __init__(self, driver: psutil.Process) -> None:
        self.megabytes: Mapping[str, float] = dict.fromkeys(ROLES, 0.0)
        self._driver = driver
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            now = held(self._driver)
            self.megabytes = {role: max(self.megabytes[role], now[role]) for role in ROLES}


ANSWER_SECONDS = 30.0
LOOK_SECONDS = 0.05
HISTOGRAM = ("jcmd", "GC.class_histogram", "", "")
BYTES_AT = 2
"""Of the fields in the histogram's last line: ``Total <instances> <bytes>``."""


def live_heap(pid: int) -> float:
    """Megabytes of what is reachable in the JVM *pid*, which collects its heap for that.

    Raises:
        RuntimeError: it does not answer.
    """
    told = _ask(pid).splitlines()
    totals = [line.split() for line in told if line.startswith("Total")]
    if not totals:
        raise RuntimeError(f"the JVM {pid} tells no histogram: {told[:2]}")
    return int(totals[-1][BYTES_AT]) / 1e6


def _ask(pid: int) -> str:
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(ANSWER_SECONDS)
        asked.connect(str(_listening(pid)))
        asked.sendall(b"1\0" + b"".join(text.encode() + b"\0" for text in HISTOGRAM))
        pieces = iter(lambda: asked.recv(2**16), b"")
        return b"".join(pieces).decode(errors="replace")


def _listening(pid: int) -> Path:
    """The socket of the JVM, which opens it when it finds the file and is given a SIGQUIT."""
    where = Path(f"/tmp/.java_pid{pid}")  # noqa: S108 - HotSpot's own place
    if where.is_socket():
        return where
    wanted = Path(f"/proc/{pid}/cwd/.attach_pid{pid}")
    wanted.touch()
    try:
        os.kill(pid, signal.SIGQUIT)
        give_up = time.monotonic() + ANSWER_SECONDS
        while not where.is_socket():
            if time.monotonic() > give_up:
                raise RuntimeError(f"the JVM {pid} opens no socket")
            time.sleep(LOOK_SECONDS)
    finally:
        wanted.unlink(missing_ok=True)
    return where
