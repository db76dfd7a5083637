"""Two streams side by side: pairs, runs of equal bytes, searches, the map of differences."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.divergence.align import (
    CELLS,
    Comparison,
    Hunk,
    HunkTotals,
    Minimap,
    PairKind,
    RecordPair,
    align,
    hunks,
    runs,
    worse,
)
from breakglass.services.divergence.entry import Item, UnreadableRange
from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.opening import CommittedView
from breakglass.services.divergence.pages import (
    TELL_EVERY,
    count,
    next_difference,
    previous_difference,
)
from breakglass.services.divergence.source import Extent, Reading, Same
from tests.kit.extent import examples
from tests.unit.divergence.streams import Edited, ListSource, compare, edited, entries, entry
from tests.unit.divergence.test_log_source import tens, write
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.shapes import run

DAMAGE = UnreadableRange(3, 6, "its CRC differs")


@given(edited())
def test_exactly_the_edits_are_found_and_mirrored_by_exchanging_the_sides(made: Edited) -> None:
    pairs, totals = list(align(iter(made.before), iter(made.after))), HunkTotals()
    for pair in pairs:
        totals.add(pair)
    by_kind = {kind: {pair.offset for pair in pairs if pair.kind is kind} for kind in PairKind}
    assert (by_kind[PairKind.LEFT], by_kind[PairKind.RIGHT]) == ({*made.dropped}, {*made.added})
    assert (by_kind[PairKind.DIFFERENT], by_kind[PairKind.UNREAD]) == (set(made.changed), set())
    found = {pair.offset: pair.fields for pair in pairs if pair.fields}
    assert found == {offset: (what,) for offset, what in made.changed.items()}
    assert [pair.offset for pair in pairs] == sorted({pair.offset for pair in pairs})
    assert all(totals.kinds[kind] == len(offsets) for kind, offsets in by_kind.items())
    assert totals.first == min(made.dropped | made.added | set(made.changed), default=None)
    turned = str.maketrans("<>", "><")
    back = [(at, kind.translate(turned), two, one, what) for at, kind, one, two, what in pairs]
    assert back == list(align(iter(made.after), iter(made.before)))


@given(edited())
def test_hunks_cover_every_pair_once_and_no_two_neighbours_are_alike(made: Edited) -> None:
    found = list(hunks(align(iter(made.before), iter(made.after))))
    assert sum(hunk.left for hunk in found) == len(made.before)
    assert sum(hunk.right for hunk in found) == len(made.after)
    for one, other in itertools.pairwise(found):
        assert one.end <= other.start
        assert (one.kind, one.fields) != (other.kind, other.fields)


def test_what_the_other_side_has_within_damage_is_not_called_missing() -> None:
    left: list[Item] = [*entries(0, 3), DAMAGE, *entries(6, 8)]
    told = list(align(iter(left), iter(entries(0, 8))))
    assert "".join(pair.kind.value for pair in told) == "===???=="
    assert (told[4].left, told[4].right) == (DAMAGE, entry(4))


def test_damage_is_told_of_where_the_other_side_has_nothing_or_damage_as_well() -> None:
    (pair,) = align(iter([DAMAGE]), iter(()))
    assert pair == RecordPair(3, PairKind.UNREAD, DAMAGE, None)
    assert list(hunks([pair])) == [Hunk(PairKind.UNREAD, (), 3, 6, 0, 0)]
    other = UnreadableRange(4, 8, "the broker does not answer")
    told = [(pair.offset, pair.left, pair.right) for pair in align(iter([DAMAGE]), iter([other]))]
    assert told == [(3, DAMAGE, None), (4, DAMAGE, other)]


READING = Reading()
END = 2**40


def logs(folder: Path, left: Sequence[bytes], right: Sequence[bytes]) -> Comparison:
    write(folder / "a-0", 0, left)
    write(folder / "b-0", 0, right)
    return Comparison(open_log("a", folder / "a-0"), open_log("b", folder / "b-0"))


def added(pairs: Iterable[RecordPair | Same]) -> HunkTotals:
    totals = HunkTotals()
    for pair in pairs:
        totals.add(pair)
    return totals


def decoded(comparison: Comparison) -> HunkTotals:
    return added(comparison.pairs(0, END, READING))


def by_runs(comparison: Comparison) -> HunkTotals:
    return added(runs(comparison, 0, END, READING))


def skipped(comparison: Comparison, start: int = 0) -> list[tuple[int, int]]:
    """The stretches that were not decoded, neighbours as one."""
    found: list[tuple[int, int]] = []
    for pair in runs(comparison, start, END, READING):
        if not isinstance(pair, Same):
            continue
        if found and found[-1][1] == pair.start:
            found[-1] = (found[-1][0], pair.end)
        else:
            found.append((pair.start, pair.end))
    return found


def changed(batches: Sequence[bytes], *offsets: int) -> list[bytes]:
    """The same batches of ten with another value at those offsets."""
    found = list(batches)
    for offset in offsets:
        first = offset - offset % 10
        records = [
            record._replace(value=b"other") if record.offset == offset else record
            for record in run(first, first + 10)
        ]
        found[first // 10] = batch(records)
    return found


def test_equal_batches_are_not_decoded_and_the_ones_around_a_change_are(tmp_path: Path) -> None:
    comparison = logs(tmp_path, tens(0, 2_000), changed(tens(0, 2_000), 555))
    assert skipped(comparison) == [(0, 550), (812, 2_000)]
    assert skipped(comparison, 7) == [(7, 550), (812, 2_000)]
    totals = by_runs(comparison)
    assert (totals.kinds, totals.first) == ({PairKind.EQUAL: 1_999, PairKind.DIFFERENT: 1}, 555)


@settings(max_examples=examples(30))
@given(edits=st.sets(st.integers(0, 1_499), max_size=8), cut=st.integers(1, 150))
def test_skipping_changes_none(
    tmp_path_factory: pytest.TempPathFactory, edits: set[int], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    comparison = logs(folder, tens(0, 1_500), changed(tens(0, 1_500), *edits)[:cut])
    plain, quick = decoded(comparison), by_runs(comparison)
    assert (quick.kinds, quick.fields, quick.first) == (plain.kinds, plain.fields, plain.first)
    mirrored = by_runs(Comparison(comparison.right, comparison.left))
    assert mirrored.kinds[PairKind.LEFT] == quick.kinds[PairKind.RIGHT]
    apart = plain.fields.total()
    assert mirrored.kinds[PairKind.DIFFERENT] == quick.kinds[PairKind.DIFFERENT] == apart


def test_searches_pass_over_equal_bytes_in_either_direction(tmp_path: Path) -> None:
    comparison = logs(tmp_path, tens(0, 5_000), changed(tens(0, 5_000), 3, 4_321))
    assert next_difference(comparison, 3, READING, lambda _: None) == 4_321
    assert previous_difference(comparison, 4_321, READING, lambda _: None) == 3
    assert previous_difference(comparison, 5_000, READING, lambda _: None) == 4_321


def test_where_transactions_come_into_play_committed_records_are_decoded(tmp_path: Path) -> None:
    open_one = batch(run(300, 310), flags=TRANSACTIONAL, producer=(7, 0, 0))
    marker = [control_record(310, 0)]
    abort = batch(marker, flags=CONTROL | TRANSACTIONAL, producer=(7, 0, -1))
    behind = [batch(run(at, at + 10)) for at in range(311, 601, 10)]
    log = [*tens(0, 300), open_one, abort, *behind]
    comparison = logs(tmp_path, log, log)
    assert skipped(comparison) == [(0, 601)]
    views = Comparison(CommittedView(comparison.left), CommittedView(comparison.right))
    assert skipped(views)[0] == (0, 300)
    assert by_runs(views).kinds == decoded(views).kinds == {PairKind.EQUAL: 590}


def silent(_: object) -> None:
    """Nobody looks at the progress."""


def walk(
    comparison: Comparison,
    at: int,
    step: Callable[[Comparison, int, Reading, Callable[[int], None]], int | None],
) -> list[int]:
    found = []
    while (place := step(comparison, at, READING, silent)) is not None:
        found.append(place)
        at = place
    return found


def begins(comparison: Comparison) -> list[int]:
    """Where runs of differences begin, found pair by pair."""
    kinds = {pair.offset: pair.kind for pair in comparison.pairs(0, 10**6, READING)}
    places = sorted(kinds)
    befores = [None, *(kinds[place] for place in places)]
    return [
        place
        for place, before in zip(places, befores, strict=False)
        if kinds[place] is not PairKind.EQUAL and kinds[place] is not before
    ]


@given(edited())
def test_next_and_previous_lead_through_every_run(made: Edited) -> None:
    comparison = compare(made.before, made.after)
    assert walk(comparison, -1, next_difference) == begins(comparison)
    back = walk(comparison, comparison.extent.end, previous_difference)
    assert back == begins(comparison)[::-1]


DIVERGED = (
    [*entries(0, 100, epoch=0), *entries(100, 150, b"old", epoch=1)],
    [*entries(0, 100, epoch=0), *entries(100, 125, b"new", epoch=2)],
)


def test_what_is_proven_to_be_the_same_is_not_read() -> None:
    comparison = compare(*DIVERGED, Extent(0, 100))
    assert next_difference(comparison, 5, READING, silent) == 100
    assert previous_difference(comparison, 100, READING, silent) is None
    assert isinstance(comparison.left, ListSource)
    assert all(start >= 100 for start, _ in comparison.left.asked)


def test_damage_is_a_difference_to_look_at() -> None:
    damaged: list[Item] = [*entries(0, 10), UnreadableRange(10, 20, "damaged"), *entries(20, 30)]
    comparison = compare(damaged, entries(0, 30))
    assert walk(comparison, 0, next_difference) == [10]
    assert walk(comparison, 30, previous_difference) == [10]


def test_everything_is_counted_from_an_address_on() -> None:
    totals = count(compare(*DIVERGED), 90, READING, silent)
    assert totals.kinds == {PairKind.EQUAL: 10, PairKind.DIFFERENT: 25, PairKind.LEFT: 25}
    assert (totals.first, totals.counted_to) == (100, 150)
    many = entries(0, 2 * TELL_EVERY)
    totals = count(compare(many, many), 0, READING, silent)
    assert (dict(totals.kinds), totals.counted_to) == ({PairKind.EQUAL: len(many)}, len(many))


def test_the_worst_of_each_part_is_drawn_and_what_was_not_looked_at_is_not_known() -> None:
    left = entries(0, 1_000)
    comparison = compare(left, [*left[:500], *left[501:]])
    cells = Minimap(comparison.extent)
    for pair in comparison.pairs(0, 1_000, Reading()):
        cells.add(pair)
    assert cells.drawn(10) == (*[PairKind.EQUAL] * 5, PairKind.LEFT, *[PairKind.EQUAL] * 4)
    assert cells.drawn(3 * CELLS).count(PairKind.LEFT) >= 1
    cells = Minimap(Extent(100, 200))
    cells.add(Same(100, 150, 50))
    assert cells.drawn(4) == (PairKind.EQUAL, PairKind.EQUAL, None, None)
    assert (cells.share(100), cells.share(150), cells.share(900)) == (0.0, 0.5, 1.0)
    assert worse(PairKind.LEFT, PairKind.RIGHT) is PairKind.DIFFERENT
    assert worse(PairKind.UNREAD, PairKind.EQUAL) is PairKind.UNREAD
