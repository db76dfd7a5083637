"""A session of ours in a process of its own, told job after job: the first finds a cold JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks._usage import Peak, spent


@dataclass(frozen=True, slots=True)
class Job:
    """One job that was done."""

    records: int
    seconds: float
    """As our own report has them."""
    cpu: Mapping[str, float]
    """Seconds of processor time by role."""
    peak: Mapping[str, float]
    """Megabytes by role."""

    def costs(self) -> str:
        """In words, for a line of figures."""
        return f"{self.seconds:.1f} s; cpu {_by_role(self.cpu, '.1f')} s"

    def memory(self) -> str:
        """In words, too."""
        return f"at most {_by_role(self.peak, '.0f')} MB"


def _by_role(figures: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{role} {figure:{form}}" for role, figure in figures.items())


class Session:
    """The process, from this side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def back_up(self, topic: str, folder: Path) -> Job:
        """Copy *topic* into *folder*, which is empty."""
        return self._ask(do="backup", topic=topic, folder=str(folder))

    def verify(self, topic: str, folder: Path) -> Job:
        """Compare the copy in *folder* with its *topic*, which must be the same."""
        return self._ask(do="verify", topic=topic, folder=str(folder))

    def restore(self, topic: str, folder: Path, target: str, state: Path) -> Job:
        """Make the topic *target* of the copy in *folder*; *state* keeps how far it is."""
        where = {"folder": str(folder), "target": target, "state": str(state)}
        return self._ask(do="restore", topic=topic, **where)

    def _ask(self, **job: str) -> Job:
        driver = psutil.Process(self._process.pid)
        assert self._process.stdin
        assert self._process.stdout
        before = spent(driver)
        with Peak(driver) as peak:
            print(json.dumps(job), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the session ended with {self._process.wait()}")
        cpu = {role: seconds - before[role] for role, seconds in spent(driver).items()}
        told = json.loads(answer)
        return Job(told["records"], told["seconds"], cpu, peak.megabytes)


@contextmanager
def session(bootstrap: str) -> Iterator[Session]:
    """A session that has started, Spark included."""
    command = [sys.executable, "-m", "benchmarks._jobs", bootstrap]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        if not process.stdout.readline():
            raise RuntimeError(f"the session did not start: it ended with {process.wait()}")
        yield Session(process)
        assert process.stdin
        process.stdin.close()
