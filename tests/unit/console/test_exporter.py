"""The exporter: a file that is whole at every moment, and a port that asks for a token."""

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from breakglass.console.exporter import replace_file
from breakglass.console.output import LogFormat, log_as, say
from breakglass.console.web.listener import PATH, metrics_application
from breakglass.services.errors import StorageError
from tests.kit.program import breakglass
from tests.unit.console.fakes import NOBODY

SECRET = "a-token-of-the-tests"
ANSWER = b"breakglass_offline_partitions 3.0\n"


@pytest.fixture
async def client() -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(metrics_application(lambda: ANSWER, SECRET))) as client:
        yield client


@pytest.mark.parametrize(
    "given", [None, "", SECRET, f"Basic {SECRET}", "Bearer another-token-of-tests", "Bearer \udcff"]
)
async def test_without_the_token_there_is_nothing(
    client: TestClient[Any, Any], given: str | None
) -> None:
    headers = {} if given is None else {"Authorization": given}
    for path in (PATH, "/", "/elsewhere"):
        async with client.get(path, headers=headers) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert ANSWER not in await response.read()


def test_a_file_is_replaced_at_once_and_readable_for_node_exporter(tmp_path: Path) -> None:
    path = tmp_path / "breakglass.prom"
    path.write_text("old")
    with path.open("rb") as reader:
        replace_file(path, ANSWER)
        assert reader.read() == b"old", "who reads the old file reads all of it"
    assert path.read_bytes() == ANSWER
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_that_cannot_be_written_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "breakglass.prom"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError):
        replace_file(path, ANSWER)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [path.name]


def test_what_does_not_answer_is_down_in_the_file_of_one_look_and_ends_with_1(
    tmp_path: Path,
) -> None:
    path, none = tmp_path / "breakglass.prom", tmp_path / "none"
    words = ("serve", "metrics", *NOBODY, "--out", path, "--log-format", "json", "--store", none)
    ended = breakglass(*words)
    assert (ended.code, "--once" in ended.err) == (2, True)
    ended = breakglass(*words, "--once")
    assert (ended.code, ended.out) == (1, "")
    assert 'breakglass_source_up{place="",source="cluster"} 0.0' in path.read_text()
    assert f'source_up{{place="{none}",source="backups"}} 0.0' in path.read_text()
    assert "breakglass_offline_partitions" not in path.read_text()
    messages = [json.loads(line)["message"] for line in ended.said]
    assert sum(message.startswith("cluster: ") for message in messages) == 1


def test_json_lines_have_a_moment_and_nothing_that_acts(capsys: pytest.CaptureFixture[str]) -> None:
    log_as(LogFormat.JSON)
    try:
        say("orders\x1b[2J\u202e is behind")
    finally:
        log_as(LogFormat.TEXT)
    line = capsys.readouterr().err
    assert (line.isascii(), line.count("\n")) == (True, 1)
    document = json.loads(line)
    assert document["message"] == "orders\x1b[2J\u202e is behind"
    assert document["at_ms"] > 1_700_000_000_000
    assert document["at"].endswith("Z")
