"""Bytes that no writer wrote: every reader ends, in bounded memory, with an error of ours."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.errors import BreakglassError
from breakglass.services.topic_backup import consumer_offsets, partition_index
from breakglass.services.topic_backup.compression import Compression
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import decode as decode_manifest
from breakglass.services.topic_backup.partition_writer import PartitionWriter
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import MAX_HEADERS, Record
from breakglass.services.topic_backup.reindex import reindex
from breakglass.services.topic_backup.segment_reader import CHUNK_BYTES
from tests.kit.batches import decode_batches
from tests.unit.topic_backup.backups import (
    INDEX,
    RECORDS,
    as_the_originals,
    back_up,
    committed,
    manifest_of,
)
from tests.unit.topic_backup.batch_bytes import CONTROL, batch, control_record, sealed
from tests.unit.topic_backup.shapes import log, run
from tests.unit.topic_backup.test_resume import ORDERS_0

MEMORY = 3 * CHUNK_BYTES
"""A chunk, what it is joined from, and the records of a file far smaller than one."""

Damage = Callable[[bytes], bytes]


@st.composite
def damage(draw: st.DrawFn) -> Damage:
    """Cut, flip, overwrite, insert or drop: somewhere, a few times."""
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(["cut", "flip", "number", "insert", "drop"]), st.floats(0, 1),
                      st.binary(min_size=4, max_size=4)),
            min_size=1, max_size=4,
        )
    )  # fmt: skip

    def apply(content: bytes) -> bytes:
        for kind, where, extra in steps:
            at = int(where * len(content))
            content = {
                "cut": content[:at],
                "flip": content[:at]
                + bytes(b ^ 1 << extra[0] % 8 for b in content[at : at + 1])
                + content[at + 1 :],
                "number": content[:at] + extra + content[at + 4 :],
                "insert": content[:at] + extra + content[at:],
                "drop": content[:at] + content[at + 4 :],
            }[kind]
        return content

    return apply


@contextmanager
def bounded(limit: int = MEMORY) -> Iterator[None]:
    """Fail when more than *limit* bytes are allocated at once."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit


def damaged_topic(
    factory: pytest.TempPathFactory, records: list[Record], spoil: dict[str, Damage]
) -> Path:
    topic = back_up(factory.mktemp("b"), records)
    for name, apply in spoil.items():
        (topic / name).write_bytes(apply((topic / name).read_bytes()))
    return topic


with_folders = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@with_folders
@given(records=log(), records_damage=damage(), index_damage=damage(), start=st.integers(0, 50))
def test_damaged_segments_are_read_to_an_error_or_an_end(
    records: list[Record],
    records_damage: Damage,
    index_damage: Damage,
    start: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    spoil = {RECORDS: records_damage, INDEX: index_damage}
    topic = damaged_topic(tmp_path_factory, records, spoil)
    for path in (topic, as_the_originals(topic)):
        with bounded(), contextlib.suppress(BreakglassError):
            list(PartitionReader(LocalFolder(path), 0, committed(path)).records(start))
    with bounded(), contextlib.suppress(BreakglassError):
        reindex(LocalFolder(topic), 0)


@with_folders
@given(records=log(), index_damage=damage())
def test_with_a_manifest_no_damage_to_an_index_changes_what_is_read(
    records: list[Record], index_damage: Damage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = damaged_topic(
        tmp_path_factory, records, {INDEX: index_damage, "index_partition_000": index_damage}
    )
    for start in [0, *(record.offset for record in records)]:
        read = list(PartitionReader(LocalFolder(topic), 0, committed(topic)).records(start))
        assert read == [record for record in records if record.offset >= start]


@with_folders
@given(records=log(), records_damage=damage(), index_damage=damage())
def test_a_damaged_partition_is_resumed_or_refused_and_never_loses_a_committed_record(
    records: list[Record],
    records_damage: Damage,
    index_damage: Damage,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    spoil = {RECORDS: records_damage, INDEX: index_damage}
    topic = damaged_topic(tmp_path_factory, records, spoil)
    before = (topic / RECORDS).read_bytes()
    try:
        PartitionWriter(LocalFolder(topic), ORDERS_0, committed(topic)).close()
    except BreakglassError:
        assert (topic / RECORDS).read_bytes() == before
    else:
        read = list(PartitionReader(LocalFolder(topic), 0, committed(topic)).records())
        assert read == records


@with_folders
@given(records=log(min_size=1), records_damage=damage(), index_damage=damage())
def test_a_damaged_backup_of_the_originals_is_readable_once_it_was_resumed(
    records: list[Record],
    records_damage: Damage,
    index_damage: Damage,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    spoil = {RECORDS: records_damage, INDEX: index_damage}
    topic = as_the_originals(damaged_topic(tmp_path_factory, records, spoil))
    with contextlib.suppress(BreakglassError):
        PartitionWriter(LocalFolder(topic), ORDERS_0, None).close()
        reader = PartitionReader(LocalFolder(topic), 0, None)
        list(reader.records())
        assert reader.left_out == []


batches = st.sampled_from(
    [
        *(batch(run(0, 5), compression=codec) for codec in Compression),
        batch([control_record(3, 1)], flags=CONTROL),
        batch([run(0, 1)[0]._replace(headers=((b"h", b"v"), (b"h", None)))]),
    ]
)


@given(st.lists(batches, min_size=1, max_size=3), damage())
def test_damaged_batches_are_decoded_to_an_error_or_an_end(
    parts: list[bytes], apply: Damage
) -> None:
    with bounded(), contextlib.suppress(BreakglassError):
        list(decode_batches(apply(b"".join(parts)), "b2", max_batch_bytes=100_000))


@given(batches, damage(), st.integers(0, 8))
def test_batches_damaged_before_their_crc_was_made_are_decoded_to_an_error_or_an_end(
    one: bytes, apply: Damage, codec: int
) -> None:
    """A hostile broker makes the CRC fit."""
    payload = apply(one[61:])
    data = sealed(0, len(payload), 1, 2, 0, codec, 10, 0, 0, -1, -1, -1, 5, payload=payload)
    with bounded(), contextlib.suppress(BreakglassError):
        list(decode_batches(data, "b2", max_batch_bytes=100_000))


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_to_an_error_or_an_end(content: bytes) -> None:
    for decode in (
        lambda: list(decode_batches(content, "b2")),
        lambda: partition_index.decode(content, "file"),
        lambda: consumer_offsets.decode(content, "file"),
        lambda: decode_manifest(content, "file"),
    ):
        with bounded(), contextlib.suppress(BreakglassError):
            decode()


@with_folders
@given(apply=damage())
def test_a_damaged_manifest_is_refused_or_still_one(
    apply: Damage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = back_up(tmp_path_factory.mktemp("b"), run(0, 3))
    content = (topic / MANIFEST).read_bytes()
    with contextlib.suppress(BreakglassError):
        assert decode_manifest(apply(content), "file").schema == manifest_of(topic).schema


@pytest.mark.parametrize("claim", [2**31 - 1, 200_000_000])
def test_a_claim_of_gigabytes_allocates_nothing(tmp_path: Path, claim: int) -> None:
    """The file is as long as it says, but sparse: still no record of more than the limit."""
    topic = as_the_originals(back_up(tmp_path, run(0, 3)))
    (topic / INDEX).unlink()
    with (topic / RECORDS).open("r+b") as file:
        file.seek(1 + 20)
        file.write(claim.to_bytes(4))
        file.truncate(2**32)
    reader = PartitionReader(LocalFolder(topic), 0, None, max_record_bytes=500_000)
    with bounded(2 * MEMORY):
        assert list(reader.records()) == []
    assert reader.damages


def test_a_claim_of_a_million_headers_allocates_no_more_than_the_record(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 1)))
    (topic / INDEX).unlink()
    with (topic / RECORDS).open("r+b") as file:
        file.seek(1 + 36)
        file.write((MAX_HEADERS + 1).to_bytes(4))
        file.truncate(2**32)
    reader = PartitionReader(LocalFolder(topic), 0, None, max_record_bytes=500_000)
    with bounded(2 * MEMORY):
        assert list(reader.records()) == []
    assert reader.damages
