"""S8 and its neighbours on a real store: sources that fail, nodes that die, full disks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.checkpoint.copying import take_copy
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import ManifestDocument, StoredFile
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    PipelineError,
    Refused,
    StorageError,
)
from tests.unit.checkpoint.store.stores import POSITION, copied, manifest, reserved

ID = CopyId(1, 2, 0)
CONTENT = b"records up to the checkpoint"


class Failing:
    """A source that raises *errors*, one at each try, and then copies."""

    def __init__(self, *errors: BreakglassError) -> None:
        self.errors: Iterator[BreakglassError] = iter(errors)
        self.tries = 0

    def copy(self, where: str) -> ManifestDocument:
        self.tries += 1
        folder = Path(where)
        assert not folder.is_dir() or not list(folder.iterdir())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "records").write_bytes(CONTENT)
        for error in self.errors:
            raise error
        return manifest(StoredFile("records", len(CONTENT), hashlib.sha256(CONTENT).hexdigest()))


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return reserved(BackupStore(str(tmp_path / "store")), 1)


def taken(store: BackupStore, source: Failing, waited: list[float] | None = None) -> Status:
    wait = ([] if waited is None else waited).append
    return take_copy(store.copies, ID, POSITION, source, wait)


def test_s8_copying_is_tried_again_three_times(store: BackupStore) -> None:
    errors = (StorageError("full"), PipelineError("no worker"), StorageError("full"))
    source, waited = Failing(*errors), list[float]()
    assert taken(store, source, waited) is Status.COMPLETED
    assert (source.tries, waited) == (4, [1, 2, 4])
    assert store.copies.damaged(ID) is None


def test_s8_after_that_it_has_failed_with_the_last_reason(store: BackupStore) -> None:
    source = Failing(*(StorageError(f"full, try {number}") for number in range(1, 9)))
    assert taken(store, source) is Status.FAILED
    assert source.tries == 4
    assert store.copies.partition(1, 2).failure == "full, try 4"
    assert taken(store, Failing()) is Status.FAILED


def test_what_can_never_be_copied_is_not_tried_again(store: BackupStore) -> None:
    source = Failing(ClusterError("retention was faster"))
    assert taken(store, source) is Status.FAILED
    assert source.tries == 1
    assert store.copies.partition(1, 2).failure == "retention was faster"


@pytest.mark.parametrize(
    "errors",
    [(), (StorageError("its folder is gone"),), (ClusterError("retention was faster"),)],
    ids=["copied", "tried again", "failed"],
)
def test_what_a_copy_writes_after_its_checkpoint_was_deleted_does_not_stay(
    store: BackupStore, errors: tuple[BreakglassError, ...]
) -> None:
    class Overtaken(Failing):
        def copy(self, where: str) -> ManifestDocument:
            store.delete(1)
            return super().copy(where)

    if isinstance(next(iter(errors), None), ClusterError):
        assert taken(store, Overtaken(*errors)) is Status.FAILED
    else:
        with pytest.raises(Refused):
            taken(store, Overtaken(*errors))
    root = Path(store.address)
    left = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    assert [name for name in left if name.endswith("json")] == [
        f"checkpoints/1/{name}.json" for name in ("deleted", "take")
    ]
    assert "contents/1" not in left


def test_s2_a_copy_that_was_cut_off_is_taken_anew(store: BackupStore) -> None:
    store.copies.begin(ID, POSITION)
    store.copies.put(ID, "half", b"half")
    assert taken(store, Failing()) is Status.COMPLETED
    assert store.copies.contents(ID).names() == ["records"]


def test_i07_a_completed_copy_is_not_taken_again(store: BackupStore) -> None:
    copied(store, ID)
    source = Failing()
    assert taken(store, source) is Status.COMPLETED
    assert source.tries == 0
