"""The same steps in any order that hypothesis thinks of, and the shortest that breaks anything."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.checkpoint.protocol.checker import broken, broken_now
from tests.unit.checkpoint.protocol.simulation import World

PARTITIONS = 3
numbers = st.integers(0, PARTITIONS - 1)


class Checkpoints(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(PARTITIONS)

    @rule(number=numbers, step=st.integers(1, PARTITIONS - 1))
    def transfer(self, number: int, step: int) -> None:
        self.world.transfer(number, (number + step) % PARTITIONS)

    @precondition(lambda self: self.world.messages)
    @rule(which=st.integers(0, 1_000), keep=st.booleans())
    def deliver(self, which: int, keep: bool) -> None:
        self.world.deliver(which % len(self.world.messages), keep=keep)

    @precondition(lambda self: self.world.messages)
    @rule(which=st.integers(0, 1_000))
    def lose(self, which: int) -> None:
        self.world.lose(which % len(self.world.messages))

    @precondition(lambda self: self.world.take is None)
    @rule()
    def ask(self) -> None:
        self.world.ask()

    @rule(fails_over=st.booleans())
    def ask_again(self, fails_over: bool) -> None:
        if fails_over:
            self.world.fail_over_coordinator()
        else:
            self.world.request()

    @rule(number=numbers, count=st.integers(1, 6))
    def replicate(self, number: int, count: int) -> None:
        self.world.replicate(number, count)

    @rule(number=numbers, count=st.integers(1, 4))
    def process(self, number: int, count: int) -> None:
        for _ in range(count):
            self.world.process(number)

    @rule(number=numbers)
    def send(self, number: int) -> None:
        self.world.send(number)

    @rule(number=numbers)
    def begin_snapshot(self, number: int) -> None:
        self.world.begin_snapshot(number)

    @rule(number=numbers)
    def take_snapshot(self, number: int) -> None:
        self.world.take_snapshot(number)

    @rule(number=numbers)
    def commit_snapshot(self, number: int) -> None:
        self.world.commit_snapshot(number)

    @rule(number=numbers)
    def begin_copy(self, number: int) -> None:
        self.world.begin_copy(number)

    @rule(number=numbers)
    def read_copy(self, number: int) -> None:
        self.world.read_copy(number)

    @rule(number=numbers)
    def end_copy(self, number: int) -> None:
        self.world.end_copy(number)

    @rule(number=numbers)
    def break_copy(self, number: int) -> None:
        self.world.break_copy(number)

    @rule(number=numbers, owner=st.integers(0, 2), cut_off=st.booleans())
    def change_owner(self, number: int, owner: int, cut_off: bool) -> None:
        self.world.change_owner(number, owner, cut_off=cut_off)

    @invariant()
    def nothing_is_broken_now(self) -> None:
        assert broken_now(self.world) == []

    def teardown(self) -> None:
        self.world.settle()
        assert broken(self.world) == []


Checkpoints.TestCase.settings = settings(
    max_examples=40, stateful_step_count=60, deadline=None, derandomize=True
)
TestCheckpoints = Checkpoints.TestCase
