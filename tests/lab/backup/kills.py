"""kill -9 at random points of a backup or a restore, until it has come to its end all the same."""

import contextlib
import json
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import psutil

from breakglass.services.lab.cluster import Cluster
from tests.kit.program import Ended
from tests.kit.running import Running, running
from tests.kit.waiting import wait_until
from tests.lab.backup.independent import Content, committed, delivered, stored
from tests.lab.backup.spark_cluster import SparkCluster
from tests.lab.backup.watching import jvms, python_workers

PARTITIONS = (0, 1)
ENDED_EARLY = (1, 4, -9)
"""Failed, or the cluster could not be asked, or killed."""
ATTEMPTS = 4
"""How often it may fail beside the attempts that end because something was killed."""


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

    def started(
        self, words: Sequence[str], place: Place = Place.WORKERS
    ) -> AbstractContextManager[Running]:
        """`breakglass backup` under way; killed at the end if it still is."""
        where = ["--bootstrap-server", self.broker.bootstrap_servers]
        where += ["--master", self.spark.master] if place is Place.WORKERS else []
        return running(None, "backup", *words, *where, environment=self.spark.environment)


@dataclass(frozen=True, slots=True)
class KilledBackup:
    """Of all topics of a scene."""

    scene: Scene
    name: str
    """Of its folder."""

    @property
    def whole(self) -> int:
        """Bytes of the whole backup."""
        return _size(self.scene.whole)

    def words(self) -> list[str]:
        """The same again and again."""
        return [
            "run",
            "--topics",
            ",".join(self.scene.topics),
            "--store",
            str(self._root),
            "--json",
        ]

    def reached(self) -> int:
        """Bytes of all files, committed or not."""
        return _size(self._root)

    @property
    def over(self) -> bool:
        """Only a run that ends well is."""
        return False

    def failed(self, ended: Ended) -> None:
        """What was committed is the truth as far as it goes."""
        assert ended.code in ENDED_EARLY, ended
        for topic, number in self.scene.truth:
            folder = self._root / topic
            held = committed(folder, number) if folder.is_dir() else []
            assert held == self.scene.truth[topic, number][: len(held)], "what was committed"

    def done(self, _: Ended) -> None:
        """Every record once, and nothing beside."""
        for (topic, number), truth in self.scene.truth.items():
            assert stored(self._root / topic, number) == truth
            assert committed(self._root / topic, number) == truth
        assert list(self._root.glob("*/.breakglass-*")) == []
        shutil.rmtree(self._root)

    @property
    def _root(self) -> Path:
        return self.scene.folder / self.name


@dataclass(frozen=True, slots=True)
class KilledRestore:
    """Of the first topic of a scene, into a new one."""

    scene: Scene
    name: str
    """Of the new topic."""

    @property
    def whole(self) -> int:
        """Bytes of the log that was backed up, about those of the new one."""
        return self._logged(self._source)

    def words(self) -> list[str]:
        """To go on, once it was begun."""
        records = sum(len(self.scene.truth[self._source, number]) for number in PARTITIONS)
        words = ["restore", "--store", str(self.scene.whole), "--topics", self._source, "--json"]
        words += ["--map", f"{self._source}={self.name}", "--batch-records", "20"]
        words += ["--progress", str(self.scene.folder / "state"), "--write"]
        words += ["--consent", f"restore {records:,} records into {self.name}"]
        return [*words, "--resume"] if self._state else words

    def reached(self) -> int:
        """Bytes of its log."""
        return self._logged(self.name)

    @property
    def over(self) -> bool:
        """Whether it had noted its end when it was killed."""
        return bool(self._state.get("ended"))

    def failed(self, ended: Ended) -> None:
        """How far it is, it says when it goes on."""
        assert ended.code in ENDED_EARLY, ended

    def done(self, ended: Ended) -> None:
        """The same records in the same order, and it says so itself."""
        assert self._state["verified"] is True, ended
        for number in PARTITIONS:
            restored = [content for _, content in delivered(self.scene.broker, self.name, number)]
            assert restored == [content for _, content in self.scene.truth[self._source, number]]

    def _logged(self, topic: str) -> int:
        """Bytes of a topic's log, as they lie on the broker's disk: whether it runs or not."""
        folders = [
            self.scene.broker.node(1).partition_folder(topic, partition) for partition in PARTITIONS
        ]
        return sum(_size(folder, "*.log") for folder in folders if folder is not None)

    @property
    def _source(self) -> str:
        return self.scene.topics[0]

    @property
    def _state(self) -> dict[str, Any]:
        """What it has noted; nothing before it was begun."""
        with contextlib.suppress(FileNotFoundError):
            path = self.scene.folder / "state" / self.name / "restore.json"
            return cast("dict[str, Any]", json.loads(path.read_bytes()))
        return {}


def _size(folder: Path, names: str = "*") -> int:
    """Bytes of the files below *folder*, which come and go."""
    total = 0
    for path in folder.rglob(names) if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


KilledJob = KilledBackup | KilledRestore


@dataclass(frozen=True, slots=True)
class Siege:
    """Kills *victims*, one after the other."""

    scene: Scene
    place: Place
    job: KilledJob
    victims: Sequence[Victim]
    chance: random.Random
    tell: Callable[[str], None] = print

    def run(self) -> int:
        """Kill and go on to the end; returns how many it killed, all unless it ended before."""
        waiting = list(self.victims)
        for _ in range(len(self.victims) + ATTEMPTS):
            with self.scene.started(self.job.words(), self.place) as command:
                process = command.process
                # Kill while the command runs.
                while waiting and self._reached_somewhere(process, len(waiting)):
                    hit = self.job.reached()
                    if self._kill(waiting[0], process):
                        self.tell(f"  {waiting.pop(0)} at {hit:,} of {self.job.whole:,}")
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(self.chance.uniform(0.05, 0.5))
                # What a killed driver leaves behind it may still be at work when the next begins.
                killed = process.poll() == -signal.SIGKILL
                ended = Ended(-signal.SIGKILL, "", "") if killed else end_of(command)
            if ended.code != 0:
                self.job.failed(ended)
            if ended.code == 0 or self.job.over:
                self.job.done(ended)
                return len(self.victims) - len(waiting)
        raise AssertionError(f"it does not succeed: {ended}")

    def _reached_somewhere(self, process: subprocess.Popen[str], kills: int) -> bool:
        """Wait until it is somewhere on its way; False if it came to its end before."""
        whole, at = self.job.whole, self.job.reached()
        # Past the whole size, for the end of the copy is not the end of the run.
        upto = min(at + self.chance.uniform(0, 1.1) * (whole - at) / kills, whole)
        wait_until(
            lambda: process.poll() is not None or self.job.reached() >= upto,
            f"it to come to {upto:,.0f}",
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
            number = self.chance.choice((1, 2))
            self.scene.spark.kill_worker(number)
            self.scene.spark.start_worker(number)
        elif victim is Victim.BROKER:
            node = self.scene.broker.node(1)
            node.kill()
            time.sleep(self.chance.uniform(0, 3))
            node.start()
            self.scene.broker.wait_unfenced(1)
        else:
            found = jvms(process) if victim is Victim.JVM else python_workers()
            if not found:
                return False
            with contextlib.suppress(psutil.NoSuchProcess):
                self.chance.choice(found).kill()
        return True


def end_of(command: Running) -> Ended:
    """Wait for the end of a command."""
    return Ended(command.wait(), command.out, "\n".join(command.said))
