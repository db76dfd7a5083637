"""Every kept request of Zeebe's, sent to ours: status and keys equal, values by type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from tests.unit.checkpoint.api.conftest import GOLDEN, golden

NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))
WORDS = ("state", "backupId", "partitionId")
"""Keys whose values are equal too."""


def shape(value: Any) -> Any:
    """Keys and types; the values of `WORDS`."""
    if isinstance(value, dict):
        return {key: one if key in WORDS else shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return type(value).__name__


async def replayed(client: TestClient[Any, Any], request: str) -> tuple[int, Any]:
    method, path, *body = request.split(" ", 2)
    content = json.loads(body[0]) if body else None
    async with client.request(method, path, json=content) as response:
        text = await response.text()
        return response.status, json.loads(text) if text else None


def test_the_kept_requests_are_all_there() -> None:
    assert len(NAMES) == 8


@pytest.mark.parametrize("name", NAMES)
async def test_the_answer_is_that_of_zeebe(name: str, client: TestClient[Any, Any]) -> None:
    kept = golden(name)
    status, body = await replayed(client, kept["request"])
    assert status == kept["status"]
    assert shape(body) == shape(kept.get("body"))


@pytest.mark.parametrize(
    "name", ["take_202", "take_409", "take_invalid", "status_404", "delete_204"]
)
async def test_messages_are_zeebes_word_for_word(name: str, client: TestClient[Any, Any]) -> None:
    kept = golden(name)
    _, body = await replayed(client, kept["request"])
    assert body == kept.get("body")


async def test_reasons_are_zeebes_word_for_word(client: TestClient[Any, Any]) -> None:
    kept = golden("list")
    _, body = await replayed(client, kept["request"])
    assert body[0]["failureReason"] == kept["body"][0]["failureReason"]
    assert body[0]["details"][1]["failureReason"] == kept["body"][0]["details"][1]["failureReason"]
