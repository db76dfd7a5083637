"""What a transactional cut contains, against a definition that is checked directly."""

import random
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.protocol.transactions import (
    ENDINGS,
    NO_PRODUCER,
    BatchKind,
    BatchRow,
    DecidedTransaction,
    LoggedTransaction,
    OffsetCommit,
    ProducerHistory,
    ProducerRun,
    TransactionName,
    TransactionPart,
    by_order,
    left_out,
    named,
    require_uncompacted_rows,
    runs_of,
    transaction_cut,
)
from breakglass.services.errors import Refused
from breakglass.services.model import TopicPartition
from tests.kit.extent import examples

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
HISTORIES = examples(500)


def random_history(seed: int) -> tuple[dict[int, int], list[LoggedTransaction]]:
    """Ends that were read a moment apart, and the transactions of the logs."""
    turn, history = random.Random(seed), History()
    ends: dict[int, int] = {}
    epochs = dict.fromkeys(range(PRODUCERS), 0)
    marking: dict[int, list[int]] = {producer: [] for producer in epochs}
    for number in range(turn.randint(1, 30)):
        step, log = turn.randrange(12), turn.choice(LOGS)
        producer = turn.randrange(PRODUCERS)
        name = TransactionName(producer, epochs[producer])
        offset = turn.randint(0, history.ends[log])
        if step == 0:
            ends.setdefault(log, history.ends[log])
        elif step == 1:
            history.commit(TransactionName(NO_PRODUCER, 0, number), log, offset)
        elif marking[producer]:
            history.mark(name, marking[producer].pop())
            epochs[producer] += not marking[producer]
        elif step < 8:
            history.write(name, log)
        elif step < 10 and history.ends[log]:
            history.commit(name, log, offset)
        elif name in history.parts:
            marking[producer] = turn.sample(sorted(history.parts[name]), len(history.parts[name]))
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


def assert_in_one_place(
    ends: Mapping[int, int], transactions: list[LoggedTransaction], out: Collection[TransactionName]
) -> None:
    """Every record of the cut is of a transaction in it, and each is there once."""
    found = transaction_cut(ends, {GROUP: {}}, transactions, {})
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


def test_h15_what_remains_is_consistent_and_nothing_greater_is() -> None:
    for seed in range(HISTORIES):
        ends, transactions = random_history(seed)
        out = left_out(ends, transactions)
        inside = [one for one in transactions if one.name not in out]
        assert consistent(ends, inside, transactions), seed
        assert_in_one_place(ends, transactions, out)
        few = transactions[:6]
        remaining = {one.name for one in few} - left_out(ends, few)
        for some in chain.from_iterable(combinations(few, size) for size in range(len(few) + 1)):
            if consistent(ends, some, few):
                # Of all that are consistent, the greatest one contains every other one.
                assert {one.name for one in some} <= remaining, seed


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


WRITING, STEPS, SEEDS = 4, 120, examples(250)
COMMITS = 0
"""The log of committed offsets."""


@dataclass
class Running:
    """A transaction that is not complete yet."""

    name: TransactionName
    firsts: dict[int, int] = field(default_factory=dict)
    records: dict[int, list[int]] = field(default_factory=dict)
    commits: list[OffsetCommit] = field(default_factory=list)
    markers: dict[int, int] = field(default_factory=dict)
    decided: bool = False

    @property
    def logs(self) -> set[int]:
        return set(self.firsts)

    @property
    def logged(self) -> LoggedTransaction:
        parts = {
            log: TransactionPart(tuple((at, at) for at in some), self.markers[log])
            for log, some in self.records.items()
            if log != COMMITS
        }
        return LoggedTransaction(self.name, parts, tuple(self.commits))


class MemoryCluster:
    """Logs of which only the ends and the open transactions matter."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ends = dict.fromkeys((COMMITS, *LOGS), 0)
        self.running = [Running(TransactionName(number, 0)) for number in range(WRITING)]
        self.done: list[Running] = []

    def stable(self, log: int) -> int:
        """The offset before which no transaction is open in *log*."""
        firsts = [
            one.firsts[log] for one in self.running if log in one.firsts and log not in one.markers
        ]
        return min(firsts, default=self.ends[log])

    def step(self, *, ending: bool = False) -> None:
        """Some producer writes, commits or gets a marker."""
        number = self.random.randrange(WRITING)
        one = self.running[number]
        if one.decided:
            log = self.random.choice(sorted(one.logs - one.markers.keys()))
            one.markers[log] = self._append(log)
            if one.logs == one.markers.keys():
                self.done.append(one)
                self.running[number] = Running(one.name._replace(epoch=one.name.epoch + 1))
        elif one.logs and (ending or self.random.random() < 0.25):
            one.decided = True
        elif not ending:
            self._write(one)

    def _write(self, one: Running) -> None:
        log = self.random.choice(LOGS)
        if self.random.random() < 0.3:
            # It has processed what its consumer was given: committed records alone.
            at = self._append(COMMITS)
            one.firsts.setdefault(COMMITS, at)
            offset = self.random.randint(0, self.stable(log))
            one.commits.append(OffsetCommit(COMMITS, at, "app", log, offset))
        else:
            at = self._append(log)
            one.firsts.setdefault(log, at)
            one.records.setdefault(log, []).append(at)

    def _append(self, log: int) -> int:
        self.ends[log] += 1
        return self.ends[log] - 1


@dataclass
class Taken:
    """What a take has read."""

    floors: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


def take(cluster: MemoryCluster, taken: Taken, waits: int) -> Generator[None, None, None]:
    """Read as a take does, one log at a time; anything may happen where it yields."""
    for log in (COMMITS, *LOGS):
        taken.floors[log] = cluster.stable(log)
        yield
    for _ in range(waits):
        high = {}
        for log in LOGS:
            high[log] = cluster.ends[log]
            yield
        for log in LOGS:
            while cluster.stable(log) < high[log]:
                yield
    for log in LOGS:
        taken.ends[log] = cluster.ends[log]
        yield


def played(seed: int, waits: int) -> tuple[Taken, list[LoggedTransaction]]:
    """A take in the midst of work; all transactions in the end."""
    cluster, taken = MemoryCluster(seed), Taken()
    for _ in range(cluster.random.randrange(STEPS)):
        cluster.step()
    taking = take(cluster, taken, waits)
    under_way = True
    while under_way:
        for _ in range(cluster.random.randrange(4)):
            cluster.step()
        under_way = next(taking, "ended") != "ended"
    for _ in range(STEPS):
        cluster.step()
    while any(one.logs for one in cluster.running):
        cluster.step(ending=True)
    return taken, [one.logged for one in cluster.done]


def test_h15_nothing_that_is_left_out_lies_before_the_floors() -> None:
    for seed in range(SEEDS):
        taken, transactions = played(seed, ENDINGS)
        out = left_out(taken.ends, transactions)
        for one in transactions:
            if one.name in out:
                offsets = [(log, part.first) for log, part in one.parts.items()]
                offsets += [(COMMITS, commit.position) for commit in one.commits]
                assert all(at >= taken.floors[log] for log, at in offsets), seed


A, B = TopicPartition("a", 0), TopicPartition("b", 0)
DATA, COMMIT, ABORT = BatchKind.DATA, BatchKind.COMMIT, BatchKind.ABORT
Step = tuple[int, int, BatchKind]
"""Producer, epoch and kind of a batch of one offset."""


def runs(log: TopicPartition, *steps: Step, start: int = 0) -> tuple[ProducerRun, ...]:
    rows = [
        BatchRow(offset, offset, producer, epoch, kind, 1)
        for offset, (producer, epoch, kind) in zip(count(start), steps)
    ]
    return runs_of(log, rows)[0]


def test_h15_markers_end_the_batches_of_their_own_producer_alone() -> None:
    found = runs(A, (1, 0, DATA), (2, 5, DATA), (1, 0, DATA), (2, 6, COMMIT), (1, 0, ABORT))
    assert [(run.producer_id, run.stretches, run.marker, run.commit) for run in found] == [
        (2, ((1, 1),), 3, True),
        (1, ((0, 0), (2, 2)), 4, False),
    ]


def test_h15_each_transaction_of_version_2_has_a_name_of_its_own_in_every_log() -> None:
    first = runs(A, (1, 0, DATA), (1, 1, COMMIT), (1, 1, DATA), (1, 2, ABORT), (1, 2, DATA))
    second = runs(B, (1, 0, DATA), (1, 1, COMMIT), (1, 2, DATA), (1, 3, COMMIT))
    names = [name for name, _ in named([*first, *second], {})]
    assert names == [TransactionName(1, epoch) for epoch in (0, 2, 0, 2)]
    assert not by_order([*first, *second])


def test_h15_a_control_batch_that_is_no_marker_ends_nothing() -> None:
    found = runs(A, (1, 0, DATA), (-1, 0, BatchKind.OTHER), (1, 1, COMMIT))
    assert [run.stretches for run in found] == [((0, 0),)]


def test_h15_a_changed_epoch_without_a_marker_is_refused() -> None:
    with pytest.raises(Refused):
        runs(A, (1, 0, DATA), (1, 1, DATA))


def history(ends: int, counted: int, *commits: bool) -> dict[int, ProducerHistory]:
    """What the coordinator of producer 1 has recorded, in order; *ends* is A's end by then."""
    decided = tuple(DecidedTransaction(frozenset({A}), commit) for commit in commits)
    return {1: ProducerHistory(decided, counted, {A: ends})}


OPEN, END, UNDO = (1, 0, DATA), (1, 0, COMMIT), (1, 0, ABORT)


@pytest.mark.parametrize(
    ("steps", "histories"),
    [
        pytest.param([OPEN, END], {}, id="its coordinator has no record of it"),
        pytest.param([OPEN, END, END], history(9, 2, True, True), id="a marker without records"),
        pytest.param([OPEN, END, OPEN, UNDO], history(9, 2, False, True), id="markers that differ"),
        pytest.param([OPEN, END, OPEN, END], history(2, 1, True), id="a decision is not recorded"),
    ],
)
def test_h15_a_producer_whose_epoch_stays_is_refused_where_records_do_not_explain_its_markers(
    steps: list[Step], histories: dict[int, ProducerHistory]
) -> None:
    with pytest.raises(Refused):
        list(named(runs(A, *steps), histories))


@st.composite
def told(draw: st.DrawFn) -> tuple[list[DecidedTransaction], list[int], list[int], int]:
    """Transactions over two logs; in each log where reading begins; where it is anchored."""
    some = draw(
        st.lists(
            st.tuples(st.sampled_from([(A,), (B,), (A, B)]), st.booleans()), min_size=1, max_size=9
        )
    )
    decided = [DecidedTransaction(frozenset(logs), commit) for logs, commit in some]
    numbers = st.integers(0, len(decided))
    anchored = draw(numbers)
    recorded = draw(st.integers(0, anchored))
    read = [draw(st.integers(0, anchored)) for _ in (A, B)]
    return decided, read, [recorded], anchored


@given(told())
def test_h15_transactions_of_version_1_are_counted_from_the_anchor(
    given: tuple[list[DecidedTransaction], list[int], list[int], int],
) -> None:
    decided, read, (recorded,), anchored = given
    logs: dict[TopicPartition, list[tuple[int, Step]]] = {A: [], B: []}
    ends = {}
    for number, transaction in enumerate(decided):
        if number == anchored:
            ends = {log: len(steps) for log, steps in logs.items()}
        for log in transaction.logs:
            kind = COMMIT if transaction.commit else ABORT
            logs[log] += [(number, (1, 0, DATA)), (number, (1, 0, kind))]
    ends = ends or {log: len(steps) for log, steps in logs.items()}
    found: list[ProducerRun] = []
    wanted: dict[tuple[TopicPartition, int | None], int] = {}
    for log, start in zip((A, B), read, strict=True):
        kept = [each for each in enumerate(logs[log]) if each[1][0] >= start]
        first = kept[0][0] if kept else 0
        found += runs(log, *[step for _, (_, step) in kept], start=first)
        for offset, (number, step) in kept:
            if step[2] == COMMIT and number >= recorded:
                wanted[log, offset] = number - recorded
    history = ProducerHistory(tuple(decided[recorded:]), anchored - recorded, ends)
    if not by_order(found):
        return
    names = {(run.log, run.marker): name.number for name, run in named(found, {1: history})}
    assert names == wanted


@pytest.mark.parametrize(
    "rows", [[(0, 1, 2), (3, 3, 1)], [(0, 1, 1), (2, 2, 1)], [(1, 1, 1)]], ids=str
)
def test_h15_what_compaction_has_removed_is_seen(rows: Sequence[tuple[int, int, int]]) -> None:
    some = [BatchRow(first, last, 1, 0, DATA, records) for first, last, records in rows]
    with pytest.raises(Refused):
        require_uncompacted_rows(A, some, 0)
