"""`breakglass checkpoint`: what it prints of a store, and what it refuses without consent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from breakglass.console.checkpoint import app
from breakglass.services.checkpoint.option_text import policies
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import CutDocument, GroupPolicy
from breakglass.services.errors import (
    BreakglassError,
    ConsentMissing,
    ReadOnly,
    Refused,
    UsageError,
)
from tests.unit.checkpoint.store.stores import POSITION, SUBJECTS, completed, copied, reserved


def checkpoint(command: str, store: BackupStore, *arguments: str) -> Result:
    """Run the command; an error of ours is raised as it reaches the program's one way out."""
    result = CliRunner().invoke(app, [command, "--store", store.address, *arguments])
    if isinstance(result.exception, BreakglassError):
        raise result.exception
    return result


def document(command: str, store: BackupStore, *arguments: str) -> dict[str, Any]:
    result = checkpoint(command, store, *arguments, "--json")
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """1 and 2 are completed, 3 has failed, 4 is being copied."""
    store = BackupStore(str(tmp_path))
    for id in (1, 2):
        completed(store, id)
    reserved(store, 3)
    store.fail_checkpoint(3, "group payments lags")
    reserved(store, 4)
    copied(store, CopyId(4, 1, 0))
    for number in (2, 3):
        store.copies.begin(CopyId(4, number, 0), 100, "1.0")
    return store


def test_the_list_has_the_newest_first_each_with_level_and_state(store: BackupStore) -> None:
    found = document("list", store)["checkpoints"]
    assert [(one["id"], one["level"], one["state"], one["completed"]) for one in found] == [
        (4, "coordinated", "ongoing", 1),
        (3, "coordinated", "failed", 0),
        (2, "coordinated", "completed", 3),
        (1, "coordinated", "completed", 3),
    ]
    assert found[1]["failure"] == "group payments lags"


def test_the_table_names_level_and_state(store: BackupStore) -> None:
    lines = checkpoint("list", store).stdout.splitlines()
    assert "coordinated" in lines[1]
    assert "ongoing" in lines[1]


def test_an_empty_store_has_none(tmp_path: Path) -> None:
    assert document("list", BackupStore(str(tmp_path)))["checkpoints"] == []


def test_the_status_says_what_is_promised_and_where_each_partition_is(store: BackupStore) -> None:
    found = document("status", store, "4")
    assert found["promise"].startswith("coordinated")
    assert [one["state"] for one in found["details"]] == ["completed", "ongoing", "ongoing"]
    assert found["details"][0]["topic"] == "orders"


def decided(store: BackupStore, id: int, position: int = POSITION) -> None:
    """Its cut, noted."""
    store.decide(id, CutDocument(1, {subject.number: position for subject in SUBJECTS}))


def test_a_checkpoint_is_verified_and_every_output_says_so(store: BackupStore) -> None:
    decided(store, 2)
    assert document("list", store)["checkpoints"][2]["verified"] is None
    assert "never verified" in checkpoint("status", store, "2").stdout
    done = document("verify", store, "2")
    assert (done["whole"], done["files"], done["damage"]) == (True, 3, {})
    assert done["at_ms"] > 0
    for found in (document("list", store)["checkpoints"][2], document("status", store, "2")):
        assert found["verified"] == {key: done[key] for key in found["verified"]}
    assert ": whole" in checkpoint("status", store, "2").stdout
    assert document("list", store)["checkpoints"][3]["verified"] is None


def changed(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


@pytest.mark.parametrize(
    ("damage", "words"),
    [(changed, "has other bytes than were committed"), (lambda one: one[:-1], "bytes long, not")],
    ids=["another byte", "a byte less"],
)
def test_damage_ends_with_1_and_is_told_wherever_the_checkpoint_is(
    store: BackupStore, damage: Callable[[bytes], bytes], words: str
) -> None:
    decided(store, 2)
    document("verify", store, "2")
    file = Path(store.address, "contents", "2", "3", "0", "segments", "0", "records")
    file.write_bytes(damage(file.read_bytes()))
    done = checkpoint("verify", store, "2")
    assert done.exit_code == 1
    assert words in done.stderr
    assert "damaged in 1 of 3 partitions" in done.stderr
    found = document("status", store, "2")
    assert (found["state"], found["verified"]["whole"]) == ("completed", False)
    assert words in found["verified"]["damage"]["3"]
    assert "damaged" in checkpoint("list", store).stdout


def test_a_missing_file_is_damage_and_brought_back_it_is_whole_again(store: BackupStore) -> None:
    decided(store, 1)
    file = Path(store.address, "contents", "1", "1", "0", "segments", "0", "records")
    content = file.read_bytes()
    file.unlink()
    assert "is missing" in checkpoint("verify", store, "1").stderr
    file.write_bytes(content)
    assert document("verify", store, "1")["whole"]
    noted = [path.name for path in Path(store.address, "checkpoints", "1").glob("verified-*.json")]
    assert len(noted) == 1


def test_a_copy_that_ends_elsewhere_than_the_cut_is_damage(store: BackupStore) -> None:
    decided(store, 2, POSITION - 1)
    done = checkpoint("verify", store, "2")
    assert done.exit_code == 1
    assert f"ends at {POSITION}, and the cut is at {POSITION - 1}" in done.stderr


def test_what_was_verified_is_another_copy_once_a_better_one_is_there(store: BackupStore) -> None:
    decided(store, 2)
    for subject in SUBJECTS:
        copied(store, CopyId(2, subject.number, 1))
    assert document("verify", store, "2")["whole"]
    store.copies.fail(CopyId(2, 1, 0), "its disk is gone")
    found = document("status", store, "2")
    assert (found["state"], found["verified"]) == ("completed", None)


def test_only_a_completed_checkpoint_is_verified(store: BackupStore) -> None:
    for id in ("3", "4"):
        with pytest.raises(Refused, match="only a completed one can be verified"):
            checkpoint("verify", store, id)


def test_a_checkpoint_that_there_is_not_is_told_so(store: BackupStore) -> None:
    with pytest.raises(UsageError, match="There is no checkpoint 9"):
        checkpoint("status", store, "9")


def test_deleting_takes_write_and_the_phrase(store: BackupStore) -> None:
    with pytest.raises(ReadOnly, match="add --write"):
        checkpoint("delete", store, "1", "--consent", "delete checkpoint 1 completed")
    with pytest.raises(ConsentMissing) as refused:
        checkpoint("delete", store, "1", "--write")
    assert refused.value.phrase == "delete checkpoint 1 completed"
    assert store.read(1) is not None
    done = document("delete", store, "1", "--write", "--consent", refused.value.phrase)
    assert done["deleted"] == [1]
    assert store.read(1) is None


def test_a_phrase_for_another_state_deletes_nothing(store: BackupStore) -> None:
    with pytest.raises(ConsentMissing):
        checkpoint("delete", store, "3", "--write", "--consent", "delete checkpoint 3 completed")
    assert store.read(3) is not None


def test_without_a_limit_nothing_may_go(store: BackupStore) -> None:
    assert document("retain", store)["checkpoints"] == []


def test_retention_shows_first_and_deletes_under_guard(store: BackupStore) -> None:
    assert document("retain", store, "--keep", "1")["checkpoints"] == [1]
    assert store.read(1) is not None
    with pytest.raises(ReadOnly):
        checkpoint("retain", store, "--keep", "1", "--delete")
    options = ("--keep", "1", "--write")
    with pytest.raises(ConsentMissing) as refused:
        checkpoint("retain", store, *options)
    assert refused.value.phrase == "delete 1 checkpoints"
    document("retain", store, *options, "--consent", refused.value.phrase)
    assert [one.id for one in store.all()] == [4, 3, 2]


def test_the_newest_completed_one_stays_however_old_it_is(store: BackupStore) -> None:
    going = document("retain", store, "--older-than", "1ms")["checkpoints"]
    assert going == [1, 3]
    found = store.read(2)
    assert found is not None
    assert found.status is Status.COMPLETED


def test_a_coordinated_checkpoint_takes_write(store: BackupStore) -> None:
    level = ("--level", "coordinated", "--bootstrap-server", "127.0.0.1:1")
    with pytest.raises(ReadOnly, match="taking a checkpoint changes the cluster: add --write"):
        checkpoint("take", store, "--topics", "bank", *level)


def test_each_group_has_one_policy() -> None:
    assert policies(["a=exactly-once", "b=c=at-least-once"]) == {
        "a": GroupPolicy.EXACTLY_ONCE,
        "b=c": GroupPolicy.AT_LEAST_ONCE,
    }


@pytest.mark.parametrize("text", ["a", "a=", "=exactly-once", "a=twice"])
def test_a_group_without_a_policy_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not written NAME="):
        policies([text])


def test_a_group_with_two_policies_is_refused() -> None:
    with pytest.raises(UsageError, match="named twice"):
        policies(["a=exactly-once", "a=at-least-once"])


# --- what stdout has


def test_level_state_promise_and_reason_are_on_stdout(store: BackupStore) -> None:
    done = checkpoint("status", store, "3")
    head, promised, reason, *_ = done.stdout.splitlines()
    assert head.split()[:4] == ["checkpoint", "3", "coordinated", "failed"]
    assert promised == "coordinated: cut at the id that every record carries."
    assert reason == "failed: group payments lags"
    assert done.stderr == ""


def test_i09_no_partition_of_a_failed_checkpoint_is_called_ongoing(store: BackupStore) -> None:
    store.fail_checkpoint(4, "group payments lags")
    assert "ongoing" not in checkpoint("status", store, "4").stdout
    found = document("status", store, "4")
    assert [one["state"] for one in found["details"]] == ["completed", "failed", "failed"]
    assert [one["failure"] for one in found["details"]] == [None, *2 * ["group payments lags"]]


def test_the_list_says_what_levels_promise_and_why_one_has_failed(store: BackupStore) -> None:
    lines = checkpoint("list", store).stdout.splitlines()
    assert "coordinated: cut at the id that every record carries." in lines
    assert "3 failed: group payments lags" in lines
    assert all(
        one["promise"].startswith("coordinated") for one in document("list", store)["checkpoints"]
    )


def test_equal_reasons_are_said_once(store: BackupStore) -> None:
    reserved(store, 5)
    for number in (1, 2, 3):
        store.copies.fail(CopyId(5, number, 0), "disk full")
    out = checkpoint("status", store, "5").stdout
    assert out.count("disk full") == 1
    assert "failed: orders-0..2 (3 partitions): disk full" in out


def test_what_is_not_known_is_never_0(store: BackupStore) -> None:
    sizes = [one["bytes"] for one in document("list", store)["checkpoints"]]
    assert sizes[:2] == [None, None]
    assert all(size > 0 for size in sizes[2:])
    cells = [line.split()[4:6] for line in checkpoint("list", store).stdout.splitlines()[1:3]]
    assert cells[0][0] == ">="
    assert cells[1][0] == "?"


def test_of_a_partition_under_way_it_says_how_much_is_there(store: BackupStore) -> None:
    found = document("status", store, "4")
    assert [one["so_far"] is None for one in found["details"]] == [True, False, False]
    assert found["details"][1]["so_far"] == {
        "records": 0,
        "records_expected_at_most": None,
        "bytes": 0,
        "bytes_expected_about": None,
    }
    lines = checkpoint("status", store, "4").stdout.splitlines()
    assert "0 of ?" in next(line for line in lines if "orders-1" in line)


# --- a store that is not there


@pytest.mark.parametrize(
    "command", [("list",), ("retain",), ("status", "1"), ("verify", "1"), ("delete", "1")]
)
def test_a_store_that_is_not_there_is_no_empty_one(tmp_path: Path, command: tuple[str]) -> None:
    missing, file = tmp_path / "missing", tmp_path / "file"
    file.write_text("")
    for place, words in ((missing, "There is no folder"), (file, "is a file")):
        with pytest.raises(UsageError, match=words) as told:
            checkpoint(command[0], BackupStore(str(place)), *command[1:])
        assert told.value.exit_code == 2
    assert not missing.exists()


def test_no_checkpoint_is_taken_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    options = ("--topics", "bank", "--level", "vector", "--bootstrap-server", "127.0.0.1:1")
    with pytest.raises(UsageError, match="is a file"):
        checkpoint("take", BackupStore(str(file)), *options)


@pytest.mark.parametrize(
    "named", [("--bootstrap-server", "b1:9092"), ("--profile", "prod"), ("--command-config", "f")]
)
def test_a_restore_into_another_cluster_names_no_second_one(
    store: BackupStore, named: tuple[str, str]
) -> None:
    there = ("--to-bootstrap-server", "dr:9092")
    with pytest.raises(UsageError, match="name the only cluster that is asked"):
        checkpoint("restore", store, "2", "--suffix=-back", *there, *named)
