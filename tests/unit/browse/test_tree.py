"""The tree of a place: by manifests, or by names and indexes; never by records."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from breakglass.services.browse.tree import (
    TopicContents,
    TopicNode,
    partitions_in,
    topics_at,
    total,
)
from breakglass.services.errors import MalformedInput, UsageError
from breakglass.services.model import Unknown
from breakglass.services.topic_backup.layout import records_name, segment_index_name, segment_prefix
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.segment_index import IndexedRecord, encode_entry
from tests.kit.waiting import within
from tests.unit.topic_backup.backups import as_the_originals, back_up, segments
from tests.unit.topic_backup.shapes import run

GIGA = 2**30


def held(topic: Path) -> TopicContents:
    return partitions_in(TopicNode(str(topic.parent), topic.name))


def test_a_place_has_its_topics(tmp_path: Path) -> None:
    back_up(tmp_path, run(0, 1))
    back_up(tmp_path, run(0, 1), identity=TopicIdentity("clicks"))
    assert [topic.folder for topic in topics_at(str(tmp_path))] == ["clicks", "orders"]
    with pytest.raises(UsageError):
        topics_at(str(tmp_path / "none"))


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
        (None, Unknown("without a manifest nobody noted it")) if bare else (1, 0)
    )


def test_without_an_index_figures_are_unknown_with_the_reason(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 10)))
    for path in topic.glob("*_index"):
        path.unlink()
    (partition,) = held(topic).partitions
    assert isinstance(partition.records, Unknown)
    assert "reindex" in partition.records.reason


def test_what_is_not_committed_or_gone_is_told(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 100), max_segment_bytes=1_000)
    first, *_ = segments(topic)
    (topic / records_name(first)).unlink()
    stray = segment_prefix(0, 5_000)
    (topic / records_name(stray)).write_bytes(b"\x01")
    (partition,) = held(topic).partitions
    notes = {segment.prefix: segment.note for segment in partition.segments}
    assert (notes[first], notes[stray], partition.gone) == ("gone", "not committed", 1)


def test_a_manifest_that_is_none_is_an_error_of_its_topic(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 1))
    (topic / "breakglass_manifest.json").write_text("{")
    with pytest.raises(MalformedInput):
        held(topic)


def test_a_hundred_gigabytes_are_looked_up_at_once(tmp_path: Path) -> None:
    topic = tmp_path / "huge"
    topic.mkdir()
    for number in range(100):
        start = number * 1_000_000
        prefix = segment_prefix(0, start)
        with (topic / records_name(prefix)).open("wb") as file:
            file.write(b"\x01")
            file.truncate(GIGA)
        with (topic / segment_index_name(prefix)).open("wb") as file:
            file.write(b"\x01" + encode_entry(IndexedRecord(start, 1, 1_000)))
            file.truncate(1 + 24 * 1_000_000)
            file.seek(1 + 24 * 999_999)
            file.write(encode_entry(IndexedRecord(start + 999_999, GIGA - 1_000, 1_000)))
    began = time.monotonic()
    (partition,) = held(topic).partitions
    assert time.monotonic() - began < within(2.0)
    assert partition.bytes == 100 * GIGA
    assert (partition.records, partition.last_offset) == (100_000_000, 99_999_999)


def test_a_sum_with_an_unknown_in_it_is_unknown() -> None:
    assert total([1, None, 2]) == 3
    assert total([1, Unknown("why")]) == Unknown("why")
