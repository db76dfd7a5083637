"""What the API answers beyond the kept requests: tokens, bad ids, errors, figures."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from breakglass.console.web.checkpoint_server import CheckpointApi
from breakglass.services import patience
from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.metrics import exposition
from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.serving import Doing, ErrorKind, Troubles
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.zeebe_api import BACKUPS, description
from breakglass.services.errors import (
    ConnectFailed,
    NotAuthorized,
    OutcomeUnknown,
    StorageError,
    TimedOut,
    UsageError,
)
from tests.kit.deadlines import MOMENT
from tests.unit.checkpoint.store.stores import POSITION, SUBJECTS, completed, copied, reserved, take
from tests.unit.checkpoint.topics import Logs

Client = TestClient[Any, Any]
JSON = {"Content-Type": "application/json"}
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
    store.start(3, {})
    copied(store, CopyId(4, 3, 0))
    store.copies.begin(CopyId(4, 2, 0), POSITION, "1.0")
    store.copies.fail(CopyId(4, 2, 0), "simulated: disk full")
    return store


@pytest.fixture
def logs() -> Logs:
    return Logs()


def api(store: BackupStore, logs: Logs, *, writable: bool = True) -> CheckpointApi:
    taking = Coordinator(store, logs, start_seconds=0.0, wait=lambda _: None)
    return CheckpointApi(taking, TOKEN, writable=writable, version="1.0")


@asynccontextmanager
async def serving(api: CheckpointApi, token: str = f"Bearer {TOKEN}") -> AsyncIterator[Client]:
    headers = {"Authorization": token} if token else {}
    async with TestClient(TestServer(api.application()), headers=headers) as client:
        yield client


@pytest.fixture
async def client(store: BackupStore, logs: Logs) -> AsyncIterator[Client]:
    async with serving(api(store, logs)) as client:
        yield client


async def status(client: Client, method: str, path: str, **how: Any) -> int:
    async with client.request(method, path, **how) as response:
        return response.status


async def body(client: Client, path: str) -> Any:
    async with client.get(path) as response:
        return await response.json()


async def test_a_checkpoint_is_taken_watched_and_deleted(client: Client, logs: Logs) -> None:
    assert await status(client, "POST", BACKUPS, json={"backupId": "5"}) == 202
    assert [log[-1] for log in logs.records.values()] == [5, 5, 5]
    found = await body(client, f"{BACKUPS}/5")
    assert (found["state"], found["details"][0]["state"]) == ("IN_PROGRESS", "IN_PROGRESS")
    assert "checkpointPosition" not in found["details"][0]
    for _ in range(2):
        async with client.delete(f"{BACKUPS}/5") as response:
            assert (response.status, await response.read()) == (204, b"")
    assert await status(client, "GET", f"{BACKUPS}/5") == 404


async def test_the_same_request_sent_again_is_accepted_by_its_key(client: Client) -> None:
    for key, code in (("mine", 202), ("mine", 202), ("another", 409), (None, 409)):
        headers = {} if key is None else {"Idempotency-Key": key}
        assert await status(client, "POST", BACKUPS, json={"backupId": 5}, headers=headers) == code


NO_IDS = (
    *(b"", b"{", b"[]", b"5", b"{}", b"[" * 2000, b"\xff"),
    *(
        b'{"backupId": %s}' % id
        for id in (b"null", b"-1", b"1.5", b"true", b'"five"', b"%d" % 2**63)
    ),
)


async def test_what_is_no_id_no_key_no_known_charset_and_no_json_is_refused(
    client: Client, store: BackupStore
) -> None:
    for content in NO_IDS:
        async with client.post(BACKUPS, data=content, headers=JSON) as response:
            assert response.status == 400, content
            assert await response.json() == golden("take_invalid")["body"]
    for length in (0, 201):
        key = {"Idempotency-Key": "k" * length}
        assert await status(client, "POST", BACKUPS, json={"backupId": 5}, headers=key) == 400
    for kind in ("application/json; charset=none-such", "application/json; charset=utf-9"):
        how = {"data": b'{"backupId": 5}', "headers": {"Content-Type": kind}}
        assert await status(client, "POST", BACKUPS, **how) == 415, kind
    form_of_another_site = {"backupId": "5"}
    assert await status(client, "POST", BACKUPS, data=form_of_another_site) == 415
    too_large = await status(client, "POST", BACKUPS, data=b" " * 5000, headers=JSON)
    assert str(too_large) in description("1.0")["paths"][BACKUPS]["post"]["responses"]
    assert store.ids() == [1, 2, 3, 4]


async def test_a_body_that_never_arrives_is_not_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is stopped answers what is under way first."""
    monkeypatch.setattr(patience, "REQUEST", MOMENT)
    promised = {**JSON, "Content-Length": "20"}
    head = [f"{key}: {value}" for key, value in promised.items()]
    lines = [f"POST {BACKUPS} HTTP/1.1", "Host: a", f"Authorization: Bearer {TOKEN}", *head]
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write("\r\n".join([*lines, "", "{"]).encode())
    assert b" 408 " in await reader.readline()
    writer.close()


async def test_nothing_is_answered_without_the_token_and_changed_without_write(
    store: BackupStore, logs: Logs
) -> None:
    wrong = (None, "", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü")
    async with serving(api(store, logs, writable=False), "") as reader:
        for path in (BACKUPS, f"{BACKUPS}/1", "/metrics", "/openapi.json", "/other"):
            for header in wrong:
                headers = {} if header is None else {"Authorization": header}
                async with reader.get(path, headers=headers) as response:
                    assert response.status == 401, (path, header)
                    assert response.headers["WWW-Authenticate"] == "Bearer"
    async with serving(api(store, logs, writable=False)) as reader:
        assert await status(reader, "POST", BACKUPS, json={"backupId": 5}) == 403
        assert await status(reader, "DELETE", f"{BACKUPS}/1") == 403
    assert [checkpoint.id for checkpoint in store.all()] == [4, 3, 2, 1]
    assert logs.asked == []


async def test_partitions_that_do_not_start_in_time_are_a_504(client: Client, logs: Logs) -> None:
    logs.silent = {1, 2, 3}
    assert await status(client, "POST", BACKUPS, json={"backupId": 5}) == 504
    found = await body(client, f"{BACKUPS}/5")
    assert found["state"] == "FAILED"
    assert "3 of 3 partitions" in found["failureReason"]


async def test_errors_have_zeebes_codes(store: BackupStore) -> None:
    class Broken(Logs):
        def latest_id(self) -> int:
            raise error

    codes = {UsageError: 400, ConnectFailed: 502, NotAuthorized: 502, TimedOut: 504}
    codes |= {OutcomeUnknown: 504, StorageError: 503}
    async with serving(api(store, Broken())) as client:
        for kind, code in codes.items():
            error = kind("a")
            async with client.post(BACKUPS, json={"backupId": 5}) as response:
                assert (response.status, await response.json()) == (code, {"message": "a"}), kind


async def test_the_level_is_in_every_version_and_figure_and_in_the_headers(
    client: Client, store: BackupStore
) -> None:
    assert store.reserve(replace(take(5), level=Level.VECTOR)) is None
    for subject in SUBJECTS:
        copied(store, CopyId(5, subject.number, 0))
    store.copies.begin(CopyId(3, 3, 0), 1, "1.0+abc")
    listed = await body(client, BACKUPS)
    versions = {one["backupId"]: one["details"][0]["brokerVersion"] for one in listed}
    assert (versions[5], versions[4]) == ("1.0+vector", "1.0+coordinated")
    built = await body(client, f"{BACKUPS}/3")
    assert built["details"][2]["brokerVersion"] == "1.0+abc.coordinated"
    async with client.get(f"{BACKUPS}/5") as response:
        assert response.headers["Breakglass-Level"] == "vector"
        assert "unverifiable" in response.headers["Breakglass-Promise"]
    found = await figures(client)
    assert found[f"breakglass_checkpoint_completed_id{{{COORDINATED}}}"] == 2
    assert found['breakglass_checkpoint_completed_id{level="vector"}'] == 5
    assert found['breakglass_checkpoints{level="vector",state="COMPLETED"}'] == 1


async def test_the_description_is_served_and_other_methods_are_answered_by_it(
    client: Client,
) -> None:
    assert await body(client, "/openapi.json") == json.loads(json.dumps(description("1.0")))
    for method, path, template in (
        ("PUT", BACKUPS, BACKUPS),
        ("DELETE", BACKUPS, BACKUPS),
        ("POST", f"{BACKUPS}/5", f"{BACKUPS}/{{backupId}}"),
        ("POST", "/metrics", "/metrics"),
    ):
        described = description("1.0")["paths"][template]
        async with client.request(method, path) as response:
            assert (response.status, list(await response.json())) == (405, ["message"])
            allowed = set(response.headers["Allow"].split(", "))
            assert allowed - {"HEAD"} == {one.upper() for one in described}
        assert all("405" in one["responses"] for one in described.values())


async def figures(client: Client) -> dict[str, float]:
    async with client.get("/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = (await response.text()).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    families = list(text_string_to_metric_families("\n".join(lines)))
    assert sum(len(family.samples) for family in families) == len(samples)
    return {sample.rpartition(" ")[0]: float(sample.rpartition(" ")[2]) for sample in samples}


async def test_figures_tell_states_age_and_size(client: Client) -> None:
    found = await figures(client)
    states = {
        text: found[f'breakglass_checkpoints{{{COORDINATED},state="{text}"}}'] for text in SEEN
    }
    assert states == {"COMPLETED": 2, "FAILED": 1, "INCOMPLETE": 1, "IN_PROGRESS": 0}
    assert found[f"breakglass_checkpoint_newest_id{{{COORDINATED}}}"] == 4
    newest = f'breakglass_checkpoint_newest_partitions{{{COORDINATED},state="FAILED"}}'
    assert found[newest] == 1
    completed = "breakglass_checkpoint_completed"
    assert found[f"{completed}_id{{{COORDINATED}}}"] == 2
    assert found[f"{completed}_timestamp_seconds{{{COORDINATED}}}"] > 1_600_000_000
    assert found[f"{completed}_bytes{{{COORDINATED}}}"] > 0


def test_errors_in_the_background_are_counted_from_the_start() -> None:
    troubles = Troubles(lambda _: None)
    troubles.met(Doing.SCHEDULE, "schedule", TypeError("a"))
    lines = exposition((), {}, troubles.counts()).decode().splitlines()
    counted = [line for line in lines if line.startswith("breakglass_checkpoint_errors_total{")]
    assert len(counted) == len(Doing) * len(ErrorKind)
    name = 'breakglass_checkpoint_errors_total{doing="schedule",kind="unexpected"}'
    assert f"{name} 1.0" in counted
    assert sum(text.endswith(" 0.0") for text in counted) == len(counted) - 1


COORDINATED = 'level="coordinated"'
SEEN = ("COMPLETED", "FAILED", "INCOMPLETE", "IN_PROGRESS")


NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))
WORDS = ("state", "backupId", "partitionId")
"""Keys whose values are equal too."""


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: one if key in WORDS else shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return type(value).__name__


def reasons(backup: Any) -> list[str]:
    return [backup["failureReason"], backup["details"][1]["failureReason"]]


async def replayed(client: Client, request: str) -> tuple[int, Any]:
    method, path, *body = request.split(" ", 2)
    content = json.loads(body[0]) if body else None
    async with client.request(method, path, json=content) as response:
        text = await response.text()
        return response.status, json.loads(text) if text else None


@pytest.mark.parametrize("name", NAMES)
async def test_the_answer_is_that_of_zeebe_and_is_described(name: str, client: Client) -> None:
    kept = golden(name)
    code, answer = await replayed(client, kept["request"])
    assert code == kept["status"]
    assert shape(answer) == shape(kept.get("body"))
    if name in ("take_202", "take_409", "take_invalid", "status_404", "delete_204"):
        assert answer == kept.get("body")
    if name == "list":
        assert reasons(answer[0]) == reasons(kept["body"][0])
    method, path, *_ = kept["request"].split(" ")
    described = description("1.0")["paths"][re.sub(r"/\d+$", "/{backupId}", path)]
    response = described[method.lower()]["responses"][str(kept["status"])]
    assert ("content" in response) == ("body" in kept)
