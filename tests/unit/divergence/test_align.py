"""Two streams side by side: exactly the edits are found, whichever side they are on."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator

from hypothesis import given

from breakglass.services.divergence.align import (
    Hunk,
    HunkTotals,
    PairKind,
    RecordPair,
    align,
    hunks,
)
from breakglass.services.divergence.entry import Item, RecordEntry, UnreadableRange
from tests.unit.divergence.streams import Edited, edited, entries, entry

DAMAGE = UnreadableRange(3, 6, "its CRC differs")


def kinds(left: list[Item], right: list[Item]) -> list[tuple[int, str]]:
    return [(pair.offset, pair.kind.value) for pair in align(iter(left), iter(right))]


@given(edited())
def test_exactly_the_edits_are_found(made: Edited) -> None:
    pairs = list(align(iter(made.before), iter(made.after)))
    by_kind = {kind: {pair.offset for pair in pairs if pair.kind is kind} for kind in PairKind}
    assert by_kind[PairKind.LEFT] == made.dropped
    assert by_kind[PairKind.RIGHT] == made.added
    assert by_kind[PairKind.DIFFERENT] == set(made.changed)
    assert by_kind[PairKind.UNREAD] == set()
    found = {pair.offset: pair.fields for pair in pairs if pair.fields}
    assert found == {offset: (what,) for offset, what in made.changed.items()}
    assert [pair.offset for pair in pairs] == sorted({pair.offset for pair in pairs})


@given(edited())
def test_a_stream_does_not_differ_from_itself(made: Edited) -> None:
    assert {pair.kind for pair in align(iter(made.after), iter(made.after))} <= {PairKind.EQUAL}


@given(edited())
def test_exchanging_the_sides_mirrors_the_result(made: Edited) -> None:
    forth = [pair.mirrored() for pair in align(iter(made.before), iter(made.after))]
    assert forth == list(align(iter(made.after), iter(made.before)))


@given(edited())
def test_hunks_cover_every_pair_once_and_no_two_neighbours_are_alike(made: Edited) -> None:
    pairs = list(align(iter(made.before), iter(made.after)))
    found = list(hunks(pairs))
    assert sum(hunk.left for hunk in found) == len(made.before)
    assert sum(hunk.right for hunk in found) == len(made.after)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))
    assert all(
        (one.kind, one.fields) != (other.kind, other.fields)
        for one, other in itertools.pairwise(found)
    )


@given(edited())
def test_totals_count_every_edit_and_know_the_first(made: Edited) -> None:
    totals = HunkTotals()
    for pair in align(iter(made.before), iter(made.after)):
        totals.add(pair)
    assert totals.kinds[PairKind.LEFT] == len(made.dropped)
    assert totals.kinds[PairKind.RIGHT] == len(made.added)
    assert totals.fields.total() == len(made.changed)
    edits = made.dropped | made.added | set(made.changed)
    assert totals.first == min(edits, default=None)
    assert totals.equal == (not edits)


def test_two_replicas_that_diverge_and_end_at_different_offsets() -> None:
    shared = entries(95, 100, epoch=0)
    one = [*shared, *entries(100, 103, b"old", epoch=1)]
    other = [*shared, *entries(100, 102, b"new", epoch=2)]
    found = list(hunks(align(iter(one), iter(other))))
    assert [(hunk.kind, hunk.start, hunk.end, hunk.left, hunk.right) for hunk in found] == [
        (PairKind.EQUAL, 95, 100, 5, 5),
        (PairKind.DIFFERENT, 100, 102, 2, 2),
        (PairKind.LEFT, 102, 103, 1, 0),
    ]


def test_what_the_other_side_has_within_damage_is_not_called_missing() -> None:
    left: list[Item] = [*entries(0, 3), DAMAGE, *entries(6, 8)]
    right: list[Item] = [*entries(0, 8)]
    assert kinds(left, right) == [
        (0, "="), (1, "="), (2, "="), (3, "?"), (4, "?"), (5, "?"), (6, "="), (7, "=")
    ]  # fmt: skip
    told = list(align(iter(left), iter(right)))
    assert (told[4].left, told[4].right) == (DAMAGE, entry(4))


def test_damage_that_the_other_side_has_nothing_in_is_still_told() -> None:
    (pair,) = align(iter([DAMAGE]), iter(()))
    assert pair == RecordPair(3, PairKind.UNREAD, DAMAGE, None)
    assert list(hunks([pair])) == [Hunk(PairKind.UNREAD, (), 3, 6, 0, 0)]


def test_damage_on_both_sides_is_told_of_both() -> None:
    other = UnreadableRange(4, 8, "the broker does not answer")
    told = list(align(iter([DAMAGE]), iter([other])))
    assert [(pair.offset, pair.left, pair.right) for pair in told] == [
        (3, DAMAGE, None), (4, DAMAGE, other)
    ]  # fmt: skip


def test_an_epoch_that_one_side_does_not_keep_is_no_difference() -> None:
    (pair,) = align(iter([entry(1, epoch=None)]), iter([entry(1, epoch=7)]))
    assert pair.kind is PairKind.EQUAL


def test_streams_of_any_length_are_held_one_entry_at_a_time() -> None:
    def endless() -> Iterator[RecordEntry]:
        return (entry(offset) for offset in range(5_000))

    tracemalloc.start()
    try:
        totals = HunkTotals()
        for pair in align(endless(), endless()):
            totals.add(pair)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert totals.kinds == {PairKind.EQUAL: 5_000}
    assert peak < 100_000
