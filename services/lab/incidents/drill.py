"""A drill: a random incident raised on a lab, handed over, and judged when the player is done.

What is known when it is handed over comes from the bookkeeper, which reads every log folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

from breakglass.bookkeeping.judge import JudgeFinding, SaidPartition, read_rescues
from breakglass.bookkeeping.log_files import DamagedLog
from breakglass.bookkeeping.producer import ClusterState, changes, read_cluster
from breakglass.bookkeeping.score import (
    BestLeader,
    DrillPlay,
    DrillScene,
    DrillScore,
    believed,
    best_leaders,
    score,
    wrong_verdicts,
)
from breakglass.services.errors import LabError, StorageError, Unreachable
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.incidents.incident import Happening, LabIncident
from breakglass.services.lab.incidents.replay import BestPlay, Brokers, best_play
from breakglass.services.lab.incidents.wreck import Wreck
from breakglass.services.model import PartitionState, Unknown

TRIES = 3
ORDER_SECONDS = 10.0
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What the player gets to know, and what only the bookkeeper knows."""

    scene: DrillScene
    best: tuple[BestLeader, ...]
    brokers: Brokers

    @property
    def startable(self) -> list[int]:
        return sorted(self.scene.returnable - set(self.brokers.hung))


@dataclass(slots=True)
class Drill:
    """One incident on its lab."""

    wreck: Wreck
    handed_over: HandedOver
    said: tuple[SaidPartition, ...] = ()
    """What triage said when the incident was handed over."""
    wrong: tuple[JudgeFinding, ...] = ()
    """Of that, what the disks do not bear out."""

    @property
    def incident(self) -> LabIncident:
        return self.wreck.incident

    @property
    def cluster(self) -> Cluster:
        return self.wreck.cluster

    @property
    def over(self) -> bool:
        """Nothing is offline that can be brought back, and nothing that had a leader."""
        scene = self.handed_over.scene
        beyond = scene.offline - {best.name for best in self.handed_over.best}
        try:
            return not self.wreck.offline() - beyond
        except (LabError, Unreachable):
            return False

    def hear(self, said: Iterable[SaidPartition]) -> None:
        """Keep what a triage says, with the lost brokers declared gone, and check it."""
        self.said = tuple(said)
        names = [partition.name for partition in self.said]
        ever = {name: self.wreck.book.ever_ended_at(name) for name in names}
        gone = self.handed_over.brokers.gone
        self.wrong = wrong_verdicts(self.said, self.handed_over.scene, ever, gone)

    def replay(self) -> BestPlay:
        """What would have been best."""
        known = self.handed_over
        return best_play(known.scene, known.best, self.said, known.brokers)

    def judge(
        self, rescues: Path, *, seconds: float = 0.0, keys: int = 0, commands: int = 0
    ) -> DrillScore:
        """The score of what there is now; *rescues* is the folder of this cluster's rescues.

        Raises:
            LabError: the lab does not say what there is.
        """
        self.wreck.settle()
        leaders = {name: state.leader for name, state in self.wreck.partitions().items()}
        play = DrillPlay(
            self.wreck.read(),
            leaders,
            read_rescues(rescues),
            self._changed(),
            believed(self.wrong, self.said, leaders),
            seconds,
            keys,
            commands,
        )
        best = self.replay()
        return score(self.handed_over.scene, play, best_keys=best.keys, best_commands=best.commands)

    def _changed(self) -> tuple[str, ...]:
        """Settings and orders that are not as they were; an order is put back a moment later."""
        before = self.handed_over.scene.state
        found: list[str] = []

        def as_it_was() -> bool:
            found[:] = changes(before, read_state(self.cluster))
            return not found

        try:
            self.cluster.wait_until(as_it_was, "settings as they were", timeout=ORDER_SECONDS)
        except LabError:
            return tuple(found)
        return ()


def raise_drill(incidents: Iterable[LabIncident], folder: Path) -> Drill:
    """Play the first of *incidents* that leaves something to bring back, on a lab in *folder*.

    Where it is interrupted, the lab runs on: `services.lab.keeper` takes it down.

    Raises:
        LabError: no lab could be started, or none of three incidents could be played and left
            anything to bring back.
    """
    why = "nothing that can be brought back was offline"
    for incident in islice(incidents, TRIES):
        wreck = Wreck.start(incident, folder, tethered=False)
        try:
            wreck.play()
            handed_over = hand_over(wreck)
        except (LabError, Unreachable, DamagedLog) as error:
            why = str(error)
        else:
            if handed_over.best:
                for broker in handed_over.brokers.gone:
                    wreck.cluster.give_up(broker)
                return Drill(wreck, handed_over)
        wreck.cluster.down()
    raise LabError(f"This drill cannot be raised ({why}): name another --seed.")


def hand_over(wreck: Wreck) -> HandedOver:
    """Read everything as it is now."""
    cluster = wreck.cluster
    states = wreck.partitions()
    disks, fenced = wreck.read(), cluster.fenced()
    offline = {name: state for name, state in states.items() if state.offline}
    # Brokers that came back with new disks.
    emptied = [step for step in wreck.incident.steps if step.act is Happening.RETURN_EMPTY]
    empty = {broker for step in emptied for broker in step.brokers} & wreck.awake
    back = frozenset(wreck.incident.curable) - wreck.awake
    scene = DrillScene(
        disks,
        read_state(cluster),
        frozenset(offline),
        {
            name: [b for b in disks.readable.get(name, ()) if fenced.get(b) is False]
            for name in offline
        },
        {name: _successors(state) for name, state in offline.items()},
        back,
        frozenset({topic.name for topic in wreck.incident.topics if topic.compacted} | INTERNAL),
    )
    out = {node.id for node in cluster.brokers} - wreck.awake - back
    hung = tuple(sorted(broker for broker in back if cluster.broker(broker).paused))
    # Whether broker may lead a partition of which it holds nothing and others do.
    bombs = {
        broker
        for broker in empty
        if any(
            broker in scene.successors[name]
            and broker in scene.electable[name]
            and not scene.log(name, broker).places
            and any(log.places for log in scene.required(name).values())
            for name in scene.offline
        )
    }
    disks_of = {broker: _log_dirs(cluster, broker) for broker in back}
    brokers = Brokers(sorted(out), disks_of, hung, sorted(bombs))
    return HandedOver(scene, best_leaders(scene), brokers)


def _log_dirs(cluster: Cluster, broker: int) -> list[str]:
    """The log directories of a broker, below the folder of the lab."""
    paths = cluster.broker(broker).layout.log_dirs
    return [str(path.relative_to(cluster.state_dir)) for path in paths]


def read_state(cluster: Cluster) -> ClusterState:
    """Settings, orders and leaders, as the bookkeeper reads them."""
    return read_cluster(cluster.lab_bootstrap)


def _successors(state: PartitionState) -> set[int]:
    """Who leads by itself as soon as it is back: in sync last, or recorded as eligible."""
    elr = () if isinstance(state.elr, Unknown) else state.elr
    last = () if isinstance(state.last_known_elr, Unknown) else state.last_known_elr
    return {*state.isr, *elr, *last}


FILE = "drills.jsonl"
"""In the user's state folder."""


@dataclass(frozen=True, slots=True)
class PlayedDrill:
    """One drill that was played to its end."""

    at: str
    """When it ended, in UTC."""
    seed: int
    level: str
    player: str
    """``keys`` for a person, ``auto`` for Breakglass itself."""
    score: int
    partitions: int
    """Partitions that could be brought back."""
    left: int
    """Of these, and of those that had a leader, the partitions without leader at the end."""
    lost: int
    """Records."""
    seconds: int
    keys: int
    commands: int
    kafka_version: str = ""


def remember(played: PlayedDrill, folder: Path) -> Path:
    """Add a line to the history in *folder*; returns the file.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / FILE
    line = json.dumps(asdict(played), separators=(",", ":")) + "\n"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        raise StorageError(
            f"The score cannot be written to {path} ({error.strerror}): make room there."
        ) from error
    return path


def history(folder: Path) -> list[PlayedDrill]:
    """The drills that were played, oldest first; lines that are torn or of no drill are left out.

    Raises:
        StorageError: the file is there and cannot be read.
    """
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}): see who owns it.") from error
    found = (_played(line) for line in text.splitlines())
    return [played for played in found if played is not None]


def _played(line: str) -> PlayedDrill | None:
    try:
        read: Any = json.loads(line)
        known = {field.name for field in fields(PlayedDrill)}
        return PlayedDrill(**{name: value for name, value in read.items() if name in known})
    except (ValueError, TypeError, AttributeError):
        return None
