"""A folder that nothing is changed in: which manifest counts, who commits, what can go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.errors import AlreadyRunning, StorageError, UsageError
from breakglass.services.topic_backup.manifest import TopicIdentity, next_manifest, read_manifest
from breakglass.services.topic_backup.store.form import StoredForm, form_of
from breakglass.services.topic_backup.store.runs_folder import (
    KEPT_MANIFESTS,
    RunsFolder,
    last_manifest,
    stale,
    version_name,
)
from breakglass.services.topic_backup.store.store import Store
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary
from tests.unit.topic_backup.store.stores import (
    BOTH,
    COMPRESSED,
    ENCRYPTED,
    PLAIN,
    in_memory,
    on_disk,
    runs_folder,
)

ORDERS = TopicIdentity("orders")


@pytest.fixture
def store() -> Iterator[Store]:
    """An object store."""
    with in_memory() as store:
        yield store


@pytest.fixture
def folder(store: Store) -> RunsFolder:
    """The folder of orders in it."""
    return runs_folder(store, PLAIN)


def test_the_manifest_with_the_highest_number_counts() -> None:
    names = ["breakglass_manifest_0000000009.json", "breakglass_manifest_10000000000.json"]
    assert last_manifest([*names, "breakglass_manifest.json", "other"]) == names[1]


def test_a_local_folder_that_was_copied_counts_until_the_first_commit(folder: RunsFolder) -> None:
    assert folder.manifest() is None
    folder.replace("breakglass_manifest.json", [b"{}"])
    assert folder.manifest() == "breakglass_manifest.json"
    folder.commit(6, b"{}")
    assert folder.manifest() == version_name(6)


def test_of_many_commits_of_one_number_one_succeeds(folder: RunsFolder) -> None:
    succeeded: list[int] = []
    refused: list[int] = []
    begin = threading.Barrier(8)

    def commit(writer: int) -> None:
        begin.wait()
        try:
            folder.commit(1, b"%d" % writer)
            succeeded.append(writer)
        except AlreadyRunning:
            refused.append(writer)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(succeeded), len(refused)) == (1, 7)
    with folder.open(version_name(1)) as file:
        assert file.read() == b"%d" % succeeded[0]


def test_a_store_that_overwrites_what_it_must_not_is_refused(
    folder: RunsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(folder.blobs), "create", lambda *_: True)
    with pytest.raises(StorageError, match="does not honour If-None-Match"), folder.lock():
        pass


def test_what_no_commit_names_and_none_will_can_go() -> None:
    held = SegmentSummary("run-0000000002-ab-7/segment_x", 0, 1, "")
    manifest = next_manifest(None, ORDERS, {0: PartitionSummary(0, 1, (held,))})
    kept = [f"{held.prefix}_records", f"{held.prefix}_index"]
    of_a_killed_run = [
        "run-0000000001-ff-0/segment_y_records",
        "run-0000000001-ff-0/.breakglass-00ff.tmp",
    ]
    may_be_committed = ["run-0000000002-cd-0/segment_y_index", "consumer_offsets_partition_000"]
    names = [*kept, *of_a_killed_run, *may_be_committed]
    assert stale(names, [manifest]) == of_a_killed_run


def test_only_the_last_manifests_stay() -> None:
    manifest, kept = None, []
    for number in range(KEPT_MANIFESTS + 2):
        held = SegmentSummary(f"run-{number + 1:010d}-ab-0/segment_x", 0, 1, "")
        parts = {0: PartitionSummary(0, 1, (held,))}
        manifest = next_manifest(manifest, ORDERS, parts)
        kept.append(manifest)
    manifests = [version_name(manifest.commit) for manifest in kept]
    records = [f"{manifest.partitions[0].segments[0].prefix}_records" for manifest in kept]
    gone = [*manifests[:2], *records[:2]]
    assert stale([*manifests, *records], kept[-KEPT_MANIFESTS:]) == gone


@pytest.mark.parametrize("form", [PLAIN, COMPRESSED, ENCRYPTED, BOTH])
def test_a_form_is_told_by_names(form: StoredForm, store: Store) -> None:
    folder = runs_folder(store, form)
    folder.replace("run-0000000001-ab-0/segment_records", [b"\x01"])
    assert form_of(store.names("orders")) == form
    folder.commit(1, b"{}")
    assert form_of(store.names("orders")) == form


def test_one_folder_has_one_form(store: Store) -> None:
    runs_folder(store, COMPRESSED).commit(1, b"{}")
    with pytest.raises(UsageError, match="orders is compressed, this would be plain"):
        store.folder("orders", PLAIN)


def test_what_is_encrypted_wants_its_key(tmp_path: Path) -> None:
    runs_folder(on_disk(tmp_path), ENCRYPTED).commit(1, b"{}")
    with pytest.raises(UsageError, match="orders is encrypted: name the file that holds its key"):
        on_disk(tmp_path, None).folder("orders")


def test_a_manifest_put_back_from_an_earlier_commit_does_not_open(tmp_path: Path) -> None:
    folder = runs_folder(on_disk(tmp_path), ENCRYPTED)
    folder.commit(1, b"{}")
    folder.commit(2, b"{}")
    names = [tmp_path / "orders" / f"{version_name(number)}.aes" for number in (1, 2)]
    names[1].write_bytes(names[0].read_bytes())
    with pytest.raises(StorageError, match="changed, cut or exchanged"):
        read_manifest(folder)
