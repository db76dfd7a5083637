"""Which line stands where, and what the sentences over them say: pure, from replicas and pairs."""

from __future__ import annotations

import pytest
from hypothesis import given

from breakglass.screens.diff.lines import (
    DiffRow,
    OffsetMark,
    Side,
    about,
    counted_from,
    letters,
    marks_of,
    prefix_text,
    rows_of,
    side_title,
    totals_text,
)
from breakglass.services.divergence.align import HunkTotals, PairKind
from breakglass.services.divergence.entry import Item, UnreadableRange
from breakglass.services.divergence.replicas import Facing, face
from breakglass.services.divergence.source import Reading
from breakglass.services.model import PartitionEvidence, Unknown
from tests.kit.incidents import LEDGER, internal
from tests.unit.divergence.streams import Edited, compare, edited, entries, entry
from tests.unit.recovery.replicas import log, offline, without_epochs


def facing(evidence: PartitionEvidence = LEDGER, left: int = 1, right: int = 2) -> Facing:
    found = face(evidence, left, right)
    assert not isinstance(found, Unknown)
    return found


@given(edited())
def test_every_pair_has_a_line_and_narrow_each_side_of_what_differs(made: Edited) -> None:
    comparison = compare(made.before, made.after)
    pairs = list(comparison.pairs(0, 100, Reading()))
    beside = rows_of(pairs, (), 100, stacked=False)
    assert [row.pair for row in beside] == pairs
    below = rows_of(pairs, (), 100, stacked=True)
    for place, pair in enumerate(pairs):
        sides = [row.side for row in below if row.place == place]
        assert (
            sides
            == {
                PairKind.EQUAL: [Side.BOTH],
                PairKind.LEFT: [Side.LEFT],
                PairKind.RIGHT: [Side.RIGHT],
                PairKind.DIFFERENT: [Side.LEFT, Side.RIGHT],
            }[pair.kind]
        )


def test_marks_stand_before_their_offset_whether_or_not_a_record_is_there() -> None:
    pairs = list(compare(entries(0, 3), entries(0, 3)).pairs(0, 3, Reading()))
    marks = [OffsetMark(3, "end"), OffsetMark(1, "here"), OffsetMark(9, "not held")]
    told = [
        row.mark.text if row.mark else row.place for row in rows_of(pairs, marks, 3, stacked=False)
    ]
    assert told == [0, "here", 1, 2, "end"]
    compacted = list(compare(entries(5, 6), entries(5, 6)).pairs(0, 6, Reading()))
    rows = rows_of(compacted, [OffsetMark(5, "here")], 6, stacked=False)
    assert rows == [DiffRow(0, None, mark=OffsetMark(5, "here")), DiffRow(0, compacted[0])]


def test_marks_and_titles_tell_where_the_sides_part_and_end_and_what_is_committed() -> None:
    assert [(mark.offset, mark.text) for mark in marks_of(facing())] == [
        (100, "diverge at 100: b1 in epoch 2, b2 in epoch 1"),
        (100, "committed up to 100, as b1 and b2 heard"),
        (125, "b1 ends at 125"),
        (150, "b2 ends at 150"),
    ]
    prefix = offline(log(1, (0, 90)), log(2, (0, 150)))
    told = [mark.text for mark in marks_of(facing(prefix))]
    assert told[0] == "diverge at 90: b1 ends, b2 in epoch 0"
    assert told[1] == "b1 ends at 90, all of it committed"
    assert side_title(facing().left, best=True) == "b1 best  0..125  epochs 0 2"
    assert side_title(facing().right, best=False, brief=True) == "b2  0..150"


def test_a_summary_says_what_the_epochs_prove_and_what_was_counted() -> None:
    pair = facing()
    assert counted_from(pair) == 100
    assert prefix_text(pair) == "Same up to 100, by epochs."
    assert totals_text(pair, None) == "Then nothing is counted yet: c counts."
    totals = HunkTotals()
    for one in compare(entries(98, 101), entries(99, 103, b"x")).pairs(98, 103, Reading()):
        totals.add(one)
    assert (
        totals_text(pair, totals)
        == "Then ! 2 offsets hold different records, < 1 only on b1, > 2 only on b2."
    )
    totals.kinds[PairKind.EQUAL], totals.kinds[PairKind.UNREAD] = 1_000, 3
    assert totals_text(pair, totals).endswith(", = 1,000 the same, ? 3 not known.")


@pytest.mark.parametrize(
    ("evidence", "start", "words"),
    [
        (offline(log(1, (0, 100)), without_epochs(2, 90)), 0, "where they diverge (b2: READ on"),
        (internal(), 0, "each log may have been compacted"),
        (offline(log(1, (0, 100), start=30), log(2, (0, 90))), 0, "Same from 30 up to 90"),
        (offline(log(1, (3, 9), start=5), log(2, (4, 9), start=5)), 5, "no offset in common"),
    ],
)
def test_a_summary_claims_no_more_than_the_epochs_prove(
    evidence: PartitionEvidence, start: int, words: str
) -> None:
    pair = facing(evidence)
    assert counted_from(pair) == start
    assert words in prefix_text(pair)


def test_a_line_is_said_in_words() -> None:
    damage = UnreadableRange(3, 5, "its CRC differs")
    left: list[Item] = [entry(0, epoch=1), entry(1), entry(2), damage]
    right: list[Item] = [entry(0, b"x"), entry(1), *entries(3, 6)]
    pairs = list(compare(left, right).pairs(0, 9, Reading()))
    assert letters(pairs[0]) == "ev"
    assert [about(pair, facing()) for pair in pairs] == [
        "offset 0: different in epoch (e), value (v)",
        "offset 1: the same on both",
        "offset 2: only on b1",
        "b1 cannot be read from 3 to 5: its CRC differs",
        "b1 cannot be read from 3 to 5: its CRC differs",
        "offset 5: only on b2",
    ]
