"""Metastores and whatever is compared with them: by position, key and value, offsets ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.divergence.align import Comparison, PairKind
from breakglass.services.divergence.entry import Content, RecordEntry, UnreadableRange, content_of
from breakglass.services.divergence.metastore_source import MARK_EVERY, open_metastore
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.divergence.views import by_position
from breakglass.services.errors import UsageError
from breakglass.services.metastore.lines import read_lines
from breakglass.services.metastore.records import CommandRecord, counted, pairs
from breakglass.services.topic_backup.batches import ControlType, Marker
from tests.unit.divergence.streams import ListSource, entry

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
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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
