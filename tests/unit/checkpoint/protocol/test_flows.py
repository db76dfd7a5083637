"""An ordered checkpoint loses nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from breakglass.services.checkpoint.protocol.flows import (
    FlowCycle,
    GroupFlow,
    ReadingStage,
    reading_order,
)
from tests.kit.extent import examples

CHAIN = (GroupFlow("g1", ("A",), ("B",)), GroupFlow("g2", ("B",), ("C",)))
DIAMOND = (
    GroupFlow("split", ("A",), ("B", "C")),
    GroupFlow("left", ("B",), ("D",)),
    GroupFlow("right", ("C",), ("D",)),
    GroupFlow("sink", ("D",)),
)
SEEDS = examples(150)


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


def read(flows: Sequence[GroupFlow], stages: Sequence[ReadingStage], seed: int) -> Pipeline:
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
    for seed in range(SEEDS):
        found = read(flows, stages, seed)
        assert (found.orphans(), found.lost()) == (set(), set()), seed


def test_a_flow_is_written_as_the_option_takes_it() -> None:
    assert str(GroupFlow("g1", ("A", "B"), ("C",))) == "g1:A,B>C"


def test_the_last_group_is_read_first_and_the_first_input_last_and_every_topic_once() -> None:
    stages = [([flow.group for flow in one.flows], one.topics) for one in order_of(CHAIN, "ABCX")]
    assert stages == [(["g2"], ("C", "X")), (["g1"], ("B",)), ([], ("A",))]


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
