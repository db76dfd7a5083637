"""H10: a log that an unclean election has rewritten is another one, whatever its length."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.protocol.lineage import (
    FlowCycle,
    GroupFlow,
    Lineage,
    LoweredCut,
    Offsets,
    ReadingStage,
    RecordLineage,
    channel_state,
    cut,
    diverged,
    greatest_cut,
    lowered_offsets,
    needed,
    reading_order,
)
from breakglass.services.checkpoint.protocol.values import CheckpointState, read
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition
from breakglass.services.topic_backup.summary import EpochStart
from tests.kit.extent import examples

ORDERS = TopicPartition("orders", 3)
CUT = 20
WANTED = (EpochStart(5, CUT - 1),)
"""The record before the cut was of epoch 5."""


def log(*ranges: tuple[int, int, int], start: int = 0) -> EpochHistory:
    return EpochHistory(tuple(EpochRange(*range_) for range_ in ranges), start)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(log((5, 0, 20)), id="nothing behind it"),
        pytest.param(log((3, 0, 12), (5, 12, 31)), id="more behind it"),
        pytest.param(log((5, 0, 24), (6, 24, 40)), id="another leader behind it"),
        pytest.param(log((5, 0, 20), (7, 20, 40)), id="another leader exactly behind it"),
        pytest.param(log((5, 19, 20), start=19), id="retention up to the record before it"),
        pytest.param(log((7, 25, 40), start=25), id="retention has passed it"),
        pytest.param(log(start=25), id="retention has taken everything"),
    ],
)
def test_h10_a_log_that_went_on_is_the_same(now: EpochHistory) -> None:
    assert diverged(ORDERS, WANTED, now) == ""


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_h10_whatever_was_cut_off_below_the_cut_is_noticed(
    lengths: list[int], data: st.DataObject
) -> None:
    """A log of several epochs, cut anywhere before the cut, and written to any length again."""
    ends = [sum(lengths[: number + 1]) for number in range(len(lengths))]
    starts = [0, *ends]
    cut = data.draw(st.integers(1, ends[-1]))
    held = log(*((number, starts[number], end) for number, end in enumerate(ends)))
    epoch = held.epoch_at(cut - 1)
    assert epoch is not None
    at = data.draw(st.integers(0, cut - 1))
    length = data.draw(st.integers(0, 2 * ends[-1]))
    kept = [
        (range_.epoch, range_.start, min(range_.end, at))
        for range_ in held.ranges
        if range_.start < at
    ]
    rewritten = [(99, at, at + length)] if length else []
    assert diverged(ORDERS, [EpochStart(epoch, cut - 1)], held) == ""
    assert diverged(ORDERS, [EpochStart(epoch, cut - 1)], log(*kept, *rewritten))


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
                # From the committed offset, knowing what was seen before it.
                self.read[number] = self.committed[number]
                before = self.logs[number][: self.committed[number]]
                self.seen[number] = {
                    passed.origin for passed in before if passed.origin is not None
                }

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


ONCE = Counter(dict.fromkeys(range(TOKENS), 1))
SEEDS = range(examples(150))
EVERY = range(PARTITIONS)


def ring(seed: int, *, exactly_once: bool = True) -> Ring:
    found = Ring(Random(seed), exactly_once)
    found.fill()
    found.run(80)
    return found


def coordinated(seed: int) -> tuple[Ring, dict[int, int]]:
    """A checkpoint by markers, drained."""
    found = ring(seed)
    for number in EVERY:
        found.mark(number, 1)
        found.run(5)
    found.run(40)
    ends = {}
    for number, log in enumerate(found.logs):
        end = cut(((offset, one.id) for offset, one in enumerate(log)), 1)
        assert end is not None
        ends[number] = end
    found.drain(ends)
    return found, ends


def read_apart(found: Ring) -> dict[int, int]:
    """The ends, partitions read a moment apart."""
    ends = {}
    for number in EVERY:
        ends[number] = len(found.logs[number])
        found.run(3)
    return ends


def verified(seed: int, *, exactly_once: bool = True) -> tuple[Ring, LoweredCut]:
    """A checkpoint by lineage: floors, ends, offsets, in that order, while tokens go on.

    For a group that processes at least once, it waits until the offsets have reached the ends.
    """
    found = ring(seed, exactly_once=exactly_once)
    floors, ends = read_apart(found), read_apart(found)
    if not exactly_once:
        found.drain(ends)
    committed = dict(enumerate(found.committed))
    found.run(40)
    return found, greatest_cut(floors, ends, committed, found.lineage(floors))


NOWHERE = dict.fromkeys(EVERY, 0)


def test_h06_with_the_channels_state_every_token_is_in_one_place() -> None:
    for seed in SEEDS:
        found, ends = coordinated(seed)
        channel = channel_state(ends, ends, found.lineage(NOWHERE), found.inside(ends))
        assert places(found, ends, ends, list(channel)) == ONCE, seed


def test_h07_from_lowered_offsets_every_token_is_written_again() -> None:
    for seed in SEEDS:
        found, ends = coordinated(seed)
        offsets = lowered_offsets(ends, ends, found.lineage(NOWHERE), found.inside(ends))
        assert ended(found, ends, offsets) == ONCE, seed


def test_h08_vectors_are_lowered_to_a_cut_in_which_every_token_is_in_one_place() -> None:
    for seed in SEEDS:
        found, lowered = verified(seed)
        records = found.lineage(NOWHERE)
        inside = found.inside(lowered.positions)
        channel = channel_state(lowered.positions, lowered.offsets, records, inside)
        tokens = places(found, lowered.positions, lowered.offsets, list(channel))
        assert tokens == ONCE, seed
        assert lowered.rounds <= PARTITIONS + 1


def test_h08_groups_that_process_at_least_once_lose_and_double_nothing() -> None:
    for seed in SEEDS:
        found, lowered = verified(seed, exactly_once=False)
        positions, inside = lowered.positions, found.inside(lowered.positions)
        records = found.lineage(NOWHERE)
        offsets = lowered_offsets(positions, lowered.offsets, records, inside)
        assert ended(found, positions, offsets) == ONCE, seed


def test_h08_what_does_not_count_changes_no_cut_and_nothing_in_transit() -> None:
    left_out = 0
    for seed in SEEDS:
        found = ring(seed)
        floors, ends = read_apart(found), read_apart(found)
        committed = dict(enumerate(found.committed))
        found.run(40)
        every = found.lineage(floors)
        within = {one: min(offset, ends[one]) for one, offset in committed.items()}
        some = [lineage for lineage in every if needed(lineage, ends, within)]
        lowered = greatest_cut(floors, ends, committed, every)
        assert greatest_cut(floors, ends, committed, some) == lowered
        at = (lowered.positions, lowered.offsets)
        assert channel_state(*at, some) == channel_state(*at, every)
        assert lowered_offsets(*at, some) == lowered_offsets(*at, every)
        left_out += len(every) - len(some)
    assert left_out > 0


def test_h06_what_was_written_twice_is_in_transit_once_and_not_if_the_cut_has_it() -> None:
    written = [
        Lineage(0, 9, RecordLineage(1, 3)),
        Lineage(0, 8, RecordLineage(1, 2)),
        Lineage(0, 10, RecordLineage(1, 2)),
        Lineage(0, 11, RecordLineage(1, 3, index=1)),
        Lineage(0, 12, RecordLineage(1, 7)),
        Lineage(0, 13, None),
        Lineage(0, 4, RecordLineage(1, 1)),
    ]
    found = channel_state({0: 8}, {1: 6}, written, inside={RecordLineage(1, 3)})
    assert [lineage.offset for lineage in found] == [8, 11]
    assert lowered_offsets({0: 8}, {1: 6}, written, inside={RecordLineage(1, 3)}) == {1: 2}


CHAIN = (GroupFlow("g1", ("A",), ("B",)), GroupFlow("g2", ("B",), ("C",)))
DIAMOND = (
    GroupFlow("split", ("A",), ("B", "C")),
    GroupFlow("left", ("B",), ("D",)),
    GroupFlow("right", ("C",), ("D",)),
    GroupFlow("sink", ("D",)),
)
ORDER_SEEDS = examples(150)


def order_of(flows: Sequence[GroupFlow], topics: str) -> tuple[ReadingStage, ...]:
    found = reading_order(flows, tuple(topics))
    assert not isinstance(found, FlowCycle)
    return found


@dataclass
class Pipeline:
    """Applications that process at least once: each log has one partition.

    A group writes its outputs, and commits the offset of their input some steps later.
    """

    flows: Sequence[GroupFlow]
    logs: dict[str, list[str]]
    done: dict[tuple[str, str], int] = field(default_factory=dict)
    committed: dict[tuple[str, str], int] = field(default_factory=dict)

    def step(self, turn: random.Random) -> None:
        """A customer writes, a group processes one record, or a group commits."""
        choice = turn.randrange(3)
        if choice == 0:
            self.logs["A"].append(f"a{len(self.logs['A'])}")
            return
        flow = turn.choice(self.flows)
        place = flow.group, turn.choice(flow.inputs)
        if choice == 1:
            self.committed[place] = self.done.get(place, 0)
        elif self.done.get(place, 0) < len(self.logs[place[1]]):
            self.process(flow, place)

    def process(self, flow: GroupFlow, place: tuple[str, str]) -> None:
        record = self.logs[place[1]][self.done.get(place, 0)]
        for output in flow.outputs:
            self.logs[output].append(f"{record}.{flow.group}")
        self.done[place] = self.done.get(place, 0) + 1

    def restored(self, offsets: dict[tuple[str, str], int], ends: dict[str, int]) -> Pipeline:
        logs = {topic: list(self.logs[topic][:end]) for topic, end in ends.items()}
        return Pipeline(self.flows, logs, dict(offsets), dict(offsets))

    def lost(self) -> set[str]:
        """The records that no log has once everything was processed."""
        self.settle()
        return {
            f"{record}.{flow.group}"
            for flow in self.flows
            for topic in flow.inputs
            for record in self.logs[topic]
            for output in flow.outputs
            if f"{record}.{flow.group}" not in self.logs[output]
        }

    def settle(self) -> None:
        """Process until nothing is left."""
        while True:
            waiting = [
                (flow, (flow.group, topic))
                for flow in self.flows
                for topic in flow.inputs
                if self.done.get((flow.group, topic), 0) < len(self.logs[topic])
            ]
            if not waiting:
                return
            self.process(*waiting[0])

    def orphans(self) -> set[str]:
        """Records whose cause no log has."""
        every = {record for log in self.logs.values() for record in log}
        return {record for record in every if "." in record} - {
            record for record in every if record.rpartition(".")[0] in every
        }


def read_everything(
    flows: Sequence[GroupFlow], stages: Sequence[ReadingStage], seed: int
) -> Pipeline:
    """What a checkpoint restores that is read while everything runs."""
    turn = random.Random(seed)
    topics = sorted({topic for flow in flows for topic in (*flow.inputs, *flow.outputs)})
    pipeline = Pipeline(flows, {topic: [] for topic in topics})
    offsets: dict[tuple[str, str], int] = {}
    ends: dict[str, int] = {}

    def run() -> None:
        for _ in range(turn.randrange(60)):
            pipeline.step(turn)

    run()
    for stage in stages:
        for flow in stage.flows:
            run()
            for topic in flow.inputs:
                offsets[flow.group, topic] = pipeline.committed.get((flow.group, topic), 0)
        for topic in stage.topics:
            run()
            ends[topic] = len(pipeline.logs[topic])
    return pipeline.restored(offsets, ends)


@pytest.mark.parametrize(("flows", "topics"), [(CHAIN, "ABC"), (DIAMOND, "ABCD")])
def test_what_is_read_against_the_flow_loses_nothing(
    flows: tuple[GroupFlow, ...], topics: str
) -> None:
    stages = order_of(flows, topics)
    for seed in range(ORDER_SEEDS):
        found = read_everything(flows, stages, seed)
        assert (found.orphans(), found.lost()) == (set(), set()), seed


@pytest.mark.parametrize(
    ("flows", "cycle"),
    [
        ([GroupFlow("g", ("A",), ("A",))], "A > g > A"),
        ([*CHAIN, GroupFlow("back", ("C",), ("A",))], "A > g1 > B > g2 > C > back > A"),
        ([*CHAIN, GroupFlow("back", ("C",), ("B",))], "B > g2 > C > back > B"),
    ],
)
def test_a_cycle_is_named(flows: list[GroupFlow], cycle: str) -> None:
    assert str(reading_order(flows, "ABC")) == cycle
