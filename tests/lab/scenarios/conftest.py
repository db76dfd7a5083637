"""The damaged lab that several files look at, each at its own topics."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.scenarios.damaged import Damaged, damaged

VERSIONS = ("4.3.1", "3.9.2")


@pytest.fixture(scope="session", params=VERSIONS)
def three_losses(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Damaged]:
    """stale-replicas, diverged and replaced-disk on one lab, which nobody may change."""
    names = ("stale-replicas", "diverged", "replaced-disk")
    folder = tmp_path_factory.mktemp("three-losses")
    with damaged(folder, *names, kafka_version=request.param) as lab:
        yield lab


MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30


@pytest.fixture(scope="module")
def fast_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory where there is room: brokers fsync several times for each log."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield tmp_path_factory.mktemp("lab")
        return
    with tempfile.TemporaryDirectory(prefix="breakglass-lab-", dir=MEMORY) as folder:
        yield Path(folder)
