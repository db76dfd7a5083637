"""A backup and a restore that are killed: how far they are, and what has to be there."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.pipeline.independent import committed, delivered, stored
from tests.pipeline.kills import Ended, Scene

PARTITIONS = (0, 1)
ENDED_EARLY = (1, 4, -9)
"""Failed, or the cluster could not be asked, or killed."""


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
