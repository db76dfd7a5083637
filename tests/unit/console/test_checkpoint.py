"""`breakglass checkpoint`: what it prints of a store, and what it refuses without consent."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breakglass.screens.checkpoints import columns, verified_part
from breakglass.services import patience
from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import CutDocument
from breakglass.services.checkpoint.watch import CheckpointPartitionLine, CheckpointWatch
from breakglass.services.checkpoint.wording import promise
from breakglass.services.model import Unknown
from breakglass.themes.roles import Role
from tests.kit.deadlines import MOMENT
from tests.kit.program import Ended, breakglass
from tests.unit.checkpoint.store.stores import (
    POSITION,
    SUBJECTS,
    completed,
    copied,
    reserved,
    ticking,
)
from tests.unit.console.conftest import Golden
from tests.unit.console.fakes import NOBODY


def checkpoint(command: str, store: BackupStore, *arguments: str) -> Ended:
    return breakglass("checkpoint", command, "--store", store.address, *arguments)


def document(command: str, store: BackupStore, *arguments: str) -> dict[str, Any]:
    ended = checkpoint(command, store, *arguments, "--json")
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """1 and 2 are completed, 3 has failed, 4 is being copied."""
    store = BackupStore(str(tmp_path), ticking())
    for id in (1, 2):
        completed(store, id)
    reserved(store, 3)
    store.fail_checkpoint(3, "group payments lags")
    reserved(store, 4)
    copied(store, CopyId(4, 1, 0))
    for number in (2, 3):
        store.copies.begin(CopyId(4, number, 0), 100, "1.0")
    return store


def decided(store: BackupStore, id: int, position: int = POSITION) -> None:
    store.decide(id, CutDocument(1, {subject.number: position for subject in SUBJECTS}))


def test_the_list_has_the_newest_first_with_level_state_promise_and_failure(
    store: BackupStore, golden: Golden
) -> None:
    golden(checkpoint("list", store))
    found = document("list", store)["checkpoints"]
    assert [(one["id"], one["level"], one["state"], one["completed"]) for one in found] == [
        (4, "coordinated", "ongoing", 1),
        (3, "coordinated", "failed", 0),
        (2, "coordinated", "completed", 3),
        (1, "coordinated", "completed", 3),
    ]
    assert found[1]["failure"] == "group payments lags"
    assert [one["bytes"] is None for one in found] == [True, True, False, False]
    assert {one["promise"].split(":")[0] for one in found} == {"coordinated"}


@pytest.mark.parametrize("damage", [b"{", b"", b'{"schema": 9}'])
def test_h19_a_damaged_checkpoint_is_listed_with_its_reason_and_hides_no_other(
    store: BackupStore, damage: bytes
) -> None:
    whole = document("list", store)["checkpoints"]
    (Path(store.address) / "checkpoints" / "2" / "take.json").write_bytes(damage)
    ended = checkpoint("list", store, "--json")
    found = json.loads(ended.out)["checkpoints"]
    state = "unreadable" if b"9" in damage else "damaged"
    assert (ended.code, [one["id"] for one in found]) == (1, [4, 3, 2, 1])
    assert [one for one in found if one["id"] != 2] == [one for one in whole if one["id"] != 2]
    assert (found[2]["state"], found[2]["level"]) == (state, None)
    assert "2/take.json" in found[2]["failure"]
    assert f" {state} " in checkpoint("list", store).out
    assert checkpoint("status", store, "2").code == 2
    (url,) = CheckpointWatch((store.address,)).look()
    assert not isinstance(url.held, Unknown)
    promises = [promise(one) for one in url.held if one.unread is not None]
    assert ["while its documents cannot be read" in promised for promised in promises] == [True]
    assert document("retain", store, "--older-than", "1ms")["checkpoints"] == [3]
    written = ("2", "--write", "--consent", f"delete checkpoint 2 {state}")
    assert document("delete", store, *written)["deleted"] == [2]


@pytest.mark.parametrize("words", ["list", "status 1", "verify 1", "delete 1", "retain"])
def test_h18_a_folder_whose_file_server_is_silent_is_not_waited_for_without_end(
    tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, exists = threading.Event(), Path.exists

    def silent(path: Path) -> bool:
        return exists(path) if path != tmp_path else answer.wait() and False

    monkeypatch.setattr(Path, "exists", silent)
    monkeypatch.setattr(patience, "STORE", MOMENT)
    command, *arguments = words.split()
    ended = checkpoint(command, BackupStore(str(tmp_path)), *arguments)
    answer.set()
    assert (ended.code, "no answer within" in ended.err) == (1, True)


def test_the_status_has_what_is_promised_and_how_much_of_each_partition_is_there(
    store: BackupStore, golden: Golden
) -> None:
    golden(checkpoint("status", store, "4"))
    found = document("status", store, "4")
    assert [one["state"] for one in found["details"]] == ["completed", "ongoing", "ongoing"]
    assert [one["so_far"] is None for one in found["details"]] == [True, False, False]
    assert found["details"][1]["so_far"] == {
        "records": 0,
        "records_expected_at_most": None,
        "bytes": 0,
        "bytes_expected_about": None,
    }


def change(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])


@pytest.mark.parametrize(
    "damage",
    [change, lambda file: os.truncate(file, 1), Path.unlink],
    ids=["a byte", "size", "gone"],
)
def test_damage_ends_with_1_and_is_shown_wherever_the_checkpoint_is_until_it_is_whole_again(
    store: BackupStore, damage: Callable[[Path], None]
) -> None:
    decided(store, 2)
    document("verify", store, "2")
    file = Path(store.address, "contents", "2", "3", "0", "segments", "0", "records")
    content = file.read_bytes()
    damage(file)
    assert checkpoint("verify", store, "2").code == 1
    found = document("status", store, "2")
    assert (found["state"], found["verified"]["whole"]) == ("completed", False)
    assert found["verified"]["damage"].keys() == {"3"}
    assert "damaged" in checkpoint("list", store).out
    ended = checkpoint("status", store, "2")
    assert ": whole" not in ended.out + ended.err
    held = store.read(2)
    assert held is not None
    cell = {column.title: column.words for column in columns(0)}["Verified"]
    roles = [cell(CheckpointPartitionLine("", held, part)).role for part in held.partitions]
    assert [*roles, verified_part(held).role] == [
        Role.VERIFIED,
        Role.VERIFIED,
        Role.FAILED,
        Role.FAILED,
    ]
    file.write_bytes(content)
    assert document("verify", store, "2")["whole"]


def test_a_checkpoint_is_verified_in_every_output_until_another_copy_is_the_best(
    store: BackupStore,
) -> None:
    decided(store, 2)
    for subject in SUBJECTS:
        copied(store, CopyId(2, subject.number, 1))
    assert document("list", store)["checkpoints"][2]["verified"] is None
    done = document("verify", store, "2")
    assert (done["whole"], done["files"], done["damage"]) == (True, 3, {})
    for found in (document("list", store)["checkpoints"][2], document("status", store, "2")):
        assert found["verified"] == {key: done[key] for key in found["verified"]}
    assert document("list", store)["checkpoints"][3]["verified"] is None
    store.copies.fail(CopyId(2, 1, 0), "its disk is gone")
    found = document("status", store, "2")
    assert (found["state"], found["verified"]) == ("completed", None)


TAKE = ("--topics", "bank", *NOBODY)
THERE = ("--suffix=-back", "--to-bootstrap-server", "dr:9092")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, ("verify", "3")),
        (3, ("verify", "4")),
        (2, ("status", "9")),
        (3, ("take", "--level", "coordinated", *TAKE)),
        (2, ("restore", "2", *THERE, "--bootstrap-server", "b1:9092")),
        (2, ("restore", "2", *THERE, "--profile", "prod")),
        (2, ("restore", "2", *THERE, "--command-config", "f")),
        (2, ("delete", "9", "--write")),
    ],
)
def test_what_cannot_be_done_is_refused(
    store: BackupStore, code: int, words: tuple[str, ...]
) -> None:
    ended = checkpoint(words[0], store, *words[1:])
    assert (ended.code, ended.out) == (code, "")


def test_deleting_takes_write_and_the_phrase_for_that_state(store: BackupStore) -> None:
    phrase = "delete checkpoint 1 completed"
    assert checkpoint("delete", store, "1", "--consent", phrase).code == 3
    assert checkpoint("delete", store, "1", "--write").said[-1] == f"consent: {phrase}"
    other = ("--consent", "delete checkpoint 3 completed")
    assert checkpoint("delete", store, "3", "--write", *other).code == 3
    assert [one.id for one in store.all()] == [4, 3, 2, 1]
    for _ in range(2):
        assert document("delete", store, "1", "--write", "--consent", phrase)["deleted"] == [1]
        assert [one.id for one in store.all()] == [4, 3, 2]


def test_retention_shows_first_and_deletes_under_guard(store: BackupStore) -> None:
    assert document("retain", store)["checkpoints"] == []
    assert document("retain", store, "--older-than", "1ms")["checkpoints"] == [1, 3]
    assert document("retain", store, "--keep", "1")["checkpoints"] == [1]
    assert store.read(1) is not None
    assert checkpoint("retain", store, "--keep", "1", "--delete").code == 3
    refused = checkpoint("retain", store, "--keep", "1", "--write")
    assert refused.said[-1] == "consent: delete 1 checkpoints"
    document("retain", store, "--keep", "1", "--write", "--consent", "delete 1 checkpoints")
    assert [one.id for one in store.all()] == [4, 3, 2]


@pytest.fixture
def half_deleted(tmp_path: Path) -> BackupStore:
    """1 was deleted, by a process that was killed before it had removed anything; 2 is there."""
    store = BackupStore(str(tmp_path))
    for id in (1, 2):
        completed(store, id)
    (tmp_path / "checkpoints" / "1" / "deleted.json").write_text('{"schema": 1, "at_ms": 5}')
    return store


@pytest.mark.parametrize("words", [("delete", "1"), ("retain",)], ids=lambda words: words[0])
def test_what_a_killed_deletion_left_is_removed_by_the_next(
    half_deleted: BackupStore, words: tuple[str, ...]
) -> None:
    def found(*more: str) -> Any:
        told = document(words[0], half_deleted, *words[1:], *more)
        return told.get("left_of_deleted", told.get("deleted"))

    refused = (*words[1:], *(() if words[1:] else ("--delete",)))
    assert checkpoint(words[0], half_deleted, *refused).code == 3
    if words == ("retain",):
        assert found() == [1]
    assert found("--write") == [1]
    assert found("--write") == ([] if words == ("retain",) else [1])
    root = Path(half_deleted.address)
    left = [path.name for top in root.iterdir() for path in (top / "1").rglob("*")]
    assert sorted(left) == ["deleted.json", "take.json"]
    assert half_deleted.read(2) is not None
