"""What a transactional cut contains, against a definition that is checked directly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.checkpoint.protocol.transactions import (
    NO_PRODUCER,
    LoggedTransaction,
    OffsetCommit,
    TransactionName,
    TransactionPart,
    left_out,
    transaction_cut,
)

LOGS = (1, 2, 3)
GROUP = "app"


@dataclass
class History:
    """Logs as brokers would have them: transactions that run side by side, step by step."""

    ends: dict[int, int] = field(default_factory=lambda: dict.fromkeys(LOGS, 0))
    commits: int = 0
    parts: dict[TransactionName, dict[int, TransactionPart]] = field(default_factory=dict)
    committed: dict[TransactionName, list[OffsetCommit]] = field(default_factory=dict)

    def write(self, name: TransactionName, log: int) -> None:
        at = self.ends[log]
        self.ends[log] += 1
        parts = self.parts.setdefault(name, {})
        before = parts.get(log, TransactionPart((), None))
        parts[log] = TransactionPart((*before.stretches, (at, at)), None)

    def commit(self, name: TransactionName, log: int, offset: int) -> None:
        found = OffsetCommit(0, self.commits, GROUP, log, offset)
        self.committed.setdefault(name, []).append(found)
        self.commits += 1

    def mark(self, name: TransactionName, log: int) -> None:
        part = self.parts[name][log]
        self.parts[name][log] = TransactionPart(part.stretches, self.ends[log])
        self.ends[log] += 1

    @property
    def transactions(self) -> list[LoggedTransaction]:
        names = sorted({*self.parts, *self.committed})
        return [
            LoggedTransaction(
                name, dict(self.parts.get(name, {})), tuple(self.committed.get(name, ()))
            )
            for name in names
        ]


PRODUCERS = 3


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, int], list[LoggedTransaction]]:
    """Ends that were read a moment apart, and the transactions of the logs."""
    history = History()
    ends: dict[int, int] = {}
    epochs = dict.fromkeys(range(PRODUCERS), 0)
    marking: dict[int, list[int]] = {producer: [] for producer in epochs}
    alone = 0
    for _ in range(draw(st.integers(1, 30))):
        step = draw(st.integers(0, 11))
        producer = draw(st.integers(0, PRODUCERS - 1))
        name = TransactionName(producer, epochs[producer])
        log = draw(st.sampled_from(LOGS))
        if step == 0:
            ends.setdefault(log, history.ends[log])
        elif step == 1:
            alone += 1
            offset = draw(st.integers(0, history.ends[log]))
            history.commit(TransactionName(NO_PRODUCER, 0, alone), log, offset)
        elif marking[producer]:
            history.mark(name, marking[producer].pop())
            epochs[producer] += not marking[producer]
        elif step < 8:
            history.write(name, log)
        elif step < 10 and history.ends[log]:
            history.commit(name, log, draw(st.integers(0, history.ends[log])))
        elif name in history.parts:
            marking[producer] = draw(st.permutations(sorted(history.parts[name])))
        elif name in history.committed:
            epochs[producer] += 1
    return {log: ends.get(log, history.ends[log]) for log in LOGS}, history.transactions


def consistent(
    ends: Mapping[int, int], inside: Collection[LoggedTransaction], all_: list[LoggedTransaction]
) -> bool:
    """Whether these transactions and no others may be in a checkpoint, one rule after the other."""
    outside = [one for one in all_ if one not in inside]
    for one in inside:
        for log, part in one.parts.items():
            if part.marker is None or part.marker >= ends[log]:
                return False
        for commit in one.commits:
            if commit.offset is not None and commit.offset > ends[commit.partition]:
                return False
        if any(needs(one, other) for other in outside):
            return False
    return True


def needs(one: LoggedTransaction, other: LoggedTransaction) -> bool:
    """Whether *one* comes from a state of the application that *other* has led to."""
    same = one.name.producer_id == other.name.producer_id != NO_PRODUCER
    processed = any(
        commit.offset is not None
        and commit.partition in other.parts
        and commit.offset > other.parts[commit.partition].first
        for commit in one.commits
    )
    continues = any(
        commit.partition == earlier.partition and commit.position > earlier.position
        for commit in one.commits
        for earlier in other.commits
    )
    follows = any(
        log in other.parts
        and (marker := other.parts[log].marker) is not None
        and part.first > marker
        for log, part in one.parts.items()
    )
    return (same and one.name > other.name) or processed or continues or follows


def subsets(some: list[LoggedTransaction]) -> Iterable[tuple[LoggedTransaction, ...]]:
    for count in range(len(some), -1, -1):
        yield from combinations(some, count)


@settings(max_examples=400, deadline=None)
@given(histories())
def test_h15_what_remains_is_consistent_and_nothing_greater_is(
    told: tuple[dict[int, int], list[LoggedTransaction]],
) -> None:
    ends, transactions = told
    out = left_out(ends, transactions)
    inside = [one for one in transactions if one.name not in out]
    assert consistent(ends, inside, transactions)
    few = transactions[:7]
    remaining = {one.name for one in few} - left_out(ends, few)
    for some in subsets(few):
        if consistent(ends, some, few):
            # Of all that are consistent, the greatest one contains every other one.
            assert {one.name for one in some} <= remaining


@settings(max_examples=400, deadline=None)
@given(histories())
def test_h15_every_record_of_the_cut_is_of_a_transaction_in_it_and_each_is_there_once(
    told: tuple[dict[int, int], list[LoggedTransaction]],
) -> None:
    ends, transactions = told
    found = transaction_cut(ends, {GROUP: {}}, transactions, {})
    out = left_out(ends, transactions)
    for log in LOGS:
        assert 0 <= found.positions[log] <= ends[log]
        kept = found.in_transit.get(log, ())
        assert list(kept) == sorted(set(kept))
        restored = {*range(found.positions[log]), *kept}
        for one in transactions:
            if log in one.parts:
                offsets = {offset for offset, _ in one.parts[log].stretches}
                assert offsets & restored == (set() if one.name in out else offsets)
    for log, offset in found.offsets[GROUP].items():
        assert offset <= found.positions[log]


def transaction(
    number: int, parts: Mapping[int, tuple[int, int | None]], commits: Mapping[int, int] = {}
) -> LoggedTransaction:
    """Of a producer of its own, with one record before each marker."""
    return LoggedTransaction(
        TransactionName(number, 0),
        {log: TransactionPart(((first, first),), marker) for log, (first, marker) in parts.items()},
        tuple(OffsetCommit(0, number, GROUP, log, offset) for log, offset in commits.items()),
    )


def test_h15_a_transaction_that_overlaps_what_is_left_out_stays() -> None:
    torn = transaction(1, {1: (10, 14), 2: (5, 20)}, {3: 7})
    whole = transaction(2, {1: (12, 16)})
    found = transaction_cut({1: 17, 2: 10, 3: 9}, {GROUP: {3: 6}}, [torn, whole], {})
    assert found.positions == {1: 10, 2: 5, 3: 9}
    assert found.in_transit == {1: (12,)}
    assert found.offsets == {GROUP: {3: 6}}
    assert found.left_out == {torn.name}


def test_h15_what_processed_a_record_that_is_left_out_is_left_out_with_its_offsets() -> None:
    torn = transaction(1, {1: (10, 14), 2: (5, 20)})
    reader = transaction(2, {3: (4, 5)}, {1: 11})
    found = transaction_cut({1: 17, 2: 10, 3: 9}, {GROUP: {1: 8}}, [torn, reader], {})
    assert found.positions == {1: 10, 2: 5, 3: 4}
    assert found.offsets == {GROUP: {1: 8}}


def test_h15_records_from_outside_after_the_cut_stay() -> None:
    torn = transaction(1, {1: (10, 14), 2: (5, 20)})
    found = transaction_cut({1: 17, 2: 10}, {}, [torn], {1: ((8, 9), (12, 13), (16, 18))})
    assert found.in_transit == {1: (12, 13, 16)}


def test_h15_a_commit_of_a_group_on_its_own_is_bounded_by_the_cut() -> None:
    alone = LoggedTransaction(
        TransactionName(NO_PRODUCER, 0, 3), {}, (OffsetCommit(0, 3, GROUP, 1, 12),)
    )
    deleted = LoggedTransaction(
        TransactionName(NO_PRODUCER, 0, 2), {}, (OffsetCommit(0, 2, GROUP, 2, None),)
    )
    found = transaction_cut({1: 11, 2: 9}, {GROUP: {1: 8, 2: 4}}, [alone, deleted], {})
    assert found.offsets == {GROUP: {1: 8}}
