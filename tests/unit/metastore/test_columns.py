"""Commands by columns are the commands that the decoder of single records finds, line for line."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from breakglass.services.metastore import appender, columns
from breakglass.services.metastore.events import Continued, Event
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.topic import commands_in
from breakglass.services.pipeline.batches.reader import FetchedBatches, records_of
from breakglass.services.pipeline.batches.table import NotByColumns
from breakglass.services.record_batches import Compression, Record, TimestampType
from tests.kit.extent import examples
from tests.unit.metastore.test_live_backup import NAMED, back_up
from tests.unit.topic_backup.batch_bytes import LOG_APPEND, batch

ALL = (0, 2**63 - 1)
STAMP = 1_593_540_976_000

odd = st.sampled_from([b"\n", b"\r", b"\r\n", b":", b'"', b"\\", b"\0", b"\xff\xfe", b" \n"])
pieces = st.lists(st.binary(max_size=9) | odd | st.just(b"x" * 300), max_size=4).map(b"".join)
fields = st.none() | pieces
headers = st.lists(st.tuples(st.text("ab:\né", max_size=5), fields), max_size=3)


def fetch(*batches: bytes) -> FetchedBatches:
    return FetchedBatches(0, b"".join(batches), (), "b1, _confluent-ksql-test__command_topic-0")


def record(
    offset: int, key: bytes | None, value: bytes | None, *named: tuple[bytes, bytes]
) -> Record:
    return Record(offset, TimestampType.CREATE, STAMP + offset, key, value, named)


@st.composite
def fetches(draw: st.DrawFn) -> FetchedBatches:
    """Commands in some batches, with holes between their offsets."""
    offset, batches = draw(st.sampled_from([0, 41, 2**40])), []
    for _ in range(draw(st.integers(1, 4))):
        records = []
        for _ in range(draw(st.integers(1, 5))):
            offset += draw(st.integers(1, 4))
            named = tuple((name.encode(), value) for name, value in draw(headers))
            stamp = draw(st.integers(-1, 2**44))
            key, value = draw(fields), draw(fields)
            records.append(Record(offset, TimestampType.CREATE, stamp, key, value, named))
        codec, flags = draw(st.sampled_from(Compression)), draw(st.sampled_from([0, LOG_APPEND]))
        batches.append(batch(records, compression=codec, flags=flags))
    return fetch(*batches)


def one_by_one(fetched: FetchedBatches) -> list[CommandRecord]:
    """The commands as the decoder of single records finds them."""
    return [
        CommandRecord(
            found.offset,
            found.key,
            found.value,
            found.timestamp,
            tuple((name.decode(), value) for name, value in found.headers),
        )
        for found in records_of(fetched, *ALL)
    ]


def by_columns(fetched: FetchedBatches) -> columns.CommandColumns:
    (found,) = commands_in(fetched, 0)
    return found


def written(folder: Path, records: Sequence[CommandRecord]) -> tuple[bytes, bytes, list[Event]]:
    """The backup, its side file, and the events, after *records* came at once."""
    events = back_up(folder, records, group=len(records))
    return (folder / NAMED).read_bytes(), (folder / f"{NAMED}.side").read_bytes(), events


@settings(max_examples=examples(50))
@given(fetches(), st.sampled_from([1, 2, 1_000]), st.sampled_from([0, 10**9]), st.data())
@example(fetch(batch([record(0, None, None), record(1, b"", b"")])), 1, 0, None)
def test_a_backup_by_columns_is_byte_for_byte_the_one_by_records(
    fetched: FetchedBatches, at_once: int, overlapped: int, data: st.DataObject | None
) -> None:
    expected, found = one_by_one(fetched), by_columns(fetched)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(columns, "AT_ONCE", at_once)
        patch.setattr(appender, "OVERLAPPED", overlapped)
        assert list(found) == expected
        whole = written(Path(folder) / "records", expected)
        assert written(Path(folder) / "columns", found) == whole
        same, side, again = written(Path(folder) / "records", found)
        assert (same, side) == whole[:2]
        assert [event for event in again if isinstance(event, Continued)]
    if data is not None:
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(expected))] * 2)))
        assert list(found[start:end]) == expected[start:end]
        assert [found[at] for at in range(start, end)] == expected[start:end]


@pytest.mark.parametrize("name", [b"\xff", b"a\0b"])
def test_a_name_of_a_header_that_is_no_text_is_left_to_the_consumer(
    name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = batch([record(0, b"k", b"v", (b"n" * len(name), b"1"))])
    at = data.index(b"n" * len(name))
    contents = data[:at] + name + data[at + len(name) :]
    monkeypatch.setattr("google_crc32c.value", lambda _: int.from_bytes(data[17:21]))
    with pytest.raises(NotByColumns):
        list(commands_in(fetch(contents), 0))
