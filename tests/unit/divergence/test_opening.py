"""A stream seen otherwise: by position, committed records alone, under restored offsets."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.divergence.align import Comparison, PairKind
from breakglass.services.divergence.backup_source import open_metastore
from breakglass.services.divergence.entry import Item, RecordEntry, UnreadableRange, content_of
from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.opening import (
    FOREVER,
    CommittedView,
    RestoredView,
    by_position,
    uncommitted,
)
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.metastore.lines import CommandRecord, counted, pairs, read_lines
from breakglass.services.pipeline.restore.offset_map import CommittedRun
from breakglass.services.record_batches import ControlType, Marker
from tests.kit.extent import examples
from tests.unit.divergence.streams import ListSource, entry
from tests.unit.divergence.test_log_source import write
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.shapes import plain

READING = Reading()
with_folders = settings(max_examples=examples(50))


def commands(path: Path, *values: str) -> Path:
    path.write_bytes(b"".join(b'"stream/S%d/create":%b\n' % (at, one.encode())
                              for at, one in enumerate(values)))  # fmt: skip
    return path


def command(offset: int, number: int, value: str) -> RecordEntry:
    """The record of a command topic that line *number* stands for."""
    plain = entry(offset, value.encode(), epoch=4)
    return plain._replace(key=content_of(b'"stream/S%d/create"' % number, 512))


def test_lines_that_are_no_commands_have_a_place_and_no_position(tmp_path: Path) -> None:
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
    damage = UnreadableRange(20, 21, "its CRC differs.")
    topic = by_position(
        ListSource([command(7, 0, "a"), marker, command(12, 1, "x"), damage]), READING
    )
    found = list(Comparison(file, topic).pairs(0, 99, READING))
    assert "".join(pair.kind.value for pair in found) == "=!?"
    assert found[2].right == UnreadableRange(3, 4, "offset 20: its CRC differs.")


@with_folders
@given(
    left=st.lists(st.sampled_from("abc"), max_size=12),
    right=st.lists(st.sampled_from("abc"), max_size=12),
)
def test_the_metastores_own_comparison_comes_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, left: list[str], right: list[str]
) -> None:
    path = commands(tmp_path_factory.mktemp("m") / "m", *left)
    topic = [command(10 + at, at, one) for at, one in enumerate(right)]
    sides = by_position(ListSource(topic), READING), open_metastore("m", path)
    kinds = Counter(pair.kind for pair in Comparison(*sides).pairs(0, 99, READING))
    records = [
        CommandRecord(one.offset, one.key.kept, one.value.kept)  # type: ignore[union-attr]
        for one in topic
    ]
    with path.open("rb") as file:
        told = counted(list(pairs(records, list(read_lines(file)))))
    assert (told.same, told.different) == (kinds[PairKind.EQUAL], kinds[PairKind.DIFFERENT])
    assert (told.only_topic, told.only_backup) == (kinds[PairKind.LEFT], kinds[PairKind.RIGHT])


ABORT, COMMIT = Marker(ControlType.ABORT, 1), Marker(ControlType.COMMIT, 1)


def written(offset: int, producer: int) -> RecordEntry:
    return entry(offset)._replace(producer_id=producer, transactional=True)


def ended(offset: int, producer: int, how: Marker) -> RecordEntry:
    return written(offset, producer)._replace(marker=how)


LOG = [
    *(entry(0), written(1, 7), written(2, 8), entry(3), written(4, 7), ended(5, 7, ABORT)),
    *(written(6, 7), ended(7, 8, COMMIT), ended(8, 7, COMMIT), written(9, 8), entry(10)),
]


def seen(start: int = 0, end: int = 20) -> list[int]:
    items = CommittedView(ListSource(LOG)).read(start, end, READING)
    return [item.offset for item in items if isinstance(item, RecordEntry)]


def test_aborted_and_undecided_records_and_markers_are_left_out_of_any_stretch() -> None:
    assert (seen(), seen(1, 5), seen(6, 7)) == ([0, 2, 3, 6, 10], [2, 3], [6])


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


@with_folders
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


OLD = [entry(offset, epoch=None) for offset in (3, 4, 8, 9, 20, 21)]
STRETCHES = (CommittedRun(3, 9, 100, 3), CommittedRun(9, 22, 110, 3))


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


def test_every_record_stands_under_its_old_offset_whole_missing_different_or_unread() -> None:
    offsets = (3, 4, 8, 9, 20, 21)
    assert told(restored()) == [(offset, "=") for offset in offsets]
    assert told(restored(), 4, 21) == [(offset, "=") for offset in offsets[1:-1]]
    changed = entry(4, b"other")._replace(offset=101)
    without = [one for one in restored(n101=changed) if getattr(one, "offset", 0) != 111]
    assert told(without) == list(zip(offsets, "=!==<=", strict=True))
    damaged = restored(n101=UnreadableRange(101, 103, "its CRC differs."))
    assert told(damaged) == list(zip(offsets, "=??===", strict=True))
