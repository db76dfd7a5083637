"""Scores how an incident was recovered against the best that its disks allowed. Pure.

The score begins at 100, and never falls below 0. Taken off, each rounded up to whole points:

======== =================================================================================
100      times the share of partitions without leader, of those that could be brought back
10       if any record is lost that a replica held which answered or could be started again
60       times the share of such records that are lost
2        for each partition whose leader cut off more than the best one would, at most 10
5        for each setting that is not as it was, at most 10
5        for each wrong verdict that was believed, at most 10
1        for each full minute beyond ten, at most 5
1        for each full 100 keys, and 10 commands, more than the best play takes, at most 5
======== =================================================================================

A record that was saved before an election cut it off is not lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from breakglass.bookkeeping.judge import (
    JudgeFinding,
    SaidPartition,
    SavedRecord,
    check_said,
    missing_records,
)
from breakglass.bookkeeping.log_files import NO_LOG, DiskReading, FolderLog, HeldRecord, Name
from breakglass.bookkeeping.producer import ClusterState

WHOLE = 100
ANY_LOST, ALL_LOST = 10, 60
WORSE_LEADER, MOST_FOR_LEADERS = 2, 10
SETTING, MOST_FOR_SETTINGS = 5, 10
BELIEVED, MOST_FOR_BELIEVED = 5, 10
PAR_SECONDS, MINUTE, MOST_FOR_TIME = 600.0, 60.0, 5
KEYS, COMMANDS, MOST_FOR_EFFORT = 100, 10, 5


@dataclass(frozen=True, slots=True)
class DrillScene:
    """An incident at the moment when it was handed over."""

    disks: DiskReading
    state: ClusterState
    offline: frozenset[Name]
    electable: Mapping[Name, Collection[int]]
    """By partition, the brokers that an election can choose: not fenced, with a replica that
    answers."""
    successors: Mapping[Name, Collection[int]]
    """By partition, the brokers that lead by themselves as soon as they are back."""
    returnable: frozenset[int] = frozenset()
    """Brokers that are down or hang, and can be brought back with their disks."""
    compacted: frozenset[str] = frozenset()
    """Topics."""

    def required(self, name: Name) -> dict[int, FolderLog]:
        """The replicas of a partition whose records need not be lost."""
        back = {
            broker: log
            for broker, log in self.disks.held(name).items()
            if broker in self.returnable
        }
        return {**self.disks.readable_logs(name), **back}

    def log(self, name: Name, broker: int | None) -> FolderLog:
        """The replica of *broker*, whether or not it answers."""
        return NO_LOG if broker is None else self.disks.held(name).get(broker, NO_LOG)


@dataclass(frozen=True, slots=True)
class BestLeader:
    """What would have been best for one partition."""

    name: Name
    leader: int
    by_itself: bool
    """It leads as soon as it is back; others have to be elected."""
    cut_off: int
    """Records that others hold and it does not: they have to be saved before."""
    held: int
    """Distinct records of all replicas whose records need not be lost."""


@dataclass(frozen=True, slots=True)
class DrillPlay:
    """How a player left the cluster, and what that took."""

    disks: DiskReading
    leaders: Mapping[Name, int | None]
    saved: Mapping[Name, Collection[SavedRecord]]
    changed: tuple[str, ...] = ()
    """A sentence for each setting that is not as it was."""
    believed: tuple[JudgeFinding, ...] = ()
    seconds: float = 0.0
    keys: int = 0
    """Typed in the console."""
    commands: int = 0
    """Lines typed in the shell of the drill."""


@dataclass(frozen=True, slots=True)
class Deduction:
    """Points that were taken off, and why."""

    what: str
    points: int
    why: str


@dataclass(frozen=True, slots=True)
class PartitionScore:
    """How one partition was left."""

    best: BestLeader
    leader: int | None
    lost: tuple[HeldRecord, ...]
    """Neither in the leader's log nor saved; empty while nobody leads."""
    cut_off: int
    """Records that are not in the leader's log, saved or not."""

    @property
    def worse(self) -> bool:
        """Whether the leader cut off more than the best one would have."""
        return self.leader is not None and self.cut_off > self.best.cut_off


@dataclass(frozen=True, slots=True)
class DrillScore:
    """The whole score."""

    points: int
    deductions: tuple[Deduction, ...]
    partitions: tuple[PartitionScore, ...]
    """Those that could be brought back, by name."""
    harmed: tuple[Name, ...] = ()
    """Partitions that had a leader when the incident was handed over, and have none now."""

    @property
    def lost(self) -> int:
        """Records lost in all partitions."""
        return sum(len(partition.lost) for partition in self.partitions)

    @property
    def left(self) -> int:
        """Partitions that could be brought back and were not, and those that were harmed."""
        return sum(partition.leader is None for partition in self.partitions) + len(self.harmed)


def best_leaders(scene: DrillScene) -> tuple[BestLeader, ...]:
    """The best leader of each offline partition that can be brought back, by name.

    A partition whose records are all on brokers that never return is left out.
    """
    found = [_best_leader(scene, name) for name in sorted(scene.offline)]
    return tuple(best for best in found if best is not None)


def _best_leader(scene: DrillScene, name: Name) -> BestLeader | None:
    required, order = scene.required(name), scene.state.orders.get(name, ())
    able = {*scene.electable.get(name, ()), *scene.returnable}
    candidates = [broker for broker in order if broker in able and scene.log(name, broker).places]
    heirs = scene.returnable & set(scene.successors.get(name, ()))
    itself = [broker for broker in candidates if broker in heirs]
    if not candidates:
        return None
    # By the last leader epoch that wrote to it, then by its end; the first of equals.
    leader = max(itself or candidates, key=lambda broker: _rank(scene.log(name, broker)))
    cut_off = _cut_off(scene, name, scene.log(name, leader))
    held = {(record.epoch, record.offset) for log in required.values() for record in log.records}
    return BestLeader(name, leader, bool(itself), len(cut_off), len(held))


def _rank(log: FolderLog) -> tuple[int, int]:
    written = [epoch for epoch, first in log.epochs if first < log.end]
    return (written[-1] if written else -1), log.end


def _cut_off(
    scene: DrillScene, name: Name, log: FolderLog, saved: Collection[SavedRecord] = ()
) -> list[HeldRecord]:
    compacted = name[0] in scene.compacted
    return missing_records(scene.required(name), log, saved, compacted=compacted)


def wrong_verdicts(
    said: Sequence[SaidPartition],
    scene: DrillScene,
    ever: Mapping[Name, int],
    gone: Collection[int],
) -> tuple[JudgeFinding, ...]:
    """What a triage said that the disks do not bear out."""
    return tuple(check_said(said, scene.disks, ever, scene.compacted, gone))


def believed(
    wrong: Iterable[JudgeFinding], said: Iterable[SaidPartition], leaders: Mapping[Name, int | None]
) -> tuple[JudgeFinding, ...]:
    """Those of *wrong* whose partition is led by the broker that the verdict named."""
    designees = {partition.name: partition.designee for partition in said}
    return tuple(
        finding
        for finding in wrong
        if finding.name is not None
        and designees.get(finding.name) is not None
        and leaders.get(finding.name) == designees[finding.name]
    )


def score(
    scene: DrillScene, play: DrillPlay, *, best_keys: int | None, best_commands: int
) -> DrillScore:
    """Hold *play* against the best; *best_keys* is None where keys alone cannot recover it."""
    partitions = tuple(_partition(scene, best, play) for best in best_leaders(scene))
    harmed = tuple(
        sorted(
            name
            for name, leader in scene.state.leaders.items()
            if leader is not None and name not in scene.offline and play.leaders.get(name) is None
        )
    )
    worse = [partition for partition in partitions if partition.worse]
    said = ", ".join(
        f"{_names([partition.best.name])} is led by b{partition.leader}, "
        f"b{partition.best.leader} would have cut off fewer records"
        for partition in worse
    )
    deductions = tuple(
        deduction
        for deduction in (
            _for_offline(partitions, harmed),
            *_for_lost(partitions),
            Deduction("leader", min(MOST_FOR_LEADERS, WORSE_LEADER * len(worse)), said),
            _for_settings(play),
            _for_believed(play),
            _for_time(play),
            _for_effort(play, best_keys, best_commands),
        )
        if deduction.points
    )
    points = max(0, WHOLE - sum(deduction.points for deduction in deductions))
    return DrillScore(points, deductions, partitions, harmed)


def _partition(scene: DrillScene, best: BestLeader, play: DrillPlay) -> PartitionScore:
    name = best.name
    leader = play.leaders.get(name)
    if leader is None:
        return PartitionScore(best, None, (), 0)
    log = play.disks.held(name).get(leader, NO_LOG)
    lost = _cut_off(scene, name, log, play.saved.get(name, ()))
    return PartitionScore(best, leader, tuple(lost), len(_cut_off(scene, name, log)))


def _for_offline(partitions: Sequence[PartitionScore], harmed: Sequence[Name]) -> Deduction:
    left = [partition.best.name for partition in partitions if partition.leader is None]
    all_of = len(partitions) + len(harmed)
    points = ceil(WHOLE * (len(left) + len(harmed)) / all_of) if all_of else 0
    return Deduction("offline", points, f"without leader: {_names([*left, *harmed])}")


def _for_lost(partitions: Sequence[PartitionScore]) -> Iterator[Deduction]:
    held = sum(partition.best.held for partition in partitions)
    lost = sum(len(partition.lost) for partition in partitions)
    where = _names(partition.best.name for partition in partitions if partition.lost)
    yield Deduction("lost", ANY_LOST if lost else 0, f"records of {where} are lost")
    points = ceil(ALL_LOST * lost / held) if lost else 0
    yield Deduction("lost", points, f"{lost:,} of {held:,} records are in no log and not saved")


def _for_settings(play: DrillPlay) -> Deduction:
    points = min(MOST_FOR_SETTINGS, SETTING * len(play.changed))
    return Deduction("settings", points, "; ".join(play.changed))


def _for_believed(play: DrillPlay) -> Deduction:
    points = min(MOST_FOR_BELIEVED, BELIEVED * len(play.believed))
    return Deduction("believed", points, "; ".join(map(str, play.believed)))


def _for_time(play: DrillPlay) -> Deduction:
    minutes = int(max(0.0, play.seconds - PAR_SECONDS) // MINUTE)
    said = f"{minutes:,} full minutes beyond {PAR_SECONDS / MINUTE:.0f}"
    return Deduction("time", min(MOST_FOR_TIME, minutes), said)


def _for_effort(play: DrillPlay, best_keys: int | None, best_commands: int) -> Deduction:
    keys = max(0, play.keys - best_keys) if best_keys is not None else 0
    commands = max(0, play.commands - best_commands)
    points = min(MOST_FOR_EFFORT, keys // KEYS + commands // COMMANDS)
    said = f"{keys:,} keys and {commands:,} commands more than the best play takes"
    return Deduction("effort", points, said)


def _names(names: Iterable[Name]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in names)
