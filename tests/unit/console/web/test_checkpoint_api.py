"""What the API answers beyond the kept requests: tokens, bad ids, errors, figures."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from breakglass.console.web.checkpoint_api import CheckpointApi
from breakglass.services.checkpoint.background_errors import Doing, ErrorKind, Troubles
from breakglass.services.checkpoint.backup_info import backup_info
from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.metrics import exposition
from breakglass.services.checkpoint.openapi import BACKUPS, description
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.errors import (
    BreakglassError,
    ConnectFailed,
    NotAuthorized,
    OutcomeUnknown,
    StorageError,
    TimedOut,
    UsageError,
)
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


@pytest.fixture
async def client(store: BackupStore, logs: Logs) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    server = TestServer(api(store, logs).application())
    async with TestClient(server, headers=headers) as client:
        yield client


@pytest.fixture
async def reader(store: BackupStore, logs: Logs) -> AsyncIterator[Client]:
    """A client without a token of a server that changes nothing."""
    server = TestServer(api(store, logs, writable=False).application())
    async with TestClient(server) as client:
        yield client


async def test_a_checkpoint_is_taken_watched_and_deleted(client: Client, logs: Logs) -> None:
    async with client.post(BACKUPS, json={"backupId": 5}) as response:
        assert response.status == 202
    assert [log[-1] for log in logs.records.values()] == [5, 5, 5]
    async with client.get(f"{BACKUPS}/5") as response:
        found = await response.json()
    assert (found["state"], found["details"][0]["state"]) == ("IN_PROGRESS", "IN_PROGRESS")
    assert "checkpointPosition" not in found["details"][0]
    for _ in range(2):
        async with client.delete(f"{BACKUPS}/5") as response:
            assert (response.status, await response.read()) == (204, b"")
    async with client.get(f"{BACKUPS}/5") as response:
        assert response.status == 404


async def test_the_same_request_sent_again_is_accepted_by_its_key(client: Client) -> None:
    for key, status in (("mine", 202), ("mine", 202), ("another", 409), (None, 409)):
        headers = {} if key is None else {"Idempotency-Key": key}
        async with client.post(BACKUPS, json={"backupId": 5}, headers=headers) as response:
            assert response.status == status


NO_IDS = (
    *(b"", b"{", b"[]", b"5", b"{}", b"[" * 2000, b"\xff"),
    *(
        b'{"backupId": %s}' % id
        for id in (b"null", b"-1", b"1.5", b"true", b'"five"', b"%d" % 2**63)
    ),
)


async def test_what_is_no_id_no_key_and_no_known_charset_is_refused(client: Client) -> None:
    for body in NO_IDS:
        async with client.post(BACKUPS, data=body, headers=JSON) as response:
            assert response.status == 400, body
            assert await response.json() == golden("take_invalid")["body"]
    for length in (0, 201):
        headers = {"Idempotency-Key": "k" * length}
        async with client.post(BACKUPS, json={"backupId": 5}, headers=headers) as response:
            assert response.status == 400, length
    for charset in ("none-such", "utf-9"):
        headers = {"Content-Type": f"application/json; charset={charset}"}
        async with client.post(BACKUPS, data=b'{"backupId": 5}', headers=headers) as response:
            assert response.status == 415, charset


async def test_digits_in_a_string_are_an_id(client: Client) -> None:
    async with client.post(BACKUPS, json={"backupId": "5"}) as response:
        assert response.status == 202


async def test_a_form_of_another_site_takes_nothing(client: Client, store: BackupStore) -> None:
    async with client.post(BACKUPS, data={"backupId": "5"}) as response:
        assert response.status == 415
    assert store.ids() == [1, 2, 3, 4]


async def test_a_path_without_an_id_is_refused_and_what_there_is_not_is_answered_in_json(
    client: Client,
) -> None:
    for id in ("x", "-1", "1.5", f"{2**63}", "1" * 30, "٣"):
        for method in ("GET", "DELETE"):
            async with client.request(method, f"{BACKUPS}/{id}") as response:
                assert response.status == 400, (method, id)
    async with client.get("/actuator/other") as response:
        assert (response.status, list(await response.json())) == (404, ["message"])


async def test_nothing_is_answered_without_the_token(reader: Client) -> None:
    wrong = (None, "", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü")
    for path in (BACKUPS, f"{BACKUPS}/1", "/metrics", "/openapi.json", "/other"):
        for header in wrong:
            headers = {} if header is None else {"Authorization": header}
            async with reader.get(path, headers=headers) as response:
                assert response.status == 401, (path, header)
                assert response.headers["WWW-Authenticate"] == "Bearer"


async def test_a_server_that_was_not_told_to_write_changes_nothing(
    reader: Client, store: BackupStore, logs: Logs
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with reader.post(BACKUPS, json={"backupId": 5}, headers=headers) as response:
        assert response.status == 403
    async with reader.delete(f"{BACKUPS}/1", headers=headers) as response:
        assert response.status == 403
    assert [checkpoint.id for checkpoint in store.all()] == [4, 3, 2, 1]
    assert logs.asked == []


async def test_partitions_that_do_not_start_in_time_are_a_504(client: Client, logs: Logs) -> None:
    logs.silent = {1, 2, 3}
    async with client.post(BACKUPS, json={"backupId": 5}) as response:
        assert response.status == 504
    async with client.get(f"{BACKUPS}/5") as response:
        found = await response.json()
    assert found["state"] == "FAILED"
    assert "3 of 3 partitions" in found["failureReason"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("a"), 400),
        (ConnectFailed("a"), 502),
        (NotAuthorized("a"), 502),
        (TimedOut("a"), 504),
        (OutcomeUnknown("a"), 504),
        (StorageError("a"), 500),
    ],
)
async def test_errors_have_zeebes_codes(
    store: BackupStore, error: BreakglassError, status: int
) -> None:
    class Broken(Logs):
        def latest_id(self) -> int:
            raise error

    api = CheckpointApi(Coordinator(store, Broken()), TOKEN, writable=True)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with TestClient(TestServer(api.application()), headers=headers) as client:
        response = await client.post(BACKUPS, json={"backupId": 5})
        assert (response.status, await response.json()) == (status, {"message": "a"})


async def test_the_level_is_in_every_version_and_in_the_headers(
    client: Client, store: BackupStore
) -> None:
    assert store.reserve(replace(take(5), level=Level.VECTOR)) is None
    copied(store, CopyId(5, 1, 0))
    async with client.get(BACKUPS) as response:
        listed = await response.json()
    versions = {one["backupId"]: one["details"][0]["brokerVersion"] for one in listed}
    assert (versions[5], versions[4]) == ("1.0+vector", "1.0+coordinated")
    async with client.get(f"{BACKUPS}/5") as response:
        assert (await response.json())["details"][0]["brokerVersion"] == "1.0+vector"
        assert response.headers["Breakglass-Level"] == "vector"
        assert "unverifiable" in response.headers["Breakglass-Promise"]


def test_a_release_with_build_metadata_gets_the_level_behind_it(store: BackupStore) -> None:
    store.copies.begin(CopyId(3, 3, 0), 1, "1.0+abc")
    found = store.read(3)
    assert found is not None
    details = backup_info(found)["details"]
    assert isinstance(details, list)
    assert details[2]["brokerVersion"] == "1.0+abc.coordinated"


# --- the description


async def test_another_method_is_answered_as_described_and_in_json(client: Client) -> None:
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


async def test_a_body_that_is_too_large_is_answered_as_described(client: Client) -> None:
    async with client.post(BACKUPS, data=b" " * 5000, headers=JSON) as response:
        assert str(response.status) in description("1.0")["paths"][BACKUPS]["post"]["responses"]


async def test_the_description_is_served(client: Client) -> None:
    async with client.get("/openapi.json") as response:
        assert await response.json() == json.loads(json.dumps(description("1.0")))


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.json")))
def test_the_description_has_every_kept_answer(name: str) -> None:
    kept = golden(name)
    method, path, *_ = kept["request"].split(" ")
    described = description("1.0")["paths"][re.sub(r"/\d+$", "/{backupId}", path)]
    response = described[method.lower()]["responses"][str(kept["status"])]
    assert ("content" in response) == ("body" in kept)


# --- figures


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


async def test_a_vector_does_not_hide_how_old_the_last_coordinated_one_is(
    client: Client, store: BackupStore
) -> None:
    assert store.reserve(replace(take(5), level=Level.VECTOR)) is None
    for subject in SUBJECTS:
        copied(store, CopyId(5, subject.number, 0))
    found = await figures(client)
    assert found[f"breakglass_checkpoint_completed_id{{{COORDINATED}}}"] == 2
    assert found['breakglass_checkpoint_completed_id{level="vector"}'] == 5
    assert found['breakglass_checkpoints{level="vector",state="COMPLETED"}'] == 1


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


async def test_requests_are_counted_by_operation(client: Client) -> None:
    for path in (f"{BACKUPS}/7", f"{BACKUPS}/8", "/nowhere"):
        async with client.get(path):
            pass
    found = await figures(client)
    assert found['breakglass_checkpoint_requests_total{operation="status",status="404"}'] == 2
    assert found['breakglass_checkpoint_requests_total{operation="other",status="404"}'] == 1


async def test_an_empty_store_has_figures_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = BackupStore(str(tmp_path_factory.mktemp("empty")))
    api = CheckpointApi(Coordinator(store, Logs()), TOKEN, writable=False)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with TestClient(TestServer(api.application()), headers=headers) as client:
        found = await figures(client)
        async with client.get(BACKUPS) as response:
            assert await response.json() == []
    assert not any("completed_id" in text for text in found)
    assert store.read(1) is None
    counted = sum("breakglass_checkpoints{" in text for text in found)
    assert counted == len(Status) * len(Level)


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


async def replayed(client: Client, request: str) -> tuple[int, Any]:
    method, path, *body = request.split(" ", 2)
    content = json.loads(body[0]) if body else None
    async with client.request(method, path, json=content) as response:
        text = await response.text()
        return response.status, json.loads(text) if text else None


@pytest.mark.parametrize("name", NAMES)
async def test_the_answer_is_that_of_zeebe(name: str, client: Client) -> None:
    kept = golden(name)
    status, body = await replayed(client, kept["request"])
    assert status == kept["status"]
    assert shape(body) == shape(kept.get("body"))


@pytest.mark.parametrize(
    "name", ["take_202", "take_409", "take_invalid", "status_404", "delete_204"]
)
async def test_messages_are_zeebes_word_for_word(name: str, client: Client) -> None:
    kept = golden(name)
    _, body = await replayed(client, kept["request"])
    assert body == kept.get("body")


async def test_reasons_are_zeebes_word_for_word(client: Client) -> None:
    kept = golden("list")
    _, body = await replayed(client, kept["request"])
    assert body[0]["failureReason"] == kept["body"][0]["failureReason"]
    assert body[0]["details"][1]["failureReason"] == kept["body"][0]["details"][1]["failureReason"]
