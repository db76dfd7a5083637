"""Copies ranked and compared: prefixes, forks, and logs whose beginning only a snapshot has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.quorum.comparison import ComparedCopy, Relation, compare_copies
from breakglass.services.quorum.metadata_copy import read_copy
from tests.kit.metadata_log import MetadataLog, noop, record, topic
from tests.unit.quorum.clusters import LEDGER, small_log


def compared(folder: Path, *logs: MetadataLog) -> tuple[ComparedCopy, ...]:
    copies = [
        read_copy(log.save(folder / str(number), number)) for number, log in enumerate(logs, 101)
    ]
    return compare_copies(copies)


def nodes(found: tuple[ComparedCopy, ...]) -> list[object]:
    return [one.copy.node for one in found]


def test_q01_a_later_epoch_ranks_before_a_longer_log(tmp_path: Path) -> None:
    long, short = small_log(), small_log()
    for _ in range(5):
        long.add(noop())
    short.epoch = 2
    short.add(noop())
    found = compared(tmp_path, long, short)
    assert nodes(found) == [102, 101]
    assert found[1].relation is Relation.FORK
    assert found[1].shared == small_log().offset


def test_q01_at_one_epoch_the_longer_log_ranks_first_and_the_other_is_its_prefix(
    tmp_path: Path,
) -> None:
    short, long = small_log(), small_log()
    long.add(noop())
    found = compared(tmp_path, short, long)
    assert nodes(found) == [102, 101]
    assert [one.relation for one in found] == [Relation.BEST, Relation.PREFIX]
    assert (found[1].start, found[1].end, found[1].shared) == (0, short.offset, short.offset)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), length=st.integers(1, 12))
def test_q01_a_copy_is_a_prefix_exactly_if_none_of_its_batches_differs(
    data: st.DataObject, length: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two logs with the same beginning; brute force over the batches says where they part."""
    letters = st.lists(st.sampled_from("ab"), min_size=length, max_size=length)
    epochs = st.lists(st.integers(1, 3), min_size=length, max_size=length)
    written = []
    for _ in range(2):
        log = MetadataLog()
        for letter, epoch in zip(data.draw(letters), sorted(data.draw(epochs)), strict=True):
            log.epoch = epoch
            log.add(record("FeatureLevelRecord", name=letter, feature_level=1))
        written.append(log)
    shorter = data.draw(st.integers(1, length))
    written[1].batches = written[1].batches[:shorter]
    written[1].offset = shorter
    best, other = compared(tmp_path_factory.mktemp("forks"), *written)
    sides = [written[int(str(one.copy.node)) - 101].batches for one in (best, other)]
    parts = next(
        (at for at, (mine, its) in enumerate(zip(*sides, strict=False)) if mine != its), None
    )
    if parts is None and len(sides[1]) <= len(sides[0]):
        assert (other.relation, other.shared) == (Relation.PREFIX, len(sides[1]))
    else:
        assert other.relation is Relation.FORK
        assert other.shared == (min(map(len, sides)) if parts is None else parts)


def test_q01_a_fork_names_the_offset_and_both_sides(tmp_path: Path) -> None:
    mine, its = small_log(), small_log()
    at = mine.add(noop(), at_ms=1)
    its.add(*topic("ledger", LEDGER, (1,)))
    found = compared(tmp_path, mine, its)[1]
    assert found.fork is not None
    assert found.fork.offset == at
    assert found.fork.best is not None
    assert found.fork.copy is not None
    assert found.fork.best.next_offset == at + 2
    assert found.fork.copy.next_offset == at + 1
    assert found.fork.best.crc != found.fork.copy.crc


def test_what_lies_before_the_later_log_start_was_not_compared(tmp_path: Path) -> None:
    whole, cut = small_log(), small_log()
    begins = cut.offset
    cut.snapshot(*topic("orders", LEDGER, (1,)))
    cut.cut_start()
    for log in (whole, cut):
        log.add(noop())
    whole.add(noop())
    found = compared(tmp_path, whole, cut)[1]
    assert (found.relation, found.start, found.end) == (Relation.PREFIX, begins, cut.offset)


def test_a_copy_of_a_snapshot_alone_is_compared_by_the_epoch_before_its_end(tmp_path: Path) -> None:
    whole, cut, foreign = small_log(), small_log(), small_log()
    cut.snapshot(*topic("orders", LEDGER, (1,)))
    foreign.epoch = 0
    foreign.snapshot(*topic("orders", LEDGER, (1,)))
    for log in (cut, foreign):
        log.cut_start()
    whole.add(noop())
    found = {one.copy.node: one for one in compared(tmp_path, whole, cut, foreign)}
    assert (found[102].relation, found[102].by_id) == (Relation.PREFIX, True)
    assert found[103].relation is Relation.FORK


def test_copies_without_a_common_offset_are_not_compared(tmp_path: Path) -> None:
    old, new = small_log(), small_log()
    for _ in range(3):
        new.add(noop())
    new.snapshot(*topic("orders", LEDGER, (1,)))
    new.cut_start()
    new.add(noop())
    assert compared(tmp_path, old, new)[1].relation is Relation.UNCOMPARED


def test_q06_snapshots_past_what_is_shared_are_those_that_a_truncation_leaves(
    tmp_path: Path,
) -> None:
    behind, ahead = small_log(), small_log()
    ahead.snapshot()
    shared = ahead.offset
    ahead.add(noop())
    ahead.snapshot()
    found = compared(tmp_path, behind, ahead)
    assert [one.offset for one in found[0].snapshots_past(shared)] == [shared + 1]
