"""Bytes that no writer wrote: every reader ends, in bounded memory, with an error of ours."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.bundle.contents import open_bundle
from breakglass.services.checkpoint.store.documents import ManifestDocument, TakeDocument, decode
from breakglass.services.errors import (
    BreakglassError,
    DamagedBackup,
    MalformedInput,
    MalformedMessage,
)
from breakglass.services.guard.journal import read as read_journal
from breakglass.services.metastore.side_file import verify_backup
from breakglass.services.pipeline.restore.state import FILE, read_state
from breakglass.services.record_batches import (
    MAX_HEADERS,
    Compression,
    message_header,
    message_records,
    read_headers,
)
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.notes import PENDING, VERIFIED, read_verified, take_back
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.segment_index import (
    SegmentEntry,
    encode_partition_index,
    read_partition_index,
)
from breakglass.services.topic_backup.verification import verify_files
from tests.fuzz.damage import MEMORY, Damage, bounded, damage
from tests.fuzz.explore import CORPUS
from tests.fuzz.targets import TARGETS
from tests.kit.extent import examples
from tests.kit.plans import read_plan
from tests.unit.topic_backup.backups import (
    FIRST,
    INDEX,
    RECORDS,
    as_the_originals,
    back_up,
    manifest_of,
)
from tests.unit.topic_backup.batch_bytes import CONTROL, batch, control_record
from tests.unit.topic_backup.older_bytes import message_set, wrapped
from tests.unit.topic_backup.shapes import run


def older_messages(data: bytes) -> None:
    """Messages of formats 0 and 1."""
    try:
        for header in read_headers(data, "b2", message_header).headers:
            list(message_records(data, header, "b2"))
    except MalformedMessage:
        return


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


WHOLE_BATCHES = [
    *(batch(run(0, 5), compression=codec) for codec in Compression),
    batch([control_record(3, 1)], flags=CONTROL),
    batch([run(0, 1)[0]._replace(headers=((b"h", b"v"), (b"h", None)))]),
]
READERS = {**TARGETS, older_messages.__name__: older_messages}
SEEDS = {name: corpus(name) for name in TARGETS} | {
    older_messages.__name__: [message_set(run(0, 3), 0), wrapped(run(0, 3), 1, Compression.GZIP)]
}
SEEDS["batches"] += [*WHOLE_BATCHES, b"".join(WHOLE_BATCHES)]
SEEDS["sealed_batch"] += WHOLE_BATCHES


@pytest.mark.parametrize("name", TARGETS)
def test_every_input_of_the_corpus_is_read_to_an_error_or_an_end(name: str) -> None:
    inputs = corpus(name)
    assert inputs
    for content in inputs:
        TARGETS[name](content)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=examples(40))
@given(data=st.data(), apply=damage())
def test_damaged_inputs_and_any_bytes_are_read_to_an_error_or_an_end(
    name: str, data: st.DataObject, apply: Damage
) -> None:
    content = data.draw(st.sampled_from(SEEDS[name]).map(apply) | st.binary(max_size=200))
    with bounded():
        READERS[name](content)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def ten_gigabytes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 2**30)


def refuses(read: Callable[[Path], object], path: Path) -> bool:
    try:
        found = read(path)
    except BreakglassError:
        return True
    return bool(getattr(found, "damages", ()))


FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the manifest of a backup": (MANIFEST, lambda path: read_manifest(LocalFolder(path.parent))),
    "the records of a backup": (RECORDS, lambda path: verify_files(LocalFolder(path.parent))),
    "the note of a verification": (
        VERIFIED,
        lambda path: read_verified(LocalFolder(path.parent)),
    ),
    "the index of a partition": (
        "index_partition_000",
        lambda path: read_partition_index(LocalFolder(path.parent), 0),
    ),
    "a plan": ("plan.json", read_plan),
    "a journal": ("journal.jsonl", read_journal),
    "the state of a restore": (FILE, lambda path: read_state(path.parent)),
    "the backup of a metastore": ("commands.bak", verify_backup),
    "a bundle": ("b.tar.gz", open_bundle),
}
SPARSE = 3 * MEMORY
"""Bytes of a file that is as long as it says, and takes no room."""


@pytest.mark.parametrize(
    ("what", "make"),
    [
        *((what, make) for what in FILES for make in (fifo, device)),
        *((what, ten_gigabytes) for what in ("the manifest of a backup", "a plan")),
    ],
)
def test_a_file_without_an_end_is_refused_and_keeps_no_reader(
    tmp_path: Path, what: str, make: Callable[[Path], None]
) -> None:
    name, read = FILES[what]
    path = back_up(tmp_path, run(0, 5)) / name
    path.unlink(missing_ok=True)
    make(path)
    assert refuses(read, path)


@pytest.mark.parametrize(("at", "claim"), [(20, SPARSE // 2), (36, MAX_HEADERS + 1)])
def test_a_claim_of_more_than_a_record_may_have_allocates_nothing(
    tmp_path: Path, at: int, claim: int
) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 1)))
    (topic / INDEX).unlink()
    with (topic / RECORDS).open("r+b") as file:
        file.seek(1 + at)
        file.write(claim.to_bytes(4))
        file.truncate(SPARSE)
    reader = PartitionReader(LocalFolder(topic), 0, None, max_record_bytes=500_000)
    with bounded(2 * MEMORY):
        assert list(reader.records()) == []
    assert reader.damages


def copy_with(name: str) -> None:
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
    decode(ManifestDocument, json.dumps(document).encode(), "manifest")


def take_of(topic: str, partition: int = 0) -> None:
    document = {
        "schema": 1,
        "id": 1,
        "level": "vector",
        "partitions": [{"number": 1, "topic": topic, "partition": partition}],
        "request": "",
        "created_at_ms": 0,
    }
    decode(TakeDocument, json.dumps(document).encode(), "take")


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../b", "..", "../x"])
@pytest.mark.parametrize("read", [copy_with, take_of])
def test_no_document_of_a_checkpoint_leads_outside_of_it(
    read: Callable[[str], None], name: str
) -> None:
    with pytest.raises(MalformedInput):
        read(name)


@pytest.mark.parametrize("partition", [2**31, -1])
def test_a_checkpoint_is_of_no_partition_that_kafka_does_not_have(partition: int) -> None:
    with pytest.raises(MalformedInput):
        take_of("a", partition)


@pytest.mark.parametrize("name", ["..", MANIFEST, "../other"])
def test_a_note_of_a_killed_run_removes_nothing_but_segments(tmp_path: Path, name: str) -> None:
    topic = back_up(tmp_path, run(0, 5))
    document = {"schema": 1, "commit": 9, "before": {name: None}}
    (topic / PENDING).write_text(json.dumps(document))
    with pytest.raises(MalformedInput):
        take_back(LocalFolder(topic), 1)


def test_a_partition_index_names_no_file_but_segments(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 5)))
    content = encode_partition_index([SegmentEntry("../../secret", 0)])
    (topic / "index_partition_000").write_bytes(content)
    with pytest.raises(DamagedBackup):
        read_partition_index(LocalFolder(topic), 0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(
            (("partitions", 0, "segments", 0, "prefix"), prefix)
            for prefix in (
                "../../secret",
                f"../other/{FIRST}",
                f"/etc/{FIRST}",
                f"run-0000000001-x-0/../../{FIRST}",
                f"{FIRST}\0",
                "",
                "segment_partition_001_from_offset_0000000000",
                "segment_partition_000_from_offset_0000000007",
            )
        ),
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
def test_a_manifest_names_its_own_segments_and_numbers_that_kafka_has(
    tmp_path: Path, path: tuple[str | int, ...], value: str | int
) -> None:
    (tmp_path / "secret_records").write_bytes(b"\x01")
    topic = back_up(tmp_path / "backups", run(0, 5))
    document = json.loads((topic / MANIFEST).read_bytes())
    document["sha256"] = ""
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (topic / MANIFEST).write_text(json.dumps(document))
    with pytest.raises(MalformedInput):
        manifest_of(topic)
