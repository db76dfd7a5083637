"""`breakglass checkpoint`: what it prints of a store, and what it refuses without consent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from console.checkpoint import app
from services.checkpoint.asked import bytes_per_second, policies
from services.checkpoint.protocol.values import CopyId, Status
from services.checkpoint.store.backup_store import BackupStore
from services.checkpoint.store.documents import Policy
from services.errors import BreakglassError, ConsentMissing, ReadOnly, UsageError
from tests.unit.checkpoint.store.stores import completed, copied, reserved


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
    assert document("list", BackupStore(str(tmp_path / "empty")))["checkpoints"] == []


def test_the_status_says_what_is_promised_and_where_each_partition_is(store: BackupStore) -> None:
    found = document("status", store, "4")
    assert found["promise"].startswith("coordinated")
    assert [one["state"] for one in found["details"]] == ["completed", "ongoing", "ongoing"]
    assert found["details"][0]["topic"] == "orders"


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
    options = ("--keep", "1", "--delete", "--write")
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
    with pytest.raises(ReadOnly, match="taking a checkpoint changes the cluster: add --write"):
        checkpoint("take", store, "--topics", "bank", "--bootstrap-server", "127.0.0.1:1")


def test_each_group_has_one_policy() -> None:
    assert policies(["a=exactly-once", "b=c=at-least-once"]) == {
        "a": Policy.EXACTLY_ONCE,
        "b=c": Policy.AT_LEAST_ONCE,
    }


@pytest.mark.parametrize("text", ["a", "a=", "=exactly-once", "a=twice"])
def test_a_group_without_a_policy_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not written NAME="):
        policies([text])


def test_a_group_with_two_policies_is_refused() -> None:
    with pytest.raises(UsageError, match="named twice"):
        policies(["a=exactly-once", "a=at-least-once"])


@pytest.mark.parametrize(
    ("text", "rate"), [("20MB/s", 2e7), ("500kB/s", 5e5), ("1GB/s", 1e9), ("7B/s", 7.0)]
)
def test_rates_are_in_bytes_a_second(text: str, rate: float) -> None:
    assert bytes_per_second(text) == rate
    assert bytes_per_second(None) is None


@pytest.mark.parametrize("text", ["20", "20MB", "0MB/s", "-1MB/s", "fast", "20mb/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no rate"):
        bytes_per_second(text)
