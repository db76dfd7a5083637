"""Backups that were made to mislead: names that lead elsewhere, numbers, FIFOs, sizes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.store.documents import ManifestDocument, TakeDocument, decode
from breakglass.services.errors import BreakglassError, DamagedBackup, MalformedInput, StorageError
from breakglass.services.guard.journal_view import read as read_journal
from breakglass.services.metastore.verification import verify_backup
from breakglass.services.pipeline.restore.state import FILE, read_state
from breakglass.services.topic_backup import partition_index, pending, verified
from breakglass.services.topic_backup.folder import LocalFolder, inside, read_whole
from breakglass.services.topic_backup.folder_contents import read_held
from breakglass.services.topic_backup.layout import MANIFEST, segment_place
from breakglass.services.topic_backup.manifest import MAX_MANIFEST_BYTES, read_manifest
from breakglass.services.topic_backup.partition_index import SegmentEntry, encode
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.store.local_blobs import LocalBlobs
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.plans import read_plan
from tests.unit.topic_backup.backups import FIRST, RECORDS, as_the_originals, back_up
from tests.unit.topic_backup.shapes import run

NOW = pytest.mark.timeout(20)
"""What hangs has failed."""


def with_manifest(topic: Path, change: Callable[[dict[str, Any]], None]) -> LocalFolder:
    document = json.loads((topic / MANIFEST).read_bytes())
    change(document)
    (topic / MANIFEST).write_text(json.dumps(document))
    return LocalFolder(topic)


@pytest.mark.parametrize(
    "prefix",
    [
        "../../secret",
        f"../other/{FIRST}",
        f"/etc/{FIRST}",
        f"run-0000000001-x-0/../../{FIRST}",
        f"{FIRST}\0",
        "",
        "segment_partition_001_from_offset_0000000000",
        "segment_partition_000_from_offset_0000000007",
    ],
)
def test_a_manifest_names_no_file_but_a_segment_of_its_partition(
    tmp_path: Path, prefix: str
) -> None:
    (tmp_path / "secret_records").write_bytes(b"\x01")
    topic = back_up(tmp_path / "backups", run(0, 5))

    def change(document: dict[str, Any]) -> None:
        document["partitions"][0]["segments"][0]["prefix"] = prefix

    folder = with_manifest(topic, change)
    with pytest.raises(MalformedInput, match="is no name of a segment"):
        verify_files(folder)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        (("identity", "partition_count"), 2**31 - 1),
        (("identity", "partition_count"), -1),
        (("partitions", 0, "next_offset"), 2**70),
        (("partitions", 0, "next_offset"), -1),
        (("partitions", 0, "partition"), 2**31),
        (("partitions", 0, "partition"), -1),
        (("partitions", 0, "segments", 0, "count"), 2**40),
        (("partitions", 0, "segments", 0, "count"), -3),
        (("partitions", 0, "segments", 0, "last_offset"), 2**64),
        (("partitions", 0, "segments", 0, "records_bytes"), -1),
        (("partitions", 0, "segments", 0, "first_offset"), 9),
    ],
)
def test_numbers_that_kafka_does_not_have_come_into_no_plan(
    tmp_path: Path, path: tuple[str | int, ...], number: int
) -> None:
    def change(document: dict[str, Any]) -> None:
        held: Any = document
        for key in path[:-1]:
            held = held[key]
        held[path[-1]] = number

    folder = with_manifest(back_up(tmp_path, run(0, 5)), change)
    with pytest.raises(MalformedInput):
        read_held(folder, "orders")


@given(st.text(max_size=60))
def test_only_names_of_segments_are_places_of_segments(text: str) -> None:
    assert segment_place(f"../{text}") is None
    found = segment_place(text)
    assert found is None or (".." not in text and text.count("/") <= 1)


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/passwd", "", "a//b", "a/./b", "a\0b"])
def test_no_store_opens_a_file_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(StorageError, match="leads elsewhere"):
        inside(tmp_path, name)
    for opened in (LocalFolder(tmp_path), LocalBlobs(tmp_path)):
        with pytest.raises(StorageError, match="leads elsewhere"):
            opened.open(name)
        with pytest.raises(StorageError, match="leads elsewhere"):
            opened.size(name)


def test_a_partition_index_names_no_file_but_segments(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 5)))
    (topic / "index_partition_000").write_bytes(encode([SegmentEntry("../../secret", 0)]))
    with pytest.raises(DamagedBackup, match="the name is none of a segment"):
        partition_index.read(LocalFolder(topic), 0)


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../b", ".."])
def test_a_manifest_of_a_checkpoint_names_no_file_outside_of_its_copy(name: str) -> None:
    document = {
        "schema": 1,
        "created_at_ms": 0,
        "completed_at_ms": 0,
        "position": 1,
        "start": 0,
        "records": 1,
        "records_digest": "",
        "files": [{"name": name, "size": 1, "sha256": ""}],
    }
    with pytest.raises(MalformedInput, match="is no file of a copy"):
        decode(ManifestDocument, json.dumps(document).encode(), "manifest")


@pytest.mark.parametrize(("topic", "partition"), [("../x", 0), ("..", 0), ("a", 2**31), ("a", -1)])
def test_a_checkpoint_is_of_no_topic_that_kafka_does_not_allow(topic: str, partition: int) -> None:
    document = {
        "schema": 1,
        "id": 1,
        "level": "vector",
        "partitions": [{"number": 1, "topic": topic, "partition": partition}],
        "request": "",
        "created_at_ms": 0,
    }
    with pytest.raises(MalformedInput):
        decode(TakeDocument, json.dumps(document).encode(), "take")


def test_a_note_of_a_killed_run_removes_nothing_but_segments(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 5))
    for name in ("..", MANIFEST, "../other"):
        document = {"schema": 1, "commit": 9, "before": {name: None}}
        (topic / pending.PENDING).write_text(json.dumps(document))
        with pytest.raises(MalformedInput, match="no note of a commit"):
            pending.take_back(LocalFolder(topic), 1)


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


special = pytest.mark.parametrize("make", [fifo, device], ids=["fifo", "device"])


@NOW
@special
@pytest.mark.parametrize("name", [MANIFEST, RECORDS, verified.NAME, "index_partition_000"])
def test_a_fifo_or_a_device_in_a_backup_keeps_no_reader(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    topic = back_up(tmp_path, run(0, 5))
    make(topic / name)
    folder = LocalFolder(topic)
    readers: list[Callable[[], object]] = [
        lambda: read_manifest(folder),
        lambda: verify_files(folder),
        lambda: verified.read(folder),
        lambda: list(PartitionReader(folder, 0, None).records()),
        lambda: partition_index.read(folder, 0),
    ]
    refused = 0
    for read in readers:
        try:
            found = read()
        except BreakglassError:
            refused += 1
        else:
            refused += bool(getattr(found, "damages", ()))
    assert refused


@NOW
@special
def test_a_fifo_or_a_device_as_a_plan_a_journal_or_a_state_keeps_nobody(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / FILE
    make(path)
    for read in (read_plan, read_journal, lambda one: read_state(one.parent), verify_backup):
        with pytest.raises(BreakglassError):
            read(path)


def test_a_manifest_of_ten_gigabytes_is_not_read(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 5))
    with (topic / MANIFEST).open("r+b") as file:
        file.truncate(10 * 2**30)
    with pytest.raises(StorageError, match="no such file has more than"):
        read_manifest(LocalFolder(topic))
    with pytest.raises(StorageError):
        read_whole(LocalFolder(topic), MANIFEST, MAX_MANIFEST_BYTES)


def test_a_plan_of_ten_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(10 * 2**30)
    with pytest.raises(StorageError, match="no more than"):
        read_plan(path)
