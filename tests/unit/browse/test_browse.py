"""The tree of a place, queries, searches and exports."""

import base64
import csv
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.browse.export import export
from breakglass.services.browse.query import (
    WHOLE,
    first_at,
    next_match,
    parse_query,
    previous_match,
)
from breakglass.services.browse.tree import (
    TopicContents,
    TopicNode,
    partitions_in,
    total,
)
from breakglass.services.divergence.align import Alone
from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.divergence.entry import (
    RecordEntry,
    UnreadableRange,
    content_of,
    headers_of,
)
from breakglass.services.divergence.opening import open_backup
from breakglass.services.divergence.source import Reading
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.record_batches import TimestampType
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import records_name, segment_prefix
from tests.unit.divergence.streams import TIME, ListSource, entries, entry
from tests.unit.topic_backup.backups import as_the_originals, back_up, read, segments
from tests.unit.topic_backup.shapes import plain, run


def held(topic: Path) -> TopicContents:
    return partitions_in(TopicNode(str(topic.parent), topic.name))


def test_what_is_unknown_not_committed_or_gone_is_told(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 100), max_segment_bytes=1_000)
    first, *_ = segments(topic)
    (topic / records_name(first)).unlink()
    stray = segment_prefix(0, 5_000)
    (topic / records_name(stray)).write_bytes(b"\x01")
    (partition,) = held(topic).partitions
    notes = {segment.prefix: segment.note for segment in partition.segments}
    assert (notes[first], notes[stray], partition.missing) == ("missing", "not committed", 1)
    as_the_originals(topic)
    for path in topic.glob("*_index"):
        path.unlink()
    (partition,) = held(topic).partitions
    assert isinstance(partition.records, Unknown)
    assert "backup repair" in partition.records.reason
    assert (total([1, None, 2]), total([1, Unknown("why")])) == (3, Unknown("why"))


@pytest.mark.parametrize("bare", [False, True], ids=["ours", "the originals"])
def test_partitions_and_segments_have_their_figures(tmp_path: Path, bare: bool) -> None:
    topic = back_up(tmp_path, run(0, 100), max_segment_bytes=1_000)
    if bare:
        as_the_originals(topic)
    found = held(topic)
    (partition,) = found.partitions
    assert (partition.first_offset, partition.last_offset, partition.records) == (0, 99, 100)
    assert partition.address == f"backup:{tmp_path}/orders/0"
    assert len(partition.segments) == len(segments(topic))
    assert partition.bytes == sum(path.stat().st_size for path in topic.glob("*_records"))
    assert (found.commit, partition.lost) == (
        (None, Unknown("without a manifest it is not recorded")) if bare else (1, 0)
    )


VALUE = b'{"user": {"id": 17, "names": ["Ann", "B"]}, "ok": true, "note": "card declined"}'
RECORD = RecordEntry(
    1_200,
    None,
    TimestampType.CREATE,
    1_769_860_800_000,
    content_of(b"u-17", 2**31),
    content_of(VALUE, 2**31),
    headers_of(((b"trace", b"abc"), (b"trace", None)), WHOLE),
)


FOUND = (
    *("declined", "u-17", "key:-17", "key=u-17", '"value:card declined"', "header:trace"),
    *("header:trace=abc", "json:user.id=17", "json:$.user.names[1]=B", "json:user.names[0]"),
    *("json:ok=true", "offset:1,200", "time:2026-01-31T12:00", "time:2026-01-31T13:00+01:00"),
    *("time:1769860800000", "-key:x declined", "-header:other"),
)
NOT_FOUND = (
    *("nowhere", "key=u-1", "value:u-17", "header:trace=x", "header:other", "json:user.id=18"),
    *("json:user.names[2]", "json:user[0]", "json:note.x", "offset:1201"),
    *("time:2026-01-31T12:00:01", "-declined", "declined nowhere"),
)


@pytest.mark.parametrize("text", [*FOUND, *NOT_FOUND])
def test_a_record_is_found_by_what_it_holds(text: str) -> None:
    assert parse_query(text).fits(RECORD) is (text in FOUND)


@pytest.mark.parametrize("text", ["", '"open', "offset:x", "time:yesterday", "json:=3", "json:a[x"])
def test_what_is_no_query_says_why(text: str) -> None:
    with pytest.raises(UsageError):
        parse_query(text)


READING = Reading()


def unheard(_: int) -> None:
    """Nobody listens."""


@given(
    st.sets(st.integers(0, 299), max_size=5),
    st.sets(st.integers(0, 299), max_size=60),
    st.integers(-1, 301),
)
def test_exactly_the_next_and_previous_are_found(wanted: set[int], gone: set[int], at: int) -> None:
    items = [entry(number, b"wanted" if number in wanted else b"v") for number in range(300)]
    source = ListSource([item for item in items if item.offset not in gone])
    comparison, query = Alone(source), parse_query("value:wanted")
    there = wanted - gone
    after = next_match(comparison, query, at, READING, unheard)
    before = previous_match(comparison, query, at, READING, unheard)
    assert after == min((number for number in there if number > at), default=None)
    assert before == max((number for number in there if number < at), default=None)


def test_a_moment_is_found_by_halves_and_records_without_a_time_are_passed_over() -> None:
    source = ListSource([*entries(0, 50), UnreadableRange(50, 60, "why"), *entries(60, 100)])
    for offset in (0, 1, 49, 61, 99):
        assert first_at(source, TIME + offset, READING) == offset
    # What cannot be read may hold it.
    assert first_at(source, TIME + 60, READING) == 50
    assert first_at(source, 0, READING) == 0
    assert first_at(source, TIME + 1_000, READING) == 100
    assert len(source.asked) < 80
    timeless = [one._replace(timestamp=None) for one in entries(0, 10)]
    assert first_at(ListSource([*timeless, *entries(10, 20)]), TIME + 15, READING) == 15


ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def source(tmp_path: Path) -> BackupSource:
    """Records 0 to 9; the value of 5 is large, that of 6 no text, and 6 has odd headers."""
    records = list(run(0, 10))
    records[5] = plain(5, value=b"x" * 100_000)
    odd = ((b"h", None), (b"h", b""))
    records[6] = plain(6, value=b"\xff\x00", key=None)._replace(headers=odd)
    return open_backup("x", LocalFolder(back_up(tmp_path / "b", records)), 0)


def test_json_lines_hold_records_for_the_owner_alone(source: BackupSource, tmp_path: Path) -> None:
    to = tmp_path / "marked.jsonl"
    assert export(source, ORDERS, {6, 5, 1}, to, READING) == 3
    one, large, odd = map(json.loads, to.read_text().splitlines())
    assert (one["offset"], one["key"], one["bytes"]) == (1, "key", "utf8")
    assert large["value"] == "x" * 100_000
    assert (odd["bytes"], odd["key"]) == ("base64", None)
    assert base64.b64decode(odd["value"]) == b"\xff\x00"
    assert stat.S_IMODE(to.stat().st_mode) == 0o600


def contents(found: dict[str, Any]) -> list[bytes | None]:
    """The key and the value of an exported record or header, as its encodings say."""
    decode: dict[str, Callable[[str], bytes]] = {"utf8": str.encode, "base64": base64.b64decode}
    return [
        decode[found[f"{name}_encoding"]](found[name]) if found[f"{name}_encoding"] else None
        for name in ("key", "value")
    ]


def test_json_and_csv_have_each_byte_with_its_encoding_and_tell_null_from_empty(
    source: BackupSource, tmp_path: Path
) -> None:
    for name in ("marked.json", "marked.csv"):
        assert export(source, ORDERS, {6, 5, 1}, tmp_path / name, READING) == 3
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    found: list[dict[str, Any]] = json.loads((tmp_path / "marked.json").read_text())
    with (tmp_path / "marked.csv").open(newline="") as file:
        table: list[dict[str, Any]] = list(csv.DictReader(file))
    assert [one["offset"] for one in found] == [int(row["offset"]) for row in table] == [1, 5, 6]
    for one, row in zip(found, table, strict=True):
        row["headers"] = json.loads(row["headers"])
        assert contents(one) == contents(row)
        assert one["headers"] == row["headers"]
    odd = found[-1]
    assert (odd["key"], odd["key_encoding"], odd["value_encoding"]) == (None, None, "base64")
    assert contents(odd) == [None, b"\xff\x00"]
    assert [contents(header) for header in odd["headers"]] == [[b"h", None], [b"h", b""]]


@pytest.mark.parametrize(
    "value", [b"=1+1", b" @SUM(A1)", b"\x1b[2J", "\u202eexe".encode(), b"\xff"]
)
def test_a_table_has_nothing_that_acts_and_loses_nothing(value: bytes, tmp_path: Path) -> None:
    records = [plain(0, value=value), plain(1, value=b'a "b",\n\tc')]
    source = open_backup("x", LocalFolder(back_up(tmp_path / "b", records)), 0)
    to = tmp_path / "marked.csv"
    assert export(source, ORDERS, {0, 1}, to, READING) == 2
    with to.open(newline="") as file:
        acting, harmless = csv.DictReader(file)
    assert (acting["value_encoding"], contents(acting)[1]) == ("base64", value)
    assert (harmless["value_encoding"], harmless["value"]) == ("utf8", 'a "b",\n\tc')


def test_a_folder_becomes_a_backup_of_those_records(source: BackupSource, tmp_path: Path) -> None:
    assert export(source, ORDERS, {5, 6}, tmp_path / "kept", READING) == 2
    held = read(tmp_path / "kept" / "orders")
    assert [(record.offset, len(record.value or b""), record.headers) for record in held] == [
        (5, 100_000, ()),
        (6, 2, ((b"h", None), (b"h", b""))),
    ]


def test_what_is_there_is_never_written_over(source: BackupSource, tmp_path: Path) -> None:
    to = tmp_path / "there.jsonl"
    to.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        export(source, ORDERS, {1}, to, READING)
    assert to.read_text() == "mine"
