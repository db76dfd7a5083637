"""Whole processes, ours and the peer's in turn: wall and processor time, memory, their ratio."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

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
