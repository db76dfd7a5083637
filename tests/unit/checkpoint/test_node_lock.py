"""One worker of a node at a checkpoint: others are kept out, however the first one ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.services.checkpoint.node_lock import alone
from breakglass.services.errors import AlreadyRunning, StorageError

HOLDING = """
import sys
from pathlib import Path
from breakglass.services.checkpoint.node_lock import alone
with alone(sys.argv[1], 0, Path(sys.argv[2]), 7):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


def test_a_second_worker_of_the_node_is_refused_and_may_begin_when_the_first_has_ended(
    tmp_path: Path, locks: Path
) -> None:
    store = str(tmp_path / "store")
    for _ in range(2):
        with (
            alone(store, 0, locks, 7),
            pytest.raises(AlreadyRunning, match="node 0 is at work on checkpoint 7"),
            alone(f"{tmp_path}/other/../store", 0, locks, 7),
        ):
            pytest.fail("both are at work")
    assert list(locks.iterdir()) == []


def test_other_nodes_checkpoints_and_stores_are_not_kept_out(tmp_path: Path, locks: Path) -> None:
    with (
        alone(str(tmp_path), 0, locks, 7),
        alone(str(tmp_path), 1, locks, 7),
        alone(str(tmp_path), 0, locks, 8),
        alone("s3://bucket/store", 0, locks, 7),
    ):
        assert len(list(locks.iterdir())) == 4


def test_a_worker_that_is_killed_keeps_nobody_out(tmp_path: Path, locks: Path) -> None:
    arguments = [sys.executable, "-c", HOLDING, str(tmp_path), str(locks)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunning), alone(str(tmp_path), 0, locks, 7):
            pytest.fail("both are at work")
        worker.kill()
        worker.wait(60)
    with alone(str(tmp_path), 0, locks, 7):
        pass


def test_a_lock_that_cannot_be_made_is_named(tmp_path: Path, locks: Path) -> None:
    with alone(str(tmp_path), 0, locks, 7):
        (name,) = (path.name for path in locks.iterdir())
    (locks / name).mkdir()
    with pytest.raises(StorageError, match=name), alone(str(tmp_path), 0, locks, 7):
        pytest.fail("nothing is locked")
