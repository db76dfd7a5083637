"""Tokens that go from partition to partition: each is to be in one place after a restore."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from breakglass.services.checkpoint.protocol.lineage import Lineage, Offsets, RecordLineage
from breakglass.services.checkpoint.protocol.participant import CheckpointState, read

PARTITIONS = 4
TOKENS = 12


@dataclass(frozen=True, slots=True)
class Passed:
    """A record: a token, what led to it, and the checkpoint id of whoever wrote it."""

    token: int
    origin: RecordLineage | None = None
    id: int = 0


@dataclass(slots=True)
class Ring:
    """One member for each partition reads it and passes each token on, always to the same place."""

    random: Random
    exactly_once: bool = True
    logs: list[list[Passed]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    read: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    committed: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    seen: list[set[RecordLineage]] = field(
        default_factory=lambda: [set() for _ in range(PARTITIONS)]
    )
    states: list[CheckpointState] = field(
        default_factory=lambda: [CheckpointState() for _ in range(PARTITIONS)]
    )
    """The checkpoint of each member."""

    def fill(self) -> None:
        for token in range(TOKENS):
            self.logs[token % PARTITIONS].append(Passed(token))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            number = self.random.randrange(PARTITIONS)
            self.process(number)
            if not self.exactly_once and self.random.random() < 0.1:
                self.committed[number] = self.read[number]
            if not self.exactly_once and self.random.random() < 0.02:
                self._restart(number)

    def process(self, number: int) -> None:
        """Read one record, and pass its token on unless it was seen before."""
        if self.read[number] >= len(self.logs[number]):
            return
        offset, self.read[number] = self.read[number], self.read[number] + 1
        record = self.logs[number][offset]
        self.states[number], _ = read(self.states[number], record.id, offset)
        if self.exactly_once:
            self.committed[number] = self.read[number]
        if record.token < 0 or (record.origin is not None and record.origin in self.seen[number]):
            return
        if record.origin is not None:
            self.seen[number].add(record.origin)
        to = (number * 7 + offset * 3 + record.token) % PARTITIONS
        id = self.states[number].id
        self.logs[to].append(Passed(record.token, RecordLineage(number, offset), id))

    def _restart(self, number: int) -> None:
        """From the committed offset, knowing what was seen before it."""
        self.read[number] = self.committed[number]
        before = self.logs[number][: self.committed[number]]
        self.seen[number] = {passed.origin for passed in before if passed.origin is not None}

    def mark(self, number: int, id: int) -> None:
        """The coordinator's marker."""
        self.logs[number].append(Passed(-1, None, id))

    def drain(self, cut: Offsets) -> None:
        """Until everything before the cut is processed and committed (H5)."""
        while any(self.committed[one] < end for one, end in cut.items()):
            for number in range(PARTITIONS):
                if self.committed[number] < cut[number]:
                    self.process(number)
                    self.committed[number] = self.read[number]

    def lineage(self, floors: Offsets) -> list[Lineage]:
        """Of everything from the floors on."""
        return [
            Lineage(number, offset, record.origin)
            for number, log in enumerate(self.logs)
            for offset, record in enumerate(log)
            if offset >= floors[number] and record.token >= 0
        ]

    def inside(self, cut: Offsets) -> set[RecordLineage]:
        """The origins of what the cut holds."""
        found = (
            passed.origin for number, log in enumerate(self.logs) for passed in log[: cut[number]]
        )
        return {lineage for lineage in found if lineage is not None}


def places(ring: Ring, cut: Offsets, offsets: Offsets, channel: list[Lineage]) -> Counter[int]:
    """In how many places each token is, restored: not processed yet, and not seen before."""
    found: Counter[int] = Counter()
    for number, log in enumerate(ring.logs):
        start, end = offsets[number], cut[number]
        seen = {passed.origin for passed in log[:start] if passed.origin is not None}
        behind = [log[lineage.offset] for lineage in channel if lineage.partition == number]
        for record in [*log[start:end], *behind]:
            if record.token >= 0 and (record.origin is None or record.origin not in seen):
                found[record.token] += 1
                seen |= {record.origin} if record.origin is not None else set()
    return found


def ended(ring: Ring, cut: Offsets, offsets: Offsets) -> Counter[int]:
    """The same, for groups that begin at *offsets* and write what is missing again."""
    restored = Ring(ring.random, exactly_once=True)
    restored.logs = [log[: cut[number]] for number, log in enumerate(ring.logs)]
    restored.read = [offsets[number] for number in range(PARTITIONS)]
    written = ring.inside(cut)
    for number in range(PARTITIONS):
        before = restored.logs[number][: restored.read[number]]
        restored.seen[number] = {passed.origin for passed in before if passed.origin is not None}
    for number in range(PARTITIONS):
        _again(ring, restored, number, cut[number], written)
    alive = {one: len(log) for one, log in enumerate(restored.logs)}
    return places(restored, alive, cut, [])


def _again(ring: Ring, restored: Ring, number: int, end: int, written: set[RecordLineage]) -> None:
    """Process up to the cut; what is in the cut already is passed over by its readers."""
    while restored.read[number] < end:
        sizes = [len(log) for log in restored.logs]
        restored.process(number)
        for to, size in enumerate(sizes):
            if len(restored.logs[to]) > size and restored.logs[to][-1].origin in written:
                restored.logs[to].pop()
