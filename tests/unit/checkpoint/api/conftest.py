"""The API over a store in the state that Zeebe was in when its answers were kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from breakglass.console.web.checkpoint_api import CheckpointApi
from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from tests.unit.checkpoint.store.stores import POSITION, completed, copied, reserved
from tests.unit.checkpoint.topics import Logs

GOLDEN = Path(__file__).parents[3] / "golden" / "zeebe_http"
TOKEN = "a-token-of-the-tests"


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return found


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """1 and 2 are completed, 3 has a partition without a backup, 4 one that failed."""
    store = BackupStore(str(tmp_path))
    for id in (1, 2):
        completed(store, id)
    for id in (3, 4):
        reserved(store, id)
        copied(store, CopyId(id, 1, 0))
    copied(store, CopyId(3, 2, 0))
    copied(store, CopyId(4, 3, 0))
    store.copies.begin(CopyId(4, 2, 0), POSITION, "1.0")
    store.copies.fail(CopyId(4, 2, 0), "simulated: disk full")
    return store


@pytest.fixture
def logs() -> Logs:
    return Logs()


def api(store: BackupStore, logs: Logs, *, writable: bool = True) -> CheckpointApi:
    taking = Coordinator(store, logs, start_seconds=0.01)
    return CheckpointApi(taking, TOKEN, writable=writable, version="1.0")


@pytest.fixture
async def client(store: BackupStore, logs: Logs) -> AsyncIterator[TestClient[Any, Any]]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    server = TestServer(api(store, logs).application())
    async with TestClient(server, headers=headers) as client:
        yield client


@pytest.fixture
async def reader(store: BackupStore, logs: Logs) -> AsyncIterator[TestClient[Any, Any]]:
    """A client without a token of a server that changes nothing."""
    server = TestServer(api(store, logs, writable=False).application())
    async with TestClient(server) as client:
        yield client
