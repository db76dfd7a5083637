"""Generates incidents from seeds. Pure, so that a seed alone determines what happens.

The generator tracks which brokers live. It stops brokers one after another with writes in between,
then kills those that led last and lets some of the others return. This leaves partitions offline,
with replicas of different lengths and histories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random

from breakglass.services.lab.incidents.incident import (
    End,
    Happening,
    LabIncident,
    LabTopic,
    Step,
    Way,
)

NAMES = ("orders", "ledger", "profiles", "payments", "readings")
COMPRESSIONS = ("none", "none", "gzip", "snappy", "lz4", "zstd")
WAYS = (Way.DROP_IN, Way.AUTOMATED, Way.PLAN, Way.PLAN)
UNASKED_RETURN = "unasked return"
"""The label of an incident in which a broker returns that nobody started."""
MOST_RECORDS = 60
MOST_JOURNAL_LINES = 12


def generate(seed: int) -> LabIncident:
    """The incident of *seed*."""
    random = Random(f"breakglass campaign {seed}")
    brokers = random.choice((3, 3, 4, 4, 5, 6))
    way = random.choice(WAYS)
    log_dirs = 2 if random.random() < 0.2 else 1
    names = random.sample(NAMES, random.randint(1, 3))
    topics = tuple(_topic(random, name, brokers) for name in names)
    course = _Course(random, topics, brokers, log_dirs)
    course.run()
    fallen = tuple(sorted(course.down | course.hung | course.cut))
    curable = fallen if random.random() < 0.25 else ()
    if fallen and not curable and random.random() < 0.15:
        curable = (random.choice(fallen),)
    # Who comes back unasked in the middle of the recovery.
    choices = sorted(course.down - set(curable) - course.empty)
    returning = random.choice(choices) if choices and random.random() < 0.15 else None
    alive = sorted(course.alive)
    # Words for the table: what this incident has.
    acts = {step.act for step in course.steps}
    labels = {act.value for act in acts - {Happening.WRITE, Happening.LAST}}
    labels |= {f"rf {len(topic.assignments[0])}" for topic in topics}
    labels |= {"min isr 2" for topic in topics if topic.min_isr > 1}
    labels |= {"compacted" for topic in topics if topic.compacted}
    labels |= {"curable"} if curable else set()
    labels |= {UNASKED_RETURN} if returning is not None else set()
    return LabIncident(
        seed=seed,
        brokers=brokers,
        controllers=3 if course.controller_killed or random.random() < 0.2 else 1,
        log_dirs=log_dirs,
        topics=topics,
        steps=tuple(course.steps),
        way=way,
        curable=curable,
        kill_at=random.randint(1, MOST_JOURNAL_LINES) if random.random() < 0.35 else None,
        returning=returning,
        slow=(random.choice(alive),) if alive and random.random() < 0.15 else (),
        labels=tuple(sorted(labels)),
    )


def _topic(random: Random, name: str, brokers: int) -> LabTopic:
    factor = min(brokers, random.choice((1, 2, 2, 3, 3, 3, 3, 3, 4, 4)))
    ids = range(1, brokers + 1)
    rows = tuple(tuple(random.sample(ids, factor)) for _ in range(random.randint(1, 3)))
    min_isr = 2 if factor > 2 and random.random() < 0.3 else 1
    compacted, compression = random.random() < 0.25, random.choice(COMPRESSIONS)
    # The lab that strands a leader reads its log, and cannot read one that is both.
    return LabTopic(name, rows, min_isr, compacted, "none" if compacted else compression)


@dataclass
class _Course:
    """The steps so far, and what they leave of the cluster."""

    random: Random
    topics: tuple[LabTopic, ...]
    brokers: int
    log_dirs: int
    steps: list[Step] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    down: set[int] = field(default_factory=set)
    hung: set[int] = field(default_factory=set)
    cut: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    controller_killed: bool = False

    def run(self) -> None:
        """From a whole cluster to a damaged one."""
        self.alive = set(range(1, self.brokers + 1))
        self._write()
        if self._chance(0.35):
            self._transact()
        if self._chance(0.35):
            self._add(Step(Happening.COMMIT))
        if self._chance(0.5):
            self._part()
        else:
            for _ in range(min(self.random.choice((1, 2, 2, 2, 3)), self.brokers - 1)):
                self._fall()
                self._write()
                if self._chance(0.2):
                    self._transact()
                if self._chance(0.2):
                    self._add(Step(Happening.COMMIT))
                if self.down and self._chance(0.25):
                    # One comes back; where its partitions lack a leader, somebody may elect
                    # uncleanly.
                    broker = self.random.choice(sorted(self.down))
                    self._add(Step(Happening.RETURN, (broker,)))
                    self.down.discard(broker)
                    self.alive.add(broker)
                    if self._chance(0.6):
                        self._add(Step(Happening.UNCLEAN))
                        self._write()
            self._last(self._some(sorted(self.down)))
        self._after()

    def _part(self) -> None:
        """Histories part: a leader dies with records of its own, and returns beside a later one."""
        self._lose(Happening.STRAND, 1)
        self._write()
        if len(self.alive) > 1:
            self._lose(
                self.random.choice(
                    (Happening.STRAND, Happening.KILL, Happening.KILL, Happening.STOP)
                ),
                1,
            )
            self._write()
        if self._chance(0.2):
            self._transact()
        if self._chance(0.35):
            # Somebody elects what lacks most, writes on, and loses that too.
            first = self.random.choice(sorted(self.down))
            self._last((first,))
            self._add(Step(Happening.UNCLEAN))
            self._write()
            self._last(self._some(sorted(self.down)))
        else:
            self._last(tuple(sorted(self.down)))

    def _chance(self, of_one: float) -> bool:
        return self.random.random() < of_one

    def _add(self, step: Step) -> None:
        self.steps.append(step)

    def _write(self) -> None:
        count = self.random.randint(1, MOST_RECORDS)
        acks = self.random.choice(("all", "all", "1"))
        self._add(Step(Happening.WRITE, count=count, acks=acks))

    def _transact(self) -> None:
        end = self.random.choice((End.COMMIT, End.ABORT, End.OPEN))
        self._add(Step(Happening.TRANSACT, count=self.random.randint(1, 20), end=end))

    def _fall(self) -> None:
        """One broker or two leave, so that at least one stays."""
        spare = len(self.alive) - 1
        if spare < 1:
            return
        if spare > 1 and self._chance(0.15):
            self._lose(Happening.KILL, 2)
        elif self._chance(0.4):
            self._lose(Happening.STRAND, 1)
        elif self._chance(0.15):
            self._lose(Happening.STOP, 1)
        else:
            self._lose(Happening.KILL, 1)

    def _lose(self, act: Happening, number: int) -> None:
        leading = self._leading() if act is Happening.STRAND else ()
        chosen = tuple(self.random.sample(sorted(leading or self.alive), number))
        count = self.random.randint(1, 30) if act is Happening.STRAND else 0
        self._add(Step(act, chosen, count=count))
        self.alive -= set(chosen)
        self.down |= set(chosen)

    def _leading(self) -> set[int]:
        """Who leads, if leaders are the first live replicas."""
        rows = [row for topic in self.topics for row in topic.assignments]
        first = [[broker for broker in row if broker in self.alive][:1] for row in rows]
        return {broker for some in first for broker in some}

    def _last(self, back: tuple[int, ...]) -> None:
        """Those that lead die, and some that fell before come *back*."""
        keep = 1 if self._chance(0.2) and len(self.alive) > 1 else 0
        if not back and not keep:
            keep = 1 if len(self.alive) > 1 else 0
        killed = sorted(self.alive)
        self.random.shuffle(killed)
        last = tuple(killed[keep:])
        self._add(Step(Happening.LAST, last, back=back))
        self.alive = (self.alive - set(last)) | set(back)
        self.down = (self.down | set(last)) - set(back)

    def _some(self, brokers: Sequence[int]) -> tuple[int, ...]:
        if not brokers:
            return ()
        whole = self._chance(0.6)
        number = len(brokers) if whole else self.random.randint(1, len(brokers))
        return tuple(self.random.sample(list(brokers), number))

    def _after(self) -> None:
        """What else is wrong by the time that somebody looks."""
        if self.down and self._chance(0.2):
            broker = self.random.choice(sorted(self.down))
            self._add(Step(Happening.RETURN_EMPTY, (broker,)))
            self.down.discard(broker)
            self.alive.add(broker)
            self.empty.add(broker)
        if len(self.alive) > 1 and self._chance(0.15):
            self._damage(Happening.HANG, self.hung)
        if len(self.alive) > 1 and self._chance(0.1):
            self._damage(Happening.CUT, self.cut)
        if self.log_dirs > 1 and self.alive and self._chance(0.7):
            broker = self.random.choice(sorted(self.alive))
            self._add(
                Step(Happening.FAIL_DIR, (broker,), count=self.random.randint(1, self.log_dirs))
            )
        if self._chance(0.08):
            self._add(Step(Happening.REASSIGN))
        if self._chance(0.08):
            self.controller_killed = True
            self._add(Step(Happening.CONTROLLER))

    def _damage(self, act: Happening, into: set[int]) -> None:
        broker = self.random.choice(sorted(self.alive))
        self._add(Step(act, (broker,)))
        self.alive.discard(broker)
        into.add(broker)


SEEDS = 10**9
OUT = (
    *(Happening.KILL, Happening.STOP, Happening.STRAND),
    *(Happening.LAST, Happening.HANG, Happening.CUT),
)
IN = (Happening.RETURN, Happening.RETURN_EMPTY)


class DrillLevel(StrEnum):
    """How much has happened to the cluster."""

    EASY = "easy"
    """One topic, and brokers that died one after another."""
    MEDIUM = "medium"
    """Two topics at most; brokers return, some with new disks, and unclean elections were held."""
    HARD = "hard"
    """Everything: hung brokers, a lost controller, transactions, compaction, up to six brokers."""


EASY = frozenset(
    {Happening.WRITE, Happening.KILL, Happening.STOP, Happening.STRAND, Happening.LAST}
)
MEDIUM = EASY | {Happening.RETURN, Happening.UNCLEAN, Happening.RETURN_EMPTY, Happening.COMMIT}
HARD = MEDIUM | {Happening.TRANSACT, Happening.HANG, Happening.CONTROLLER}


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What an incident of a level may have, and what it must have some of."""

    happenings: frozenset[Happening]
    brokers: int
    topics: int
    some_of: frozenset[Happening]
    compacted: bool


BOUNDS = {
    DrillLevel.EASY: _Bounds(EASY, 4, 1, frozenset({Happening.LAST}), compacted=False),
    DrillLevel.MEDIUM: _Bounds(MEDIUM, 5, 2, MEDIUM - EASY, compacted=False),
    DrillLevel.HARD: _Bounds(HARD, 6, 3, HARD - MEDIUM, compacted=True),
}


def drill_incidents(seed: int, level: DrillLevel) -> Iterator[LabIncident]:
    """The incidents of *seed*, without end; a later one is for where nothing is left offline."""
    random = Random(f"breakglass drill {level} {seed}")
    while True:
        incident = as_drill(generate(random.randrange(SEEDS)))
        if fits(incident, BOUNDS[level]):
            yield replace(incident, seed=seed)


def as_drill(incident: LabIncident) -> LabIncident:
    """*incident* without what happens in the middle of the recovery."""
    return replace(incident, kill_at=None, returning=None, slow=())


def fits(incident: LabIncident, bounds: _Bounds) -> bool:
    """Whether *incident* is within *bounds*."""
    happened = {step.act for step in incident.steps}
    return (
        happened <= bounds.happenings
        and bool(happened & bounds.some_of)
        and incident.brokers <= bounds.brokers
        and len(incident.topics) <= bounds.topics
        and any(len(topic.assignments[0]) > 1 for topic in incident.topics)
        and len(_there_at_the_end(incident)) > 1
        and (bounds.compacted or not any(topic.compacted for topic in incident.topics))
    )


def _there_at_the_end(incident: LabIncident) -> set[int]:
    """Brokers that answer when the player comes, or can be brought back: one alone is no choice."""
    there = set(range(1, incident.brokers + 1))
    for step in incident.steps:
        if step.act in OUT:
            there = (there - set(step.brokers)) | set(step.back)
        elif step.act in IN:
            there |= set(step.brokers)
    return there | set(incident.curable)
