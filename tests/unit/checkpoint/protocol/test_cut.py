"""H1 and H3: where logs that their senders write themselves are cut, by simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from breakglass.services.checkpoint.protocol.cut import cut
from breakglass.services.checkpoint.protocol.participant import CheckpointState, read

PARTITIONS = 3
Cause = tuple[int, int]
"""Partition and offset of the record that led to another."""


@dataclass(slots=True)
class Logs:
    """Each partition's owner reads it in order and writes into the others' logs, with its id."""

    remembers: bool = True
    """Whether an owner that starts anew knows its id from before (H3)."""
    logs: list[list[tuple[int, Cause | None]]] = field(
        default_factory=lambda: [[] for _ in range(PARTITIONS)]
    )
    """Checkpoint id and cause of each record; a marker has none."""
    markers: list[int | None] = field(default_factory=lambda: [None] * PARTITIONS)
    read: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    states: list[CheckpointState] = field(
        default_factory=lambda: [CheckpointState() for _ in range(PARTITIONS)]
    )
    on_the_way: list[tuple[int, int, Cause]] = field(default_factory=list)

    def step(self, random: Random) -> None:
        number = random.randrange(PARTITIONS)
        match random.choices(("input", "read", "write", "marker", "restart"), (4, 12, 8, 1, 1))[0]:
            case "input":
                self.logs[number].append((0, None))
            case "read" if self.read[number] < len(self.logs[number]):
                self._read(number, random.randrange(PARTITIONS))
            case "write" if self.on_the_way:
                self._write(random.randrange(len(self.on_the_way)))
            case "marker" if self.markers[number] is None and len(self.logs[number]) > 5:
                self.markers[number] = len(self.logs[number])
                self.logs[number].append((1, None))
            case "restart" if not self.remembers:
                self.states[number] = CheckpointState()

    def _read(self, number: int, to: int) -> None:
        offset = self.read[number]
        self.read[number] += 1
        id, cause = self.logs[number][offset]
        self.states[number], _ = read(self.states[number], id, offset)
        if cause is not None or id == 0:
            self.on_the_way.append((to, self.states[number].id, (number, offset)))

    def _write(self, index: int) -> None:
        to, id, cause = self.on_the_way.pop(index)
        self.logs[to].append((id, cause))

    def cuts(self) -> list[int | None]:
        return [cut(((n, id) for n, (id, _) in enumerate(log)), 1) for log in self.logs]

    def orphans(self, cuts: list[int | None]) -> int:
        return sum(
            cause is not None and _outside(cause, cuts)
            for log, end in zip(self.logs, cuts, strict=True)
            for _, cause in log[:end]
        )


def _outside(cause: Cause, cuts: list[int | None]) -> bool:
    end = cuts[cause[0]]
    return end is not None and cause[1] >= end


def run(seed: int, *, remembers: bool = True) -> Logs:
    random, logs = Random(seed), Logs(remembers)
    for _ in range(150):
        logs.step(random)
    return logs


def test_h01_the_first_record_that_carries_the_id_ends_the_cut() -> None:
    assert cut([(7, 0), (9, 1), (12, 3), (13, 2)], 2) == 12
    assert cut([(7, 0), (9, 2), (12, 2), (13, 3)], 2) == 9
    assert cut([(7, 0), (9, 1)], 2) is None
    assert cut([], 1) is None


def test_h01_cuts_read_off_the_log_have_no_orphans_in_any_order_of_writes() -> None:
    found = [run(seed) for seed in range(400)]
    assert sum(logs.orphans(logs.cuts()) for logs in found) == 0
    assert sum(None not in logs.cuts() for logs in found) > 100


def test_h01_cuts_at_the_coordinators_markers_have_orphans() -> None:
    found = [run(seed) for seed in range(400)]
    assert sum(logs.orphans(logs.markers) > 0 for logs in found) > 10


def test_h03_owners_that_forget_their_id_make_orphans() -> None:
    found = [run(seed, remembers=False) for seed in range(400)]
    assert sum(logs.orphans(logs.cuts()) for logs in found) > 0


@pytest.mark.parametrize("id", [1, 2, 3])
def test_h01_a_later_checkpoint_never_cuts_earlier(id: int) -> None:
    log = [(0, 0), (1, 2), (2, 1), (3, 3)]
    earlier, later = cut(log, id), cut(log, id + 1)
    assert later is None or (earlier is not None and earlier <= later)
