"""Which line stands where, and what the sentences over them say: pure, from replicas and pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from breakglass.screens.diff.lines import (
    DiffRow,
    Manner,
    OffsetMark,
    Side,
    about,
    clock_text,
    counted_from,
    letters,
    line_segments,
    marker_text,
    marks_of,
    pieces,
    prefix_text,
    rows_of,
    side_title,
    totals_text,
)
from breakglass.screens.diff.record_page import BEHIND, RecordLine, Writing, record_lines
from breakglass.services.divergence.align import HunkTotals, PairKind, compared
from breakglass.services.divergence.replica_source import Facing, face
from breakglass.services.divergence.source import (
    ROWS,
    Item,
    Keep,
    Reading,
    RecordEntry,
    UnreadableRange,
    content_of,
    headers_of,
)
from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.record_batches import ControlType, Marker, TimestampType
from breakglass.services.words.record_text import TextForm
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


PLAIN, DIFFERENT = Style(), Style(bold=True)
HOSTILE = ["\x1b[2J", "[red]", "[/]", "\u202e", "\x00\x9b", "注文", "e\u0301" * 20, "\n", "\x07"]
hostile = st.lists(st.sampled_from(HOSTILE), max_size=12).map(lambda parts: "".join(parts).encode())
contents = st.none() | hostile | st.binary(max_size=80)
keeps = st.sampled_from([ROWS, Keep(value=7, headers=1)])


@st.composite
def items(draw: st.DrawFn) -> Item | None:
    kind = draw(st.sampled_from(["entry", "entry", "entry", "none", "damage", "marker"]))
    if kind == "none":
        return None
    if kind == "damage":
        return UnreadableRange(5, 9, draw(hostile).decode())
    keep = draw(keeps)
    headers = draw(st.lists(st.tuples(hostile, contents), max_size=3).map(tuple))
    made = RecordEntry(
        5,
        draw(st.none() | st.integers(0, 2**31 - 1)),
        draw(st.sampled_from(TimestampType)),
        draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
        content_of(draw(contents), keep.value),
        content_of(draw(contents), keep.value),
        headers_of(headers, keep),
        producer_id=draw(st.sampled_from([-1, 1001])),
    )
    return made._replace(marker=Marker(ControlType.ABORT, 3)) if kind == "marker" else made


forms = st.sampled_from(TextForm)


@given(items(), items(), st.integers(0, 130), forms, st.booleans())
def test_a_line_of_the_list_is_inert_and_exactly_as_wide_as_its_place(
    one: Item | None, other: Item | None, width: int, form: TextForm, redacted: bool
) -> None:
    written = pieces(one, other, width, Manner(form, redacted))
    strip = Strip(line_segments(written, width, PLAIN, DIFFERENT))
    assert strip.text.isprintable() or not strip.text
    assert cell_len(strip.text) == strip.cell_length == width


@given(items(), items(), forms, st.booleans())
def test_a_record_is_inert_and_its_lines_are_marked_where_it_differs(
    one: Item | None, other: Item | None, form: TextForm, redacted: bool
) -> None:
    if one is None and other is None:
        return
    pair = compared(5, one, other)
    lines = record_lines(pair, Writing(form, redacted=redacted))
    for line in lines:
        for text in (line.left, line.right):
            assert text is None or text.isprintable()
            assert text is None or len(text) <= 1_000
        assert line.sign != "=" or line.left == line.right
    if isinstance(one, RecordEntry) and isinstance(other, RecordEntry):
        assert bool(pair.fields) == any(line.sign not in "= " for line in lines)


def lines_of(
    one: Item | None, other: Item | None, form: TextForm = TextForm.TEXT
) -> list[RecordLine]:
    return record_lines(compared(5, one, other), Writing(form))


def test_a_record_is_told_field_by_field() -> None:
    record = entry(5, b'{"a": 1}')._replace(
        headers=headers_of(((b"trace", b"x"), (b"none", None)), ROWS), producer_id=7
    )
    changed = record._replace(epoch=6, value=content_of(b'{"a": 2}', 512))
    told = lines_of(record, changed, TextForm.JSON)
    assert [(line.sign, line.name, line.left) for line in told] == [
        ("!", "epoch", "5"),
        ("=", "timestamp", "2023-11-14 22:13:20Z (1700000000005 ms)"),
        ("=", "type", "set by the producer"),
        ("=", "producer", "7"),
        ("=", "key", "5 bytes; not JSON (at character 0), so it is shown as text"),
        ("=", "", "key-5"),
        ("=", "headers", "2"),
        ("=", "", "trace: x"),
        ("=", "", "none: null"),
        ("=", "value", "8 bytes"),
        ("=", "", "{"),
        ("!", "", '  "a": 1'),
        ("=", "", "}"),
    ]


def test_what_is_not_shown_not_there_or_no_record_is_marked_with_its_sign() -> None:
    one, other = (entry(5)._replace(value=content_of(value, 4)) for value in (b"same1", b"same2"))
    assert lines_of(one, other)[-1] == RecordLine("!", "", BEHIND, BEHIND)
    alone = lines_of(entry(5), None)
    assert alone[0] == RecordLine("<", "", "", "no record at this offset")
    assert {(line.sign, line.right) for line in alone[1:]} == {("<", None)}
    damaged = lines_of(UnreadableRange(5, 1_005, "its CRC differs"), entry(5))
    assert damaged[0].left == "5 to 1,005 cannot be read: its CRC differs"
    assert {line.sign for line in damaged} == {"?"}
    marker = entry(5)._replace(marker=Marker(ControlType.COMMIT, 3))
    told = {line.name: (line.sign, line.left) for line in lines_of(marker, entry(5))}
    assert told["marker"] == ("<", "-- transaction committed, coordinator epoch 3 --")
    control = marker_text(Marker(ControlType.LEADER_CHANGE, None))
    assert control == "-- control record leader_change --"


def test_a_difference_beyond_the_line_is_moved_into_it() -> None:
    one, other = (entry(5, b"x" * 200 + end + b"y" * 200) for end in (b"AAA", b"BBB"))
    strip = Strip(line_segments(pieces(one, other, 40, Manner()), 40, PLAIN, DIFFERENT))
    marked = "".join(piece.text for piece in strip if piece.style == DIFFERENT)
    assert marked == "AAA"
    assert "...xxxxxxxxAAAyyy" in strip.text


@pytest.mark.parametrize(
    ("timestamp", "shown"), [(None, "-"), (-1, "-"), (0, "00:00:00"), (2**63 - 1, "?")]
)
def test_a_time_that_is_none_is_no_time(timestamp: int | None, shown: str) -> None:
    assert clock_text(timestamp) == shown
