"""Checkpoints in a real S3 server, which refuses some requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from tests.pipeline.s3_server import S3
from tests.unit.checkpoint.store.stores import completed, take


@pytest.mark.slow
def test_a_checkpoint_in_s3_is_taken_once_completed_checked_and_deleted(s3: S3, topic: str) -> None:
    store = BackupStore(f"{s3.url}/checkpoints-{topic}")
    with s3.failing(every=20):
        completed(store, 1)
        found = store.read(1)
        assert found is not None
        assert found.status is Status.COMPLETED
        assert store.copies.damaged(CopyId(1, 1, 0)) is None
        assert s3.refused > 0
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda number: store.reserve(take(2, f"request {number}")), range(4))
        )
    assert answers.count(None) == 1
    assert set(answers) == {None, NotHigher(2, 2)}
    for _ in range(2):
        store.delete(1)
    assert store.read(1) is None
    assert store.ids() == [1, 2]
