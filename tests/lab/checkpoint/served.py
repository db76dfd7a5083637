"""Asks a server of checkpoints, as whoever has its token."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from tests.kit.waiting import DEADLINE_SECONDS

TOKEN = "a-token-of-the-tests"
BEGINS = "Serving http://"
"""How the line begins that says where it listens."""


@contextmanager
def sent(method: str, address: str, body: dict[str, int] | None = None) -> Iterator[HTTPConnection]:
    """A request that waits for its answer."""
    url = urlsplit(address)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    with closing(HTTPConnection(url.netloc, timeout=DEADLINE_SECONDS)) as connection:
        connection.request(method, url.path, None if body is None else json.dumps(body), headers)
        yield connection


def asked(method: str, address: str, body: dict[str, int] | None = None) -> tuple[int, Any]:
    """The answer's status and document."""
    with sent(method, address, body) as connection:
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else None


def state(address: str, id: int) -> str:
    """That of a checkpoint, which has not failed."""
    status, body = asked("GET", f"{address}/{id}")
    assert status == 200
    assert isinstance(body, dict)
    assert body["state"] != "FAILED", body
    return str(body["state"])
