"""A stream seen otherwise: by position, committed records alone, under restored offsets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.divergence.align import Comparison, PairKind
from breakglass.services.divergence.entry import (
    Content,
    Item,
    RecordEntry,
    UnreadableRange,
    content_of,
)
from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.metastore_source import MARK_EVERY, open_metastore
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.divergence.views import (
    FOREVER,
    CommittedView,
    RestoredView,
    by_position,
    uncommitted,
)
from breakglass.services.errors import UsageError
from breakglass.services.metastore.lines import read_lines
from breakglass.services.metastore.records import CommandRecord, counted, pairs
from breakglass.services.topic_backup.batches import ControlType, Marker
from breakglass.services.topic_backup.record import TimestampType
from tests.kit.extent import examples
from tests.unit.divergence.streams import ListSource, entry
from tests.unit.divergence.test_log_source import write
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.shapes import plain

READING = Reading()


def commands(path: Path, *values: str) -> Path:
    path.write_bytes(b"".join(b'"stream/S%d/create":%b\n' % (at, one.encode())
                              for at, one in enumerate(values)))  # fmt: skip
    return path


def command(offset: int, number: int, value: str) -> RecordEntry:
    """The record of a command topic that line *number* stands for."""
    plain = entry(offset, value.encode(), epoch=4)
    return plain._replace(key=content_of(b'"stream/S%d/create"' % number, 512))


def _bytes(content: Content | None) -> bytes:
    assert content is not None
    return content.kept


def test_any_stretch_of_a_long_file_is_read(tmp_path: Path) -> None:
    path = commands(tmp_path / "m", *(f"{{{at}}}" for at in range(2 * MARK_EVERY + 5)))
    source = open_metastore("m", path)
    assert source.extent == Extent(1, 2 * MARK_EVERY + 6)
    for start, end in ((1, 3), (MARK_EVERY, MARK_EVERY + 3), (2 * MARK_EVERY + 4, 10**9), (7, 7)):
        found = [one.value and one.value.kept for one in source.read(start, end, READING)]
        last = min(end, source.extent.end)
        assert found == [b"{%d}" % (at - 1) for at in range(start, last)]


def test_lines_that_are_no_commands_have_no_position_and_are_told_with_their_place(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m"
    path.write_bytes(b'"stream/A/create":1\n\n"stream/B/create":\n"stream/C/create":3\n"stre')
    source = open_metastore("m", path)
    assert [one.offset for one in source.read(1, 9, READING)] == [1, 2]
    assert len(source.left_out) == 2
    assert "line 3, byte 21: null value" in source.left_out[0]
    assert "line 5" in source.left_out[1]


def test_a_topic_is_compared_message_by_message_whatever_its_offsets(tmp_path: Path) -> None:
    file = open_metastore("m", commands(tmp_path / "m", "a", "b", "c"))
    marker = command(11, 9, "")._replace(marker=Marker(ControlType.COMMIT, 1))
    topic = ListSource([command(7, 0, "a"), marker, command(12, 1, "x"), command(20, 2, "c")])
    found = list(Comparison(file, by_position(topic, READING)).pairs(0, 99, READING))
    assert [(pair.offset, pair.kind, list(map(str, pair.fields))) for pair in found] == [
        (1, PairKind.EQUAL, []),
        (2, PairKind.DIFFERENT, ["value"]),
        (3, PairKind.EQUAL, []),
    ]


def test_what_cannot_be_read_of_a_topic_is_told_with_its_offset(tmp_path: Path) -> None:
    topic = ListSource([command(7, 0, "a"), UnreadableRange(8, 9, "its CRC differs.")])
    (_, damage) = by_position(topic, READING).read(1, 9, READING)
    assert damage == UnreadableRange(2, 3, "offset 8: its CRC differs.")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file"):
        open_metastore("m", tmp_path / "none")


@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    left=st.lists(st.sampled_from("abc"), max_size=12),
    right=st.lists(st.sampled_from("abc"), max_size=12),
)
def test_the_metastores_own_comparison_comes_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, left: list[str], right: list[str]
) -> None:
    path = commands(tmp_path_factory.mktemp("m") / "m", *left)
    topic = [command(10 + at, at, one) for at, one in enumerate(right)]
    ours = list(
        Comparison(by_position(ListSource(topic), READING), open_metastore("m", path)).pairs(
            0, 99, READING
        )
    )
    kinds = [our.kind for our in ours]
    records = [CommandRecord(one.offset, _bytes(one.key), _bytes(one.value)) for one in topic]
    with path.open("rb") as file:
        told = counted(list(pairs(records, list(read_lines(file)))))
    assert (told.same, told.different) == (
        kinds.count(PairKind.EQUAL),
        kinds.count(PairKind.DIFFERENT),
    )
    assert (told.only_topic, told.only_backup) == (
        kinds.count(PairKind.LEFT),
        kinds.count(PairKind.RIGHT),
    )


ABORT, COMMIT = Marker(ControlType.ABORT, 1), Marker(ControlType.COMMIT, 1)


def written(offset: int, producer: int) -> RecordEntry:
    return entry(offset)._replace(producer_id=producer, transactional=True)


def ended(offset: int, producer: int, how: Marker) -> RecordEntry:
    return written(offset, producer)._replace(marker=how)


LOG = [
    entry(0),
    written(1, 7),
    written(2, 8),
    entry(3),
    written(4, 7),
    ended(5, 7, ABORT),
    written(6, 7),
    ended(7, 8, COMMIT),
    ended(8, 7, COMMIT),
    written(9, 8),
    entry(10),
]


def seen(start: int = 0, end: int = 20) -> list[int]:
    items = CommittedView(ListSource(LOG)).read(start, end, READING)
    return [item.offset for item in items if isinstance(item, RecordEntry)]


def test_aborted_and_undecided_records_and_markers_are_left_out() -> None:
    assert seen() == [0, 2, 3, 6, 10]


def test_a_stretch_knows_how_transactions_end_behind_it() -> None:
    assert seen(1, 5) == [2, 3]
    assert seen(6, 7) == [6]


def test_a_log_without_transactions_is_read_once() -> None:
    source = ListSource([entry(number) for number in range(10)])
    assert len(list(CommittedView(source).read(0, 10, READING))) == 10
    assert source.asked == [(0, 10)]


producers = st.sampled_from([7, 8])
steps = st.lists(st.tuples(producers, st.sampled_from(["write", "abort", "commit", "plain"])),
                 max_size=25)  # fmt: skip


def log_of(made: list[tuple[int, str]]) -> list[bytes]:
    """A batch of one record for each step."""
    found = []
    for offset, (producer, what) in enumerate(made):
        if what == "plain":
            found.append(batch([plain(offset)]))
        elif what == "write":
            found.append(batch([plain(offset)], flags=TRANSACTIONAL, producer=(producer, 0, 0)))
        else:
            marker = control_record(offset, int(what == "commit"))
            flags = CONTROL | TRANSACTIONAL
            found.append(batch([marker], flags=flags, producer=(producer, 0, -1)))
    return found


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(made=steps)
def test_headers_of_batches_tell_what_all_their_records_tell(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    write(folder, 0, log_of(made))
    source = open_log("log", folder)
    entries = list(source.read(0, len(made), READING))
    assert uncommitted(source, READING) == uncommitted(ListSource(entries), READING)


def test_a_damaged_batch_leaves_the_rest_to_be_told_by_records(tmp_path: Path) -> None:
    made = [(7, "write"), (7, "abort"), (8, "plain"), (8, "write"), (8, "commit")]
    batches = log_of(made)
    batches[1] = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    write(tmp_path, 0, batches)
    assert uncommitted(open_log("log", tmp_path), READING) == {7: [(0, FOREVER)]}


@dataclass(frozen=True)
class Noted:
    """As a restore's `CommittedRun`."""

    first_offset: int
    next_offset: int
    new_offset: int
    count: int


OLD = [entry(offset, epoch=None) for offset in (3, 4, 8, 9, 20, 21)]
STRETCHES = (Noted(3, 9, 100, 3), Noted(9, 22, 110, 3))


def restored(**changes: Item) -> list[Item]:
    """The topic: somebody else wrote at 105."""
    news = (100, 101, 102, 110, 111, 112)
    found: dict[int, Item] = {
        new: old._replace(offset=new, epoch=2) for new, old in zip(news, OLD, strict=True)
    }
    found[105] = entry(105, b"of somebody else")
    for name, item in changes.items():
        found[int(name[1:])] = item
    return [found[at] for at in sorted(found)]


def told(topic: list[Item], start: int = 0, end: int = 99) -> list[tuple[int, str]]:
    backup = ListSource(OLD)
    view = RestoredView(ListSource(topic), backup, STRETCHES)
    assert view.extent == Extent(3, 22)
    pairs = Comparison(backup, view).pairs(start, end, READING)
    return [(pair.offset, pair.kind.value) for pair in pairs]


def test_every_record_stands_under_its_old_offset() -> None:
    same = [(offset, "=") for offset in (3, 4, 8, 9, 20, 21)]
    assert told(restored()) == same
    assert told(restored(), 4, 21) == same[1:-1]


def test_what_is_missing_or_different_is_found_at_its_old_offset() -> None:
    changed = entry(4, b"other")._replace(offset=101)
    without = [one for one in restored(n101=changed) if getattr(one, "offset", 0) != 111]
    assert told(without) == [(3, "="), (4, "!"), (8, "="), (9, "="), (20, "<"), (21, "=")]


def test_what_the_topic_cannot_read_is_told_where_it_belongs() -> None:
    found = told(restored(n101=UnreadableRange(101, 103, "its CRC differs.")))
    assert found == [(3, "="), (4, "?"), (8, "?"), (9, "="), (20, "="), (21, "=")]


def test_a_timestamp_that_was_set_on_append_is_no_difference() -> None:
    old = OLD[0]._replace(timestamp_type=TimestampType.LOG_APPEND)
    backup = ListSource([old])
    topic = ListSource([OLD[0]._replace(offset=100)])
    view = RestoredView(topic, backup, (Noted(3, 4, 100, 1),))
    (pair,) = Comparison(backup, view).pairs(0, 9, READING)
    assert pair.kind is PairKind.EQUAL
