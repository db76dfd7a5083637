"""Watches a cluster's health: every look takes in what was read, and keeps what was not.

min.insync.replicas of the topics where it decides anything: asked for when needed, and kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.health.counts import (
    BrokerHealth,
    ClusterTally,
    History,
    Moves,
    PartitionCounts,
    Trouble,
    Voice,
    brokers_of,
    partitions_in,
    tally,
    topics_to_judge,
)
from breakglass.services.health.figure import BackupGlance, Figure, MonitoredBackup
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Denied, PartitionState, TopicSettings, Unknown
from breakglass.services.snapshot import Broker, ClusterSnapshot, Quorum

if TYPE_CHECKING:
    from breakglass.services.health.counts import LogDirsAnswer
    from breakglass.services.kafka.read_client import ReadClient


KEPT_SECONDS = 60.0
"""Seconds after which a setting is read again, also a setting that an ACL hides."""


@dataclass(frozen=True, slots=True)
class _Kept:
    value: int | Unknown
    until: float
    """Seconds, on the clock of `Minimums`."""


class Minimums:
    """What brokers reported, by topic. For one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    @property
    def known(self) -> Mapping[str, int | Unknown]:
        return {topic: minimum.value for topic, minimum in self._kept.items()}

    def missing(self, topics: Iterable[str]) -> list[str]:
        """The topics among *topics* that have to be read, in order."""
        now = self._clock()
        return sorted(
            topic for topic in topics if topic not in self._kept or self._kept[topic].until < now
        )

    def learn(self, settings: Mapping[str, TopicSettings]) -> None:
        """Take in *settings*, as brokers reported them.

        Where no broker answered, the setting known before stands, unless an ACL denies it,
        and is asked for again the next time.
        """
        now = self._clock()
        for topic, setting in settings.items():
            self._kept[topic] = self._taken(topic, setting.min_insync_replicas, now)

    def forget_all_but(self, topics: Iterable[str]) -> None:
        """Drop every topic but *topics*, so that what is kept stays small."""
        self._kept = {topic: self._kept[topic] for topic in topics if topic in self._kept}

    def _taken(self, topic: str, minimum: int | Unknown, now: float) -> _Kept:
        if isinstance(minimum, int | Denied):
            return _Kept(minimum, now + KEPT_SECONDS)
        before = self._kept.get(topic)
        return _Kept(before.value if before is not None else minimum, now)


TOPICS_A_REQUEST = 500

NOT_READ: Figure[Any] = Figure(Unknown("the cluster was not read yet"), 0)
NOTHING_YET = History()


@dataclass(frozen=True, slots=True)
class Health:
    """The cluster at a glance; each figure with its age."""

    cluster_id: str = ""
    """Empty until the cluster was read once."""
    quorum: Figure[Quorum] = NOT_READ
    brokers: Figure[tuple[BrokerHealth, ...]] = NOT_READ
    counts: Figure[PartitionCounts] = NOT_READ
    reassignments: Figure[Moves] = NOT_READ
    history: History = NOTHING_YET
    backups: Mapping[str, Figure[BackupGlance]] = field(default_factory=dict)
    """By the name of their source; empty while no backup is in use."""


class Monitor:
    """Takes in the looks at a cluster; its methods may be called from any thread."""

    def __init__(
        self, backups: Sequence[MonitoredBackup] = (), now_ms: Callable[[], int] = now_ms
    ) -> None:
        self._sources = tuple(backups)
        self.now_ms = now_ms
        """The clock that every figure's age is by."""
        self._asking = threading.Lock()
        self._changing = threading.Lock()
        """Never locked while a broker is waited for."""
        self._minimums = Minimums()
        self._voices: dict[int, Voice] = {}
        self._snapshot: ClusterSnapshot | None = None
        self._tally: ClusterTally | None = None
        self._health = Health()

    @property
    def health(self) -> Health:
        """What is known now."""
        return self._health

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The partitions of the last snapshot."""
        return () if self._snapshot is None else self._snapshot.brokers

    def seen(self, snapshot: ClusterSnapshot) -> Health:
        """Take in a snapshot that was just read; sends nothing.

        Counting 100,000 partitions takes a tenth of a second: not for a thread that draws.
        """
        at = self.now_ms()
        with self._changing:
            self._snapshot = snapshot
            self._minimums.learn(snapshot.settings)
            old = self._health
            summed = self._summed(snapshot)
            self._health = replace(
                old,
                cluster_id=snapshot.cluster_id,
                quorum=old.quorum.again(snapshot.quorum, at),
                brokers=Figure(brokers_of(snapshot, summed.held, self._voices), at),
                counts=Figure(summed.counts, at),
                reassignments=old.reassignments.again(summed.moves, at),
                history=old.history.counted(summed.counts, at),
            )
            return self._health

    def partitions_in(self, trouble: Trouble) -> list[PartitionState]:
        """The partitions in *trouble* by the last snapshot; not for a thread that draws."""
        with self._changing:
            if self._snapshot is None:
                return []
            return partitions_in(trouble, self._snapshot.partitions, self._minimums.known)

    def missed(self, reason: str) -> Health:
        """Take in that no snapshot could be read, for *reason*: every figure keeps its age."""
        failed, now = Unknown(reason), self.now_ms()
        with self._changing:
            old = self._health
            self._health = replace(
                old,
                quorum=old.quorum.again(failed, now),
                brokers=old.brokers.again(failed, now),
                counts=old.counts.again(failed, now),
                reassignments=old.reassignments.again(failed, now),
                history=old.history.missed(now),
            )
            return self._health

    def ask(self, client: ReadClient, seconds: float = patience.LOOK) -> Health:
        """Ask brokers of themselves, topics for their minimum, and backups: at most *seconds*.

        *client* is one that snapshots were read with: it knows where brokers are. Asks nobody
        before a snapshot was seen, nor while another thread asks.
        """
        from breakglass.services.health.counts import ask_brokers

        snapshot = self._snapshot
        if snapshot is None or not self._asking.acquire(blocking=False):
            return self._health
        try:
            deadline = Deadline.after(seconds)
            # A hung broker takes all of its time, so nothing else may wait for it.
            with ThreadPoolExecutor(2, "health") as beside:
                settings = beside.submit(self._settings, client, snapshot, deadline)
                glances = beside.submit(self._glances, deadline)
                brokers = [broker.id for broker in snapshot.brokers]
                answers = ask_brokers(client.sender, brokers, deadline)
                return self.told(answers, settings.result(), glances.result())
        finally:
            self._asking.release()

    def _settings(
        self, client: ReadClient, snapshot: ClusterSnapshot, deadline: Deadline
    ) -> dict[str, TopicSettings]:
        """The settings that are missing, of the topics that need them, until *deadline*."""
        topics = topics_to_judge(snapshot.partitions)
        with self._changing:
            self._minimums.forget_all_but({*topics, *snapshot.settings})
            missing = self._minimums.missing(topics)
        settings: dict[str, TopicSettings] = {}
        for begin in range(0, len(missing), TOPICS_A_REQUEST):
            if deadline.passed:
                break
            settings.update(client.settings(missing[begin : begin + TOPICS_A_REQUEST], deadline))
        return settings

    def _glances(self, deadline: Deadline) -> dict[str, BackupGlance | Unknown]:
        return {source.name: _glance(source, deadline) for source in self._sources}

    def told(
        self,
        answers: Mapping[int, LogDirsAnswer],
        settings: Mapping[str, TopicSettings],
        glances: Mapping[str, BackupGlance | Unknown],
    ) -> Health:
        """Take in the answers; the figures of the snapshot keep their age."""
        now = self.now_ms()
        with self._changing:
            snapshot, old = self._snapshot, self._health
            if snapshot is None:
                return old
            self._minimums.learn(settings)
            self._voices = {broker: self._heard(broker, answers[broker], now) for broker in answers}
            before, summed = old.backups, self._summed(snapshot)
            self._health = replace(
                old,
                brokers=replace(old.brokers, value=brokers_of(snapshot, summed.held, self._voices)),
                counts=replace(old.counts, value=summed.counts),
                backups={
                    name: before.get(name, NOT_READ).again(glance, now)
                    for name, glance in glances.items()
                },
            )
            return self._health

    def _summed(self, snapshot: ClusterSnapshot) -> ClusterTally:
        self._tally = tally(snapshot.partitions, self._minimums.known, self._tally)
        return self._tally

    def _heard(self, broker: int, answer: LogDirsAnswer, now_ms: int) -> Voice:
        dirs = self._voices.get(broker, Voice()).log_dirs
        return Voice(answer.why_silent, now_ms, dirs.again(answer.log_dirs, now_ms))


def _glance(source: MonitoredBackup, deadline: Deadline) -> BackupGlance | Unknown:
    try:
        return source.glance(deadline)
    except BreakglassError as error:
        return Unknown(str(error))
