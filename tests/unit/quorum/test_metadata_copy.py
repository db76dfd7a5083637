"""Copies of the metadata log as they are on disk: whole, torn, damaged, short of files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.model import Unknown
from breakglass.services.quorum.metadata_copy import LogPosition, MetadataCopy, VoterSet, read_copy
from breakglass.services.record_batches import BATCH_HEADER
from tests.kit.metadata_log import MetadataLog, batch, control, crc32c, noop, topic, voters
from tests.unit.quorum.clusters import ORDERS, small_log


def read(log: MetadataLog, folder: Path) -> MetadataCopy:
    return read_copy(log.save(folder, 101))


def test_the_kits_crc_is_that_of_the_library() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"123456789") == google_crc32c.value(b"123456789")


def test_the_log_ends_where_its_newest_snapshot_does_if_no_batch_follows(tmp_path: Path) -> None:
    log = small_log()
    log.snapshot(*topic("orders", ORDERS, (1, 2)))
    log.cut_start()
    copy = read(log, tmp_path)
    assert len(copy.batches) == 0
    assert copy.end == LogPosition(1, log.offset)
    assert copy.damage == ()


def test_q09_the_last_set_of_voters_counts_in_the_log_before_that_of_a_snapshot(
    tmp_path: Path,
) -> None:
    log = small_log()
    log.snapshot(more=[voters(101, 102, 103)])
    assert read(log, tmp_path / "a").voters == VoterSet(True, (101, 102, 103))
    log.add(voters(101, 102), controls=True)
    log.add(voters(101), controls=True)
    assert read(log, tmp_path / "b").voters == VoterSet(True, (101,))


def test_a_log_without_what_came_before_it_is_damaged(tmp_path: Path) -> None:
    log = small_log()
    log.cut_start()
    log.add(noop())
    (damage,) = read(log, tmp_path).damage
    assert "no snapshot has what came before" in damage.reason


def test_a_missing_segment_is_damage(tmp_path: Path) -> None:
    log = small_log()
    folder = log.save(tmp_path, 101)
    later = batch(log.offset + 5, 1, [noop()])
    (folder / f"{log.offset + 5:020}.log").write_bytes(later)
    copy = read_copy(folder)
    assert copy.end.offset == log.offset
    assert f"no segment has the offsets from {log.offset} to {log.offset + 5}" in str(copy.damage)


def test_segments_continue_each_other_and_are_read_across(tmp_path: Path) -> None:
    log = small_log()
    folder = log.save(tmp_path, 101)
    (folder / f"{log.offset:020}.log").write_bytes(batch(log.offset, 2, [noop(), noop()]))
    copy = read_copy(folder)
    assert copy.end == LogPosition(2, log.offset + 2)
    offsets = [one.header.base_offset for one in copy.batches.read(0, copy.end.offset)]
    assert offsets == list(copy.batches.starts)


@pytest.mark.parametrize("missing", ["meta.properties", "quorum-state"])
def test_a_missing_file_is_named(missing: str, tmp_path: Path) -> None:
    folder = small_log().save(tmp_path, 101)
    (folder if missing == "quorum-state" else tmp_path).joinpath(missing).unlink()
    copy = read_copy(folder)
    assert [one.file for one in copy.damage] == [missing]
    unknown = copy.quorum_epoch if missing == "quorum-state" else copy.cluster_id
    assert isinstance(unknown, Unknown)


def test_a_snapshot_without_its_footer_is_damaged_and_does_not_count(tmp_path: Path) -> None:
    log = small_log()
    log.snapshot(*topic("orders", ORDERS, (1, 2)))
    (name,) = log.snapshots
    whole = log.snapshots[name]
    log.snapshots[name] = whole[: -len(batch(0, 0, [control(4, b"\0\0\0")], controls=True))]
    copy = read(log, tmp_path)
    assert copy.usable_snapshots == ()
    assert [one.file for one in copy.damage] == [name]


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(min_value=1))
def test_q08_a_torn_log_ends_at_its_last_complete_batch(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = small_log()
    data = b"".join(log.batches)
    kept = len(data) - 1 - cut % (len(data) - 1)
    ends, at = [], 0
    for one in log.batches:
        at += len(one)
        ends.append(at)
    whole = sum(end <= kept for end in ends)
    folder = log.save(tmp_path_factory.mktemp("torn"), 101)
    (folder / f"{0:020}.log").write_bytes(data[:kept])
    copy = read_copy(folder)
    assert len(copy.batches) == whole
    assert bool(copy.damage) == (kept not in ends)


@settings(max_examples=100, deadline=None)
@given(where=st.integers(min_value=0), bit=st.integers(0, 7))
def test_q08_a_flipped_bit_is_damage_or_another_epoch(
    where: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = small_log()
    data = bytearray(b"".join(log.batches))
    where %= len(data)
    data[where] ^= 1 << bit
    folder = log.save(tmp_path_factory.mktemp("flipped"), 101)
    (folder / f"{0:020}.log").write_bytes(data)
    copy = read_copy(folder)
    at = 0
    for one in log.batches:
        if at <= where < at + len(one):
            break
        at += len(one)
    # The epoch alone is covered neither by the CRC nor by the offsets around it.
    if not at + 12 <= where < at + 16:
        assert copy.damage
        assert all(position <= at for position in copy.batches.positions)
    else:
        assert copy.damage or list(copy.batches.epochs) != [1] * len(log.batches)


def test_records_that_a_batch_lacks_are_damage(tmp_path: Path) -> None:
    log = small_log()
    one = bytearray(batch(log.offset, 1, [noop(), noop()]))
    struct.pack_into(">i", one, BATCH_HEADER.size - 38, 4)
    struct.pack_into(">I", one, 17, crc32c(bytes(one[21:])))
    log.batches.append(bytes(one))
    copy = read(log, tmp_path)
    assert copy.end.offset == log.offset
    assert "lacks records of its offsets" in str(copy.damage)


def _forged(log: MetadataLog, attributes: int | None = None, count: int | None = None) -> bytes:
    """A batch with a right CRC that no node can load."""
    one = bytearray(batch(log.offset, 1, [noop(), noop()]))
    if attributes is not None:
        struct.pack_into(">h", one, 21, attributes)
    if count is not None:
        struct.pack_into(">i", one, 23, count - 1)
        struct.pack_into(">i", one, BATCH_HEADER.size - 4, count)
    struct.pack_into(">I", one, 17, crc32c(bytes(one[21:])))
    return bytes(one)


@pytest.mark.parametrize(
    "forged",
    [{"attributes": codec} for codec in (1, 2, 3, 4, 7)] + [{"count": 1}, {"count": 2_000_000_000}],
    ids=str,
)
def test_q08_a_batch_that_cannot_be_decoded_ends_the_log_however_right_its_crc(
    forged: dict[str, int], tmp_path: Path
) -> None:
    log = small_log()
    end = log.offset
    log.batches.append(_forged(log, **forged))
    copy = read(log, tmp_path)
    assert copy.end.offset == end
    assert [one.file for one in copy.damage] == [f"{0:020}.log"]


@pytest.mark.parametrize("name", ["meta.properties", "quorum-state"])
def test_q08_a_file_that_cannot_be_read_is_damage_and_not_missing(
    name: str, tmp_path: Path
) -> None:
    folder = small_log().save(tmp_path, 101)
    file = (folder if name == "quorum-state" else tmp_path) / name
    file.unlink()
    os.mkfifo(file)
    (damage,) = read_copy(folder).damage
    assert damage.file == name
    assert "missing" not in damage.reason


def test_q08_deep_json_is_damage_of_its_file_alone(tmp_path: Path) -> None:
    folder = small_log().save(tmp_path, 101)
    (folder / "quorum-state").write_text("[" * 200_000)
    (damage,) = read_copy(folder).damage
    assert damage.file == "quorum-state"
