"""Runs of batches get the names of their transactions, by epoch or by order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.protocol.transaction_names import (
    BatchKind,
    BatchRow,
    DecidedTransaction,
    ProducerHistory,
    ProducerRun,
    by_order,
    named,
    require_uncompacted_rows,
    runs_of,
)
from breakglass.services.checkpoint.protocol.transactions import TransactionName
from breakglass.services.errors import Refused
from breakglass.services.model import TopicPartition

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
