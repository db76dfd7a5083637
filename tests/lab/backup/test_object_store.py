"""Backups in an object store: a real S3 server that refuses, goes down, or keeps its word."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.errors import BreakglassError, StorageError, UsageError
from breakglass.services.guard import act as guard
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.topic_backup.catalog import held_topics
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.store.store import ObjectStore, RunsFolder
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.program import breakglass
from tests.kit.s3_server import S3, forged_after, forged_document
from tests.lab.backup.backups import BackUp
from tests.lab.backup.commands import finish, last_line
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import committed_bytes, make, numbered, produce, shapes
from tests.lab.backup.restores import Restore


@pytest.fixture
def to_s3(back_up: BackUp, s3: S3, topic: str) -> BackUp:
    """Backs up to a prefix of this test's own."""
    return replace(back_up, elsewhere=ObjectStore(f"{s3.url}/{topic}"))


def stored_bytes(to_s3: BackUp, topic: str, partition: int = 0) -> bytes:
    """The records files of a partition, one behind the other, without their magic bytes."""
    folder = to_s3.store.folder(topic)
    manifest = read_manifest(folder)
    assert manifest is not None
    held = manifest.partition(partition)
    assert held is not None
    content = b""
    for segment in held.segments:
        with folder.open(f"{segment.prefix}_records") as file:
            content += file.read()[1:]
    return content


def test_a_bucket_that_does_not_exist_is_called_that(s3: S3) -> None:
    with pytest.raises(StorageError, match="there is no bucket nowhere"):
        held_topics(ObjectStore("s3://nowhere/backups"))
    with pytest.raises(UsageError, match="holds no backup"):
        held_topics(ObjectStore(f"{s3.url}/nothing-here"))


def test_a_topic_goes_to_s3_and_comes_back(
    whole_broker: Cluster, to_s3: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic, partitions=2)
    produce(whole_broker, topic, shapes())
    produce(whole_broker, topic, numbered(7), partition=1)
    report = to_s3.topic(topic, max_segment_bytes=300_000)
    assert report.folder == f"{to_s3.store.where()}/{topic}"
    produce(whole_broker, topic, numbered(5, start=7), partition=1)
    to_s3.topic(topic)
    for partition in (0, 1):
        assert stored_bytes(to_s3, topic, partition) == committed_bytes(
            whole_broker, topic, partition
        )
    assert verify_files(to_s3.store.folder(topic)).whole
    back = replace(restore, back_up=to_s3)
    assert back.topic(topic, f"{topic}-back").records == 112 + 12
    for partition in (0, 1):
        restored = contents(whole_broker, f"{topic}-back", partition)
        assert restored == contents(whole_broker, topic, partition)


def test_requests_that_are_refused_are_sent_again(
    whole_broker: Cluster, to_s3: BackUp, restore: Restore, s3: S3, topic: str
) -> None:
    make(whole_broker, topic)
    produce_many(whole_broker, topic, 0, 20_000, pattern=Pattern(value_bytes=1000))
    with s3.failing(every=3):
        assert to_s3.topic(topic, max_segment_bytes=4_000_000).partitions[0].records == 20_000
        assert verify_files(to_s3.store.folder(topic)).damages == []
        back = replace(restore, back_up=to_s3)
        assert back.topic(topic, f"{topic}-back").records == 20_000
    assert s3.refused > 20


def test_a_store_that_goes_down_midway_leaves_the_last_commit(
    whole_broker: Cluster, to_s3: BackUp, restore: Restore, s3: S3, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(10))
    to_s3.topic(topic)
    produce_many(whole_broker, topic, 0, 20_000, pattern=Pattern(value_bytes=1000))
    with s3.failing(after=6):
        (report,) = to_s3(topic, max_segment_bytes=2_000_000).topics
    assert "s3://backups/" in report.error
    assert "check that the store answers and run the command again" in report.error
    assert "what was committed is whole" in report.error
    assert verify_files(to_s3.store.folder(topic)).records == 10
    back = replace(restore, back_up=to_s3)
    assert back.topic(topic, f"{topic}-back").records == 10
    assert to_s3.topic(topic).partitions[0].records == 20_000
    assert stored_bytes(to_s3, topic) == committed_bytes(whole_broker, topic)


def test_b36_other_bytes_than_those_that_were_checked_are_not_restored(
    whole_broker: Cluster, to_s3: BackUp, restore: Restore, s3: S3, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(100))
    to_s3.topic(topic)
    with (
        s3.failing(forge=forged_after(1)),
        pytest.raises(BreakglassError, match="not those that were"),
    ):
        replace(restore, back_up=to_s3).topic(topic, f"{topic}-back")


@pytest.mark.parametrize("reads", [1, 2, 3])
def test_b36_a_manifest_that_changes_after_the_consent_is_refused(
    whole_broker: Cluster,
    to_s3: BackUp,
    s3: S3,
    topic: str,
    user_folders: Path,
    monkeypatch: pytest.MonkeyPatch,
    reads: int,
) -> None:
    """It has the hash of other records, and these follow it."""
    monkeypatch.setattr(guard, "FRESH_SECONDS", 0.0)
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(100))
    to_s3.topic(topic)
    folder, target = to_s3.store.folder(topic), f"{topic}-back"
    assert isinstance(folder, RunsFolder)
    name, written = forged_document(folder.blobs)
    words = ["--store", to_s3.store.where(), "--topics", topic, "--map", f"{topic}={target}"]
    words += ["--bootstrap-server", whole_broker.bootstrap_servers, "--write"]
    with s3.failing(forge=forged_after(reads, reads, name, written)):
        consent = f"restore 100 records into {target}"
        ended = breakglass("backup", "restore", *words, "--consent", consent)
    assert ended.code in (0, 1, 3), ended.err
    if ended.code == 0:
        assert contents(whole_broker, target, 0) == contents(whole_broker, topic, 0)


def test_a_compressed_and_encrypted_backup_by_the_commands(
    whole_broker: Cluster, to_s3: BackUp, s3: S3, topic: str, tmp_path: Path
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, shapes())
    key = tmp_path / "key"
    key.write_text("0123456789abcdef" * 4)
    place, given = to_s3.store.where(), ["--key", str(key)]
    run = ["run", "--topics", topic, "--store", place, "--compress", "zstd", *given, "--json"]
    code, out, err = finish(whole_broker, *run)
    assert (code, last_line(out)["records"]) == (0, 112), err
    assert all(name.endswith(".zst.aes") for name in to_s3.store.names(topic))
    code, out, err = finish(whole_broker, "verify", "--store", place, *given, "--live", "--json")
    assert code == 0, err
    assert json.loads(out)["topics"][0]["identical"] is True
    target = f"{topic}-back"
    back = ["restore", "--store", place, "--map", f"{topic}={target}", "--write", "--json", *given]
    back += [
        "--progress",
        str(tmp_path / "state"),
        "--consent",
        f"restore 112 records into {target}",
    ]
    code, out, err = finish(whole_broker, *back)
    assert code == 0, err
    assert contents(whole_broker, target) == contents(whole_broker, topic)
    assert key.read_text() not in out + err
    code, _, err = finish(whole_broker, "status", "--store", place)
    assert (code, "is encrypted: name the file" in err) == (2, True)
    key.write_text("f" * 64)
    code, _, err = finish(whole_broker, "verify", "--store", place, *given)
    assert (code, "was encrypted with another key" in err) == (2, True)
