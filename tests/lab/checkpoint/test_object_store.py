"""Checkpoints in a real S3 server, by the commands alone; two machines work in one store."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from breakglass.services import patience
from breakglass.services.checkpoint.protocol.values import CopyId, NotHigher, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.session import Spark
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs
from tests.kit.deadlines import MOMENT
from tests.kit.s3_server import S3, forged_after, forged_document
from tests.kit.waiting import wait_until
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import make, numbered, produce
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked, state
from tests.lab.checkpoint.taking import read
from tests.unit.checkpoint.store.stores import completed, take

PARTITIONS, RECORDS = 2, 3_000


@pytest.fixture
def in_s3(whole_broker: Cluster, s3: S3, topic: str, tmp_path: Path, user_folders: Path) -> Program:
    """Breakglass on this machine, with a topic to take checkpoints of."""
    make(whole_broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(whole_broker, topic, numbered(RECORDS), partition)
    address = f"{s3.url}/commands-{topic}"
    return Program(whole_broker.bootstrap_servers, tmp_path, user_folders / "state", address)


def scope(topic: str) -> tuple[str, ...]:
    return ("--topics", topic, "--level", "vector", "--control-topic", f"control-{topic}")


def test_checkpoints_in_s3_are_taken_listed_verified_restored_deleted_and_pruned(
    in_s3: Program, whole_broker: Cluster, spark: Spark, topic: str
) -> None:
    for id in (1, 2, 3):
        assert in_s3.whole("take", *scope(topic))["id"] == id
    listed = in_s3.whole("list", cluster=False)["checkpoints"]
    assert [(found["id"], found["state"]) for found in listed] == [
        (id, "completed") for id in (3, 2, 1)
    ]
    assert in_s3.whole("verify", "3", cluster=False)["damage"] == {}
    target = f"{topic}-back"
    spark.context()
    into = ("--map", f"{topic}={target}", "--control-topic", f"control-{topic}")
    assert in_s3.consented("restore", "3", *into)["whole"]
    for partition in range(PARTITIONS):
        back = contents(whole_broker, target, partition)
        assert back == contents(whole_broker, topic, partition)
    assert in_s3.consented("delete", "1", cluster=False)["deleted"] == [1]
    assert in_s3.consented("retain", "--keep", "1", cluster=False)["checkpoints"] == [2]
    listed = in_s3.whole("list", cluster=False)["checkpoints"]
    assert [found["id"] for found in listed] == [3]


@pytest.mark.parametrize("reads", range(1, 8))
def test_h16_a_manifest_of_records_that_changes_after_it_was_checked_is_not_restored(
    in_s3: Program, whole_broker: Cluster, s3: S3, topic: str, reads: int
) -> None:
    """The checkpoint's own documents stay: they name the true bytes of both files."""
    assert in_s3.whole("take", *scope(topic))["id"] == 1
    target = f"{topic}-back"
    into = ("1", "--map", f"{topic}={target}", "--control-topic", f"control-{topic}", "--write")
    asked_for = in_s3.here("restore", *into).consent
    where = min(
        f"{one.partition('/segments/')[0]}/segments/{topic}"
        for one in FsspecBlobs(f"{in_s3.url}/contents").names()
        if f"/segments/{topic}/" in one
    )
    name, written = forged_document(FsspecBlobs(f"{in_s3.url}/contents/{where}"))
    document = f"{where}/{name}"
    with s3.failing(forge=forged_after(reads, reads, document, written)):
        ended = in_s3.here("restore", *into, "--consent", asked_for)
    assert ended.code in (0, 1, 3), ended.err
    for partition in range(PARTITIONS if ended.code == 0 else 0):
        back = contents(whole_broker, target, partition)
        assert back == contents(whole_broker, topic, partition)


def test_a_checkpoint_in_a_store_that_refuses_requests_is_taken_once_and_deleted(
    s3: S3, topic: str
) -> None:
    store = BackupStore(f"{s3.url}/checkpoints-{topic}")
    with s3.failing(every=20):
        completed(store, 1)
        assert read(store).status is Status.COMPLETED
        assert store.copies.damaged(CopyId(1, 1, 0)) is None
        assert s3.refused > 0
    with ThreadPoolExecutor(4) as pool:
        asked = pool.map(lambda number: store.reserve(take(2, f"request {number}")), range(4))
        answers = list(asked)
    assert answers.count(None) == 1
    assert set(answers) == {None, NotHigher(2, 2)}
    for _ in range(2):
        store.delete(1)
    assert store.read(1) is None
    assert store.ids() == [1, 2]


def test_h18_commands_and_a_server_say_that_the_store_is_silent(
    in_s3: Program, s3: S3, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = ("serve", *scope(topic), "--port", "0", "--write")
    with s3.failing(silent=True), in_s3.running(*serve, token=TOKEN) as server:
        address = server.wait_for(BEGINS).split()[1]
        for method, body in (("GET", None), ("POST", {"backupId": 1})):
            code, told = asked(method, address, body)
            assert (code, in_s3.url in told["message"]) == (503, True)
        for name in ("STORE", "STORE_BULK"):
            monkeypatch.setattr(patience, name, MOMENT)
        for command, *more in (("list",), ("verify", "1"), ("status", "1")):
            done = in_s3.here(command, *more, cluster=False)
            assert (done.code, "no answer within" in done.err) == (1, True), done.err
        s3.answers.set()
        s3.silent = False
        assert asked("POST", address, {"backupId": 2})[0] == 202
        wait_until(lambda: state(address, 2) == "COMPLETED", "the checkpoint after that")
