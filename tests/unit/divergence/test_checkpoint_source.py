"""A partition's copy in a store of checkpoints, by its address."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.divergence.address import parse_address
from breakglass.services.divergence.backup_opening import open_checkpoint
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import UsageError
from tests.unit.checkpoint.store.stores import manifest, reserved
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run


def checkpoint(root: Path, *, completed: bool = True) -> BackupStore:
    """Checkpoint 7 with a copy of orders-0 by node 3."""
    store = reserved(BackupStore(str(root)), 7)
    id = CopyId(7, 1, 3)
    store.copies.begin(id, 100, "1.0")
    back_up(root / "contents/7/1/3/segments", run(0, 100))
    if completed:
        store.copies.complete(id, manifest())
    return store


def test_the_records_of_a_copy_are_read(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    source = open_checkpoint(parse_address(f"checkpoint:{tmp_path}/7/orders/0"))
    assert source.extent == Extent(0, 100)
    assert len(list(source.read(0, 100, Reading()))) == 100


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("8/orders/0", "holds no checkpoint 8"),
        ("7/orders/9", "checkpoint 7 is not of orders-9"),
        ("7/orders/0", "holds no completed copy"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, address: str, why: str) -> None:
    checkpoint(tmp_path, completed=False)
    with pytest.raises(UsageError, match=why):
        open_checkpoint(parse_address(f"checkpoint:{tmp_path}/{address}"))
