"""Every file of a copy in a checkpoint x every damage: the copy is never taken for whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.layout import contents
from breakglass.services.errors import BreakglassError
from tests.unit.checkpoint.store.stores import completed, ticking
from tests.unit.damage import emptied, removed, swapped

ONE = CopyId(1, 1, 0)
OTHER = CopyId(1, 2, 0)
CONTENT = "segments/0/records"


def replaced(path: Path, _: Path) -> None:
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))


def one_byte_changed(path: Path, _: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])


def cut(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def cut_by_two_bytes(path: Path, _: Path) -> None:
    """The last byte of a manifest is the line feed behind the document."""
    path.write_bytes(path.read_bytes()[:-2])


EVERY = (removed, emptied, replaced, one_byte_changed, cut, cut_by_two_bytes, swapped)
WITHIN_A_DOCUMENT = tuple(damage for damage in EVERY if damage is not cut)
by_damage = pytest.mark.parametrize("damage", EVERY, ids=lambda one: one.__name__)


def is_whole(store: BackupStore) -> bool:
    """As `checkpoint verify` and `checkpoint restore` judge it."""
    try:
        found = store.read(1)
        if found is None or found.status is not Status.COMPLETED:
            return False
        copies = [partition.counting for partition in found.partitions]
        return all(copy is not None and store.copies.damaged(copy.id) is None for copy in copies)
    except BreakglassError:
        return False


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    store = BackupStore(str(tmp_path), ticking())
    completed(store, 1)
    return store


def test_an_undamaged_checkpoint_is_whole(store: BackupStore) -> None:
    assert is_whole(store)


@by_damage
def test_damaged_content_is_never_whole(
    store: BackupStore, tmp_path: Path, damage: Callable[[Path, Path], None]
) -> None:
    places = [tmp_path / contents(id_) / CONTENT for id_ in (ONE, OTHER)]
    damage(*places)
    assert not is_whole(store)


@pytest.mark.parametrize("damage", WITHIN_A_DOCUMENT, ids=lambda one: one.__name__)
def test_a_damaged_manifest_makes_no_copy_whole(
    store: BackupStore, tmp_path: Path, damage: Callable[[Path, Path], None]
) -> None:
    manifests = sorted((tmp_path / "checkpoints").rglob("manifest*"))
    assert len(manifests) >= 2
    damage(manifests[0], manifests[1])
    assert not is_whole(store)
