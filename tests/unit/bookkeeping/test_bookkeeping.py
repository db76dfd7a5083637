"""The bookkeeper's readers: of batches that kafka-python wrote, of rescues, of documents."""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import cramjam
import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from breakglass import bookkeeping
from breakglass.bookkeeping.judge import SavedRecord, elected, judged, read_rescues
from breakglass.bookkeeping.log_files import (
    HEADER,
    XERIAL,
    DamagedLog,
    crc32c,
    decompress,
    digest,
    read_disks,
    read_folder,
)

COMPRESS = {
    1: lambda data: bytes(cramjam.gzip.compress(data)),
    2: lambda data: XERIAL + struct.pack(">ii", 1, 1) + _block(data[:50]) + _block(data[50:]),
    3: lambda data: bytes(cramjam.lz4.compress(data)),
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}
"""By the codec of a batch's attributes."""
LEADER_EPOCH = 12
ATTRIBUTES = 21


def _block(data: bytes) -> bytes:
    compressed = bytes(cramjam.snappy.compress_raw(data))
    return struct.pack(">i", len(compressed)) + compressed


def batch(
    first: int,
    offsets: Iterable[int],
    epoch: int,
    *,
    compression: int = 0,
    producer: int = -1,
    control: bytes | None = None,
) -> bytes:
    """A batch at *first* with records at these offsets from it; *control*: a marker's key."""
    counter = min(producer, 0)
    builder = DefaultRecordBatchBuilder(2, 0, producer >= 0, producer, counter, counter, 1 << 16)
    for offset in offsets:
        builder.append(offset, 1_000, control or b"key", f"{epoch}:{first + offset}".encode(), [])
    made = bytearray(builder.build())
    if compression:
        made[HEADER.size :] = COMPRESS[compression](bytes(made[HEADER.size :]))
        struct.pack_into(">i", made, 8, len(made) - 12)
    made[ATTRIBUTES + 1] |= compression | (0x20 if control is not None else 0)
    struct.pack_into(">I", made, 17, crc32c(bytes(made[ATTRIBUTES:])))
    struct.pack_into(">q", made, 0, first)
    struct.pack_into(">i", made, LEADER_EPOCH, epoch)
    return bytes(made)


def folder(path: Path, *batches: bytes, name: str = "orders-0", segment: int = 0) -> Path:
    target = path / name
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{segment:020d}.log").write_bytes(b"".join(batches))
    return target


def test_nothing_of_the_product_is_imported() -> None:
    text = "\n".join(file.read_text() for file in Path(bookkeeping.__path__[0]).glob("*.py"))
    imported = re.findall(r"^\s*(?:from|import) ((?:breakglass|tests|benchmarks)\S*)", text, re.M)
    assert imported
    assert [name for name in imported if not name.startswith("breakglass.bookkeeping")] == []


def test_records_have_epoch_offset_key_and_contents_and_a_torn_end_is_none(tmp_path: Path) -> None:
    batches = (batch(0, range(3), 0), batch(3, (0, 4), 2), batch(8, range(3), 2)[:-1])
    read = read_folder(folder(tmp_path, *batches))
    assert (read.start, read.end) == (0, 8)
    found = [(entry.epoch, entry.offset) for entry in read.records]
    assert found == [(0, 0), (0, 1), (0, 2), (2, 3), (2, 7)]
    assert (read.records[4].key, read.records[4].digest) == (b"key", digest(b"key", b"2:7"))
    assert read.epochs == ((0, 0), (2, 3))
    assert [read.epoch_at(offset) for offset in (0, 2, 3, 7, 8)] == [0, 0, 2, 2, None]


def test_every_compression_is_read_and_no_other(tmp_path: Path) -> None:
    expected = [digest(b"key", f"0:{offset}".encode()) for offset in range(20)]
    for codec in COMPRESS:
        read = read_folder(folder(tmp_path, batch(0, range(20), 0, compression=codec)))
        assert [entry.digest for entry in read.records] == expected, codec
    assert decompress(2, bytes(cramjam.snappy.compress_raw(b"of librdkafka"))) == b"of librdkafka"
    with pytest.raises(DamagedLog):
        decompress(5, b"")


@pytest.mark.parametrize(("place", "value"), [(-1, 1), (16, 1)], ids=["a byte", "the format"])
def test_what_was_changed_is_damage(tmp_path: Path, place: int, value: int) -> None:
    changed = bytearray(batch(0, range(3), 0))
    changed[place] = value
    with pytest.raises(DamagedLog):
        read_folder(folder(tmp_path, bytes(changed)))


def test_an_epoch_begins_where_the_broker_noted_it(tmp_path: Path) -> None:
    path = folder(tmp_path, batch(0, (4,), 1), batch(5, (2,), 3))
    (path / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 2\n3 5\n")
    assert read_folder(path).epochs == ((0, 0), (1, 2), (3, 5))


def test_markers_are_places_and_no_records(tmp_path: Path) -> None:
    commit, abort = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"
    batches = [batch(2 * number, range(2), 0, producer=number) for number in range(3)]
    batches.append(batch(6, (0,), 0, producer=0, control=commit))
    batches.append(batch(7, (0,), 0, producer=1, control=abort))
    read = read_folder(folder(tmp_path, *batches))
    assert [entry.offset for entry in read.records] == [0, 1, 2, 3, 4, 5]
    assert {offset for _, offset in read.places} == set(range(8))
    assert read.undecided == {2, 3, 4, 5}


def test_disks_are_read_by_partition_and_broker_and_again_when_they_grew(tmp_path: Path) -> None:
    folder(tmp_path / "one", batch(0, range(3), 0))
    folder(tmp_path / "two", batch(0, range(2), 0))
    folder(tmp_path / "two", batch(0, range(2), 0), name="orders-1.abc-delete")
    folder(tmp_path / "two", batch(0, range(2), 0), name="__cluster_metadata-0")
    folder(tmp_path / "three", batch(0, range(1), 0), name="a-b-1")
    dirs = {1: (tmp_path / "one",), 2: (tmp_path / "two",), 3: (tmp_path / "three",)}
    read = read_disks(dirs, awake={1, 3}, failed={tmp_path / "three"})
    assert read.logs.keys() == {("orders", 0), ("a-b", 1)}
    assert {broker: log.end for broker, log in read.held(("orders", 0)).items()} == {1: 3, 2: 2}
    assert read.readable_logs(("orders", 0)).keys() == {1}
    assert read.readable_logs(("a-b", 1)).keys() == read.held(("other", 0)).keys() == set()
    folder(tmp_path / "one", batch(0, range(3), 0), batch(3, range(1), 0))
    (tmp_path / "one" / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    grown = read_disks(dirs, {1}).held(("orders", 0))[1]
    assert (grown.start, grown.end, grown.epochs) == (2, 4, ((0, 2),))
    assert [entry.offset for entry in grown.records] == [2, 3]


def test_a_rescue_is_read_as_kafka_backup_wrote_it(tmp_path: Path) -> None:
    place = tmp_path / "cluster-x" / "20260101T000000.000000Z" / "b2" / "orders"
    place.mkdir(parents=True)
    segment = place / "segment_partition_003_from_offset_0000000007_records"
    one = struct.pack(">qiq", 7, 0, 1_000) + field(b"k") + field(b"v") + struct.pack(">i", 1)
    one += field(b"name") + field(None)
    other = struct.pack(">qi", 8, -1) + field(None) + field(b"w") + struct.pack(">i", 0)
    segment.write_bytes(b"\x01" + one + other)
    assert read_rescues(tmp_path) == {
        ("orders", 3): {
            SavedRecord(7, b"k", digest(b"k", b"v")),
            SavedRecord(8, None, digest(None, b"w")),
        }
    }


def field(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


UNKNOWN = {"unknown": "b3 does not answer"}
LOSES = {"records": 5, "committed": UNKNOWN, "unproven": UNKNOWN, "approximate": False}
TRIAGE = {
    "topic": "orders",
    "partition": 0,
    "verdict": "BOMB",
    "action": "stop b14 NOW",
    "designated_leader": 1,
    "unread_at_least": UNKNOWN,
    "leader_epoch": 3,
    "automatable": False,
    "replicas": [
        {"broker": 1, "log_end": 12, "loses_if_chosen": LOSES},
        {"broker": 3, "log_end": UNKNOWN, "loses_if_chosen": LOSES},
    ],
}


def test_a_triage_is_read_with_what_is_unknown() -> None:
    (one,) = judged({"partitions": [TRIAGE]})
    assert (one.verb, one.broker, one.unread_at_least) == ("stop NOW", 14, None)
    assert one.prices.keys() == one.log_ends.keys() == {1}
    assert (one.prices[1].total, one.prices[1].committed, one.automatable) == (5, None, False)


def test_only_what_was_elected_counts_as_elected() -> None:
    results = [{"topic": "a", "partition": 0, "result": "elected"}]
    results.append({"topic": "a", "partition": 1, "result": "refused"})
    assert list(elected({"partitions": results})) == [("a", 0)]
    assert list(elected({})) == []
