"""The side manifest: what it holds, and what it does not take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from breakglass.services.errors import MalformedInput, UnsupportedSchema
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST, listing
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.unit.topic_backup.backups import back_up, manifest_of
from tests.unit.topic_backup.shapes import plain, run

IDENTITY = TopicIdentity(
    topic="orders",
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    topic_id=UUID(int=7),
    partition_count=12,
    config={"cleanup.policy": "compact"},
    origin={"rescued from broker": "2"},
)


def test_it_is_json_that_a_person_can_read(tmp_path: Path) -> None:
    with TopicWriter(tmp_path, IDENTITY) as writer:
        writer.partition(0).append(plain(3), leader_epoch=9)
        writer.commit()
    document = json.loads((tmp_path / "orders" / MANIFEST).read_bytes())
    (partition,) = document.pop("partitions")
    (segment,) = partition.pop("segments")
    assert document.pop("committed_at_ms") > 1_700_000_000_000
    assert document.pop("tool_version")
    assert document == {
        "schema": 1,
        "commit": 1,
        "identity": {
            "topic": "orders",
            "cluster_id": "4L6g3nShT-eMCtK--X86sw",
            "topic_id": "00000000-0000-0000-0000-000000000007",
            "partition_count": 12,
            "config": {"cleanup.policy": "compact"},
            "origin": {"rescued from broker": "2"},
        },
    }
    assert partition == {"partition": 0, "next_offset": 4, "batch_log": None, "end_epoch": None}
    assert segment["epochs"] == [{"epoch": 9, "offset": 3}]
    assert len(segment["sha256"]) == 64


def test_what_was_written_is_read(tmp_path: Path) -> None:
    with TopicWriter(tmp_path, IDENTITY, max_segment_bytes=100) as writer:
        for offset in (0, 1, 5, 9):
            writer.partition(3).append(plain(offset), leader_epoch=offset)
        assert writer.commit() == manifest_of(tmp_path / "orders")


def test_the_originals_readers_pass_it_over() -> None:
    """No pattern of the original matches it, not even the one that looks anywhere in a name."""
    assert listing([MANIFEST]) == {}
    assert "consumer_offsets_partition_" not in MANIFEST


def test_a_folder_without_one_is_the_originals(tmp_path: Path) -> None:
    assert read_manifest(LocalFolder(tmp_path)) is None


def spoiled(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """*document* with what stands at *path* replaced."""
    *way, last = path.split(".")
    spot: Any = document
    for step in way:
        spot = spot[int(step) if step.isdigit() else step]
    spot[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("commit", "1", "commit: Input should be a valid integer"),
        ("commit", None, "commit: Input should be a valid integer"),
        ("identity.topic_id", "seven", "identity.topic_id: Input should be a valid UUID"),
        ("partitions.0.segments.0.sha256", 5, "partitions.0.segments.0.sha256"),
        ("partitions.0.surprise", 5, "partitions.0.surprise: Unexpected keyword argument"),
        ("schema", True, "has no schema version"),
    ],
)
def test_a_field_that_cannot_be_is_named(
    tmp_path: Path, path: str, value: object, reason: str
) -> None:
    topic = back_up(tmp_path, run(0, 3))
    document = spoiled(json.loads((topic / MANIFEST).read_bytes()), path, value)
    (topic / MANIFEST).write_text(json.dumps(document))
    with pytest.raises(MalformedInput, match=f"{MANIFEST}: .*{reason}"):
        read_manifest(LocalFolder(topic))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"schema": 1,\n "commit": }', "line 2, column 12: Expecting value"),
        (b"", "line 1, column 1"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1]", "it has no schema version"),
        (b"{}", "it has no schema version"),
    ],
)
def test_what_is_no_manifest_is_refused_with_its_place(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(MalformedInput, match=f"{MANIFEST}.*{reason}"):
        read_manifest(LocalFolder(tmp_path))


def test_a_future_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(b'{"schema": 2}')
    with pytest.raises(UnsupportedSchema, match="has schema 2, this release knows 1"):
        read_manifest(LocalFolder(tmp_path))
