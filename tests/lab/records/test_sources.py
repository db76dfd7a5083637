"""Each kind of source compared with each other on real brokers, with transactions among records."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import NumberedPartition
from breakglass.services.divergence.address import SourceKind, parse_address
from breakglass.services.divergence.opening import Opener
from breakglass.services.divergence.source import Content, Keep, Reading, RecordEntry
from breakglass.services.kafka.replicas.replica_records import ReplicaRecords
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic, wait_in_sync
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import Record, decode_batch
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.kit.program import breakglass
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.recover.session import reading
from tests.unit.checkpoint.store.stores import manifest, take

TOPIC = "many-sources"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCHES = 3 * len(CODECS)
"""Plain, committed and aborted in turn."""
A_BATCH = 25
COMMITTED, MARKERS = 2 * len(CODECS) * A_BATCH, 2 * len(CODECS)
WHOLE = BATCHES * A_BATCH + MARKERS
SECONDS = DEADLINE_SECONDS


@dataclass(frozen=True)
class Held:
    """One partition, and everywhere it can be read from."""

    cluster: Cluster
    folder: Path
    committed: tuple[Record, ...]

    @property
    def addresses(self) -> dict[str, str]:
        broker = self.cluster.broker(1).partition_folder(TOPIC, 0)
        assert broker is not None
        return {
            "backup": f"backup:{self.folder}/whole/{TOPIC}/0",
            "topic": f"topic:{TOPIC}/0",
            "replica": f"replica:2/{TOPIC}/0",
            "log": f"log:{broker}",
            "rescue": f"rescue:{self.folder}/b2/{TOPIC}/0",
            "checkpoint": f"checkpoint:{self.folder}/checkpoints/7/{TOPIC}/0",
            "metastore": f"metastore:{self.folder}/commands",
        }

    def diff(self, left: str, right: str) -> tuple[int, dict[str, object]]:
        servers = self.cluster.bootstrap_servers
        ended = breakglass("diff", left, right, "--json", "--bootstrap-server", servers)
        return ended.code, json.loads(ended.out)


@pytest.fixture(scope="module")
def held(three_brokers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Held:
    """Plain records, committed and aborted transactions in turn; backed up as they are read."""
    create_topic(three_brokers, TOPIC, [(1, 2, 3)])
    _produce(three_brokers)
    wait_in_sync(three_brokers, TOPIC)
    folder = tmp_path_factory.mktemp("sources")
    committed = _committed(three_brokers)
    assert len(committed) == COMMITTED
    _back_up(folder / "whole", committed)
    # Everything that broker 2 holds, with the state of each batch, as a rescue writes it.
    with (
        reading(three_brokers) as client,
        TopicWriter(folder / "b2", TopicIdentity(TOPIC)) as writer,
    ):
        client.describe(Deadline.after(SECONDS))
        partition = writer.partition(0)
        log = ReplicaRecords(client.sender, 2, TopicPartition(TOPIC, 0))
        for chunk in log.chunks(0, WHOLE):
            for header in chunk.headers:
                partition.append_batch(decode_batch(chunk.data, header, log.where))
        writer.commit()
    # Checkpoint 7, completed by node 1.
    root = folder / "checkpoints"
    store, id = BackupStore(str(root)), CopyId(7, 1, 1)
    subjects = (NumberedPartition(1, TOPIC, 0),)
    assert store.reserve(take(7, subjects=subjects)) is None
    store.copies.begin(id, 10_000)
    _back_up(root / "contents/7/1/1/segments", committed)
    store.copies.complete(id, manifest(position=10_000))
    lines = [b"%b:%b\n" % (record.key or b"", record.value or b"") for record in committed]
    (folder / "commands").write_bytes(b"".join(lines))
    return Held(three_brokers, folder, committed)


def _produce(cluster: Cluster) -> None:
    """The plain ones in every compression in turn."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    plain = [Producer({**servers, "compression.type": codec}) for codec in CODECS]
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "many-sources"}
    transactional = Producer(settings)
    transactional.init_transactions(SECONDS)
    for number in range(BATCHES):
        producer = plain[number // 3] if number % 3 == 0 else transactional
        if producer is transactional:
            producer.begin_transaction()
        for one in range(A_BATCH):
            headers: list[tuple[str, str | bytes | None]] = [("h", b"1"), ("h", None)]
            producer.produce(TOPIC, b"%d-%d" % (number, one), b"k%d" % one, 0, headers=headers)
        producer.flush(SECONDS)
        if number % 3 == 1:
            transactional.commit_transaction(SECONDS)
        elif number % 3 == 2:
            transactional.abort_transaction(SECONDS)


def _committed(cluster: Cluster) -> tuple[Record, ...]:
    """What the product reads as committed, once every marker is written."""
    whole = Reading(keep=Keep(2**31, 2**31))
    with reading(cluster) as client:
        deadline = Deadline.after(SECONDS)
        client.describe(deadline)
        while True:
            source = Opener(lambda: client).open(parse_address(f"topic:{TOPIC}/0"))
            if source.extent.end == WHOLE:
                break
            assert not deadline.passed, f"it ends at {source.extent.end}"
        entries = list(source.read(0, source.extent.end, whole))
    return tuple(_record(entry) for entry in entries if isinstance(entry, RecordEntry))


def _record(entry: RecordEntry) -> Record:
    headers = tuple((key.kept, _bytes(value)) for key, value in entry.headers.kept)
    key, value = _bytes(entry.key), _bytes(entry.value)
    return Record(entry.offset, entry.timestamp_type, entry.timestamp, key, value, headers)


def _bytes(content: Content | None) -> bytes | None:
    return None if content is None else content.kept


def _back_up(root: Path, records: tuple[Record, ...]) -> None:
    with TopicWriter(root, TopicIdentity(TOPIC)) as writer:
        partition = writer.partition(0)
        for record in records:
            partition.append(record)
        writer.commit()


KINDS = tuple(map(str, SourceKind))
WITH_OFFSETS = tuple(kind for kind in KINDS if kind != SourceKind.METASTORE)


@pytest.mark.parametrize("right", ["topic", "rescue", "metastore"])
@pytest.mark.parametrize("left", KINDS)
def test_sources_of_one_partition_are_equal(held: Held, left: str, right: str) -> None:
    code, told = held.diff(held.addresses[left], held.addresses[right])
    logs = {left, right} <= {"log", "replica", "rescue"}
    count = WHOLE if left == right or "rescue" not in (left, right) else WHOLE - MARKERS
    count = count if logs else COMMITTED
    totals = {"equal": count, "left": 0, "right": 0, "different": 0, "unread": 0}
    assert (code, told["totals"], told["equal"]) == (0, totals, True)


@pytest.mark.parametrize("kind", WITH_OFFSETS)
def test_exactly_what_was_changed_is_found_in_every_kind(held: Held, kind: str) -> None:
    dropped, changed = held.committed[7], held.committed[60]
    kept = [record for record in held.committed if record is not dropped]
    spoilt = [record._replace(value=b"other") if record is changed else record for record in kept]
    root = held.folder / f"changed-{kind}"
    _back_up(root, tuple(spoilt))
    code, told = held.diff(held.addresses[kind], f"backup:{root}/{TOPIC}/0")
    assert code == 1
    hunks = told["hunks"]
    assert isinstance(hunks, list)
    assert [(hunk["kind"], hunk["from"], hunk["fields"]) for hunk in hunks] == [
        ("left", dropped.offset, []),
        ("different", changed.offset, ["value"]),
    ]


@pytest.mark.parametrize("kind", ["topic", "metastore"])
def test_exactly_what_was_changed_is_found_in_a_metastore(held: Held, kind: str) -> None:
    lines = [b"%b:%b\n" % (record.key or b"", record.value or b"") for record in held.committed]
    lines[60] = b"k:other\n"
    changed = held.folder / f"commands-changed-{kind}"
    changed.write_bytes(b"".join(lines[:-1]))
    code, told = held.diff(held.addresses[kind], f"metastore:{changed}")
    hunks = told["hunks"]
    assert isinstance(hunks, list)
    assert [
        (hunk["kind"], hunk["from"], hunk["fields"]) for hunk in hunks if hunk["kind"] != "equal"
    ] == [("different", 61, ["key", "value"]), ("left", COMMITTED, [])]
    assert code == 1


def test_what_epochs_prove_of_replicas_is_not_read_unless_asked_for(held: Held) -> None:
    servers = ("--bootstrap-server", held.cluster.bootstrap_servers)
    sides = (held.addresses["replica"], f"replica:3/{TOPIC}/0")
    ended = breakglass("diff", *sides, *servers)
    assert "the same by leader epochs; --read-all reads them" in ended.err
    read = breakglass("diff", *sides, "--read-all", *servers)
    assert (ended.code, read.code, "epochs" in read.err) == (0, 0, False)
    assert f"{WHOLE} equal" in ended.err
    assert f"{WHOLE} equal" in read.err


def test_a_partition_or_replica_that_is_not_there_is_named(held: Held) -> None:
    servers = ("--bootstrap-server", held.cluster.bootstrap_servers)
    gone = f"topic:{TOPIC}/9"
    ended = breakglass("diff", gone, gone, *servers)
    assert (ended.code, "no partition many-sources-9" in ended.err) == (2, True)
    away = f"replica:9/{TOPIC}/0"
    ended = breakglass("diff", away, f"topic:{TOPIC}/0", *servers)
    assert (ended.code, "b9 has no replica of it, only 1, 2, 3 have" in ended.err) == (2, True)
