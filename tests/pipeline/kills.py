"""kill -9 at random points of a backup or a restore, until it has come to its end all the same."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import psutil

from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import wait_until
from tests.pipeline.independent import Content
from tests.pipeline.spark_cluster import SparkCluster
from tests.pipeline.watching import jvms, python_workers

COMMAND_SECONDS = 240.0
ATTEMPTS = 4
"""How often it may fail beside the attempts that end because something was killed."""
PROGRAM = "import sys; from breakglass.console.cli import main; sys.exit(main())"


class Victim(StrEnum):
    """What is killed."""

    DRIVER = "driver"
    JVM = "jvm"
    """Of the driver."""
    PYTHON = "python worker"
    WORKER = "worker"
    """A machine of Spark's, with all that runs there."""
    BROKER = "broker"


class Place(StrEnum):
    """Where Spark runs."""

    HERE = "here"
    WORKERS = "workers"


VICTIMS = {
    Place.HERE: {Victim.DRIVER: 2, Victim.JVM: 1, Victim.PYTHON: 4, Victim.BROKER: 3},
    Place.WORKERS: {Victim.DRIVER: 1, Victim.WORKER: 3, Victim.BROKER: 1},
}
"""Who can be killed there, and how often beside the others: a driver is slow to begin anew."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Brokers, workers of Spark, and topics with a whole backup of them."""

    broker: Cluster
    spark: SparkCluster
    folder: Path
    topics: tuple[str, ...]
    truth: dict[tuple[str, int], list[tuple[int, Content]]]
    """By topic and partition."""

    @property
    def whole(self) -> Path:
        """The whole backup."""
        return self.folder / "whole"

    @contextmanager
    def started(
        self, words: Sequence[str], place: Place = Place.WORKERS
    ) -> Iterator[subprocess.Popen[str]]:
        """`breakglass backup` under way; killed at the end if it still is."""
        where = ["--bootstrap-server", self.broker.bootstrap_servers]
        where += ["--master", self.spark.master] if place is Place.WORKERS else []
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "backup", *words, *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.spark.environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that came to its end."""

    code: int
    out: str = ""
    err: str = ""


class Job(Protocol):
    """What is killed in, and has to be whole at the end."""

    @property
    def whole(self) -> int:
        """What `reached` comes to."""

    def words(self) -> list[str]:
        """The command for the next attempt."""

    def reached(self) -> int:
        """How far it is."""

    @property
    def over(self) -> bool:
        """Whether nothing is left to be done, though an attempt did not end well."""

    def failed(self, ended: Ended) -> None:
        """Look at what an attempt left."""

    def done(self, ended: Ended) -> None:
        """Look at what is there in the end."""


@dataclass(frozen=True, slots=True)
class Siege:
    """Kills *victims*, one after the other."""

    scene: Scene
    place: Place
    job: Job
    victims: Sequence[Victim]
    chance: random.Random
    tell: Callable[[str], None] = print

    def run(self) -> int:
        """Kill and go on to the end; returns how many it killed, all unless it ended before."""
        waiting = list(self.victims)
        for _ in range(len(self.victims) + ATTEMPTS):
            with self.scene.started(self.job.words(), self.place) as process:
                self._kills(process, waiting)
                # What a killed driver leaves behind it may still be at work when the next begins.
                killed = process.poll() == -signal.SIGKILL
                ended = Ended(-signal.SIGKILL) if killed else end_of(process)
            if ended.code != 0:
                self.job.failed(ended)
            if ended.code == 0 or self.job.over:
                self.job.done(ended)
                return len(self.victims) - len(waiting)
        raise AssertionError(f"it does not succeed: {ended}")

    def _kills(self, process: subprocess.Popen[str], waiting: list[Victim]) -> None:
        """Kill while the command runs."""
        while waiting and self._reached_somewhere(process, len(waiting)):
            hit = self.job.reached()
            if self._kill(waiting[0], process):
                self.tell(f"  {waiting.pop(0)} at {hit:,} of {self.job.whole:,}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.chance.uniform(0.05, 0.5))

    def _reached_somewhere(self, process: subprocess.Popen[str], kills: int) -> bool:
        """Wait until it is somewhere on its way; False if it came to its end before."""
        whole, at = self.job.whole, self.job.reached()
        # Past the whole size, for the end of the copy is not the end of the run.
        upto = min(at + self.chance.uniform(0, 1.1) * (whole - at) / kills, whole)
        wait_until(
            lambda: process.poll() is not None or self.job.reached() >= upto,
            f"it to come to {upto:,.0f}",
            COMMAND_SECONDS,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.chance.uniform(0, 0.3))
        return process.poll() is None

    def _kill(self, victim: Victim, process: subprocess.Popen[str]) -> bool:
        """Kill; False where there is nobody to be killed."""
        if victim is Victim.DRIVER:
            process.kill()
            process.wait()
        elif victim is Victim.WORKER:
            self._kill_worker()
        elif victim is Victim.BROKER:
            self._kill_broker()
        else:
            found = jvms(process) if victim is Victim.JVM else python_workers()
            if not found:
                return False
            with contextlib.suppress(psutil.NoSuchProcess):
                self.chance.choice(found).kill()
        return True

    def _kill_worker(self) -> None:
        number = self.chance.choice((1, 2))
        self.scene.spark.kill_worker(number)
        self.scene.spark.start_worker(number)

    def _kill_broker(self) -> None:
        node = self.scene.broker.node(1)
        node.kill()
        time.sleep(self.chance.uniform(0, 3))
        node.start()
        self.scene.broker.wait_unfenced(1)


def end_of(process: subprocess.Popen[str]) -> Ended:
    """Wait for the end of a command."""
    out, err = process.communicate(timeout=COMMAND_SECONDS)
    return Ended(process.returncode, out, err)
