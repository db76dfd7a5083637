"""`breakglass checkpoint delete` and `retain` where a deletion was killed, or is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.errors import ReadOnly, UsageError
from tests.unit.checkpoint.store.stores import completed
from tests.unit.console.test_checkpoint import checkpoint, document


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """1 was deleted, by a process that was killed before it had removed anything; 2 is there."""
    store = BackupStore(str(tmp_path))
    for id in (1, 2):
        completed(store, id)
    (tmp_path / "checkpoints" / "1" / "deleted.json").write_text('{"schema": 1, "at_ms": 5}')
    return store


def files_of(store: BackupStore, id: int) -> list[str]:
    root = Path(store.address)
    return sorted(
        str(path.relative_to(root)) for top in root.iterdir() for path in (top / str(id)).rglob("*")
    )


ONLY_THE_ID = ["checkpoints/1/deleted.json", "checkpoints/1/take.json"]


def test_deleting_again_removes_what_a_killed_deletion_left(store: BackupStore) -> None:
    with pytest.raises(ReadOnly):
        checkpoint("delete", store, "1")
    for _ in range(2):
        assert document("delete", store, "1", "--write")["deleted"] == [1]
        assert files_of(store, 1) == ONLY_THE_ID


def test_the_same_command_twice_deletes_once(store: BackupStore) -> None:
    consent = ("--write", "--consent", "delete checkpoint 2 completed")
    for _ in range(2):
        assert document("delete", store, "2", *consent)["deleted"] == [2]
    assert store.all() == ()


def test_what_was_never_asked_for_is_not_deleted(store: BackupStore) -> None:
    with pytest.raises(UsageError, match="There is no checkpoint 3"):
        checkpoint("delete", store, "3", "--write")


def test_retain_shows_and_removes_what_a_killed_deletion_left(store: BackupStore) -> None:
    assert document("retain", store)["left_of_deleted"] == [1]
    assert "to remove, left of deleted ones: 1" in checkpoint("retain", store).stderr
    with pytest.raises(ReadOnly):
        checkpoint("retain", store, "--delete")
    assert document("retain", store, "--write")["left_of_deleted"] == [1]
    assert files_of(store, 1) == ONLY_THE_ID
    assert document("retain", store)["left_of_deleted"] == []
    assert store.read(2) is not None
