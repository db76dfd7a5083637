"""What records mean: the state after them, what a stretch of them changed, in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.quorum.change_words import said_changes
from breakglass.services.quorum.image import MetadataImage, PartitionMetadata, replay
from breakglass.services.quorum.metadata_copy import MetadataCopy, read_copy
from breakglass.services.quorum.records import UnknownRecord, decode_record
from tests.kit.metadata_log import MetadataLog, Written, noop, partition, record, topic
from tests.unit.quorum.clusters import LEDGER, ORDERS, small_log


def read(log: MetadataLog, folder: Path, node: int = 101) -> MetadataCopy:
    return read_copy(log.save(folder / str(node), node))


def words(folder: Path, *records: Written, before: tuple[Written, ...] = ()) -> list[str]:
    """What *records* change, in words."""
    log = small_log()
    if before:
        log.add(*before)
    since = log.offset
    for one in records:
        log.add(one)
    image = replay([read(log, folder)], since)
    assert image.unknown == []
    return [f"{one.kind}: {one.what}" for one in said_changes(image.changes(since), image.values)]


def changed(number: int = 0, version: int = 2, **fields: Any) -> Written:
    return record("PartitionChangeRecord", version, partition_id=number, topic_id=ORDERS, **fields)


def setting(name: str, value: str | None, kind: int = 2, resource: str = "orders") -> Written:
    return record(
        "ConfigRecord", resource_type=kind, resource_name=resource, name=name, value=value
    )


def scram(user: str, salt: bytes) -> Written:
    return record(
        "UserScramCredentialRecord",
        name=user,
        mechanism=1,
        salt=salt,
        stored_key=b"stored",
        server_key=b"server",
        iterations=4096,
    )


def test_q02_topics_that_come_grow_and_go(tmp_path: Path) -> None:
    said = words(
        tmp_path,
        *topic("ledger", LEDGER, (1, 2)),
        partition(ORDERS, 2, (1, 2)),
        partition(ORDERS, 3, (1, 2)),
    )
    assert said == [
        "topics created: ledger (1 partition, id AAAAAAAAAAAAAAAAAAAACw)",
        "topics grown: orders from 2 to 4 partitions",
    ]
    gone = words(tmp_path, record("RemoveTopicRecord", topic_id=ORDERS))
    assert gone == [
        "topics deleted: orders (2 partitions, id AAAAAAAAAAAAAAAAAAAACg)",
        "settings: topic orders: retention.ms 1000 -> unset",
    ]


def test_q02_a_new_leader_raises_the_epoch_that_the_record_does_not_name(tmp_path: Path) -> None:
    said = words(tmp_path, changed(isr=[2, 3]), changed(leader=2), changed(isr=[2]))
    assert said == [
        "ISR and leader changes: orders-0: ISR 1,2,3 -> 2, leader 1 -> 2 (leader epoch 0 -> 1)"
    ]


def test_q02_what_is_undone_in_the_stretch_is_no_change(tmp_path: Path) -> None:
    assert words(tmp_path, setting("a", "1"), setting("a", None)) == []
    assert words(tmp_path, changed(isr=[1, 2]), changed(isr=[1, 2, 3])) == []
    old, new = scram("ann", b"old"), scram("ann", b"new")
    assert words(tmp_path, new, old, before=(old,)) == []


def test_q02_the_rest_in_words(tmp_path: Path) -> None:
    acl = record(
        "AccessControlEntryRecord",
        id=UUID(int=9),
        resource_type=2,
        resource_name="orders",
        pattern_type=4,
        principal="User:a",
        host="*",
        operation=4,
        permission_type=2,
    )
    quota = record(
        "ClientQuotaRecord",
        entity=[_Entity("client-id", None)],
        key="request_percentage",
        value=1.5,
        remove=False,
    )
    said = words(
        tmp_path,
        acl,
        quota,
        changed(replicas=[2, 3, 4], removing_replicas=[1], adding_replicas=[4]),
        record("ProducerIdsRecord", broker_id=1, broker_epoch=5, next_producer_id=2000),
        record("FeatureLevelRecord", name="metadata.version", feature_level=26),
    )
    assert said == [
        "assignment changes: orders-0: replicas 1,2,3 -> 2,3,4 (adding 4, removing 1)",
        "ACLs: added deny User:a write on topic orders (prefixed) from *",
        "quotas: client-id (default): request_percentage unset -> 1.5",
        "producer id blocks: next producer id none -> 2,000",
        "features: feature metadata.version 25 -> 26",
    ]


class _Entity:
    """What kafka-python encodes as a member of an array."""

    def __init__(self, kind: str, name: str | None) -> None:
        self.entity_type, self.entity_name, self.tags = kind, name, None
        self.unknown_tags = None


def test_q03_no_value_that_may_be_a_secret_is_in_the_words(tmp_path: Path) -> None:
    before = (scram("ann", b"old"), setting("ssl.key.password", "hush", 4, "1"))
    said = words(
        tmp_path,
        scram("ann", b"new"),
        scram("bob", b"salt"),
        setting("ssl.key.password", "hush-hush", 4, "1"),
        before=before,
    )
    assert said == [
        "settings: broker 1: ssl.key.password (not shown) -> (not shown)",
        "SCRAM users: changed ann (SCRAM-SHA-256)",
        "SCRAM users: added bob (SCRAM-SHA-256)",
    ]


def test_q03_types_and_versions_of_a_later_kafka_are_kept_and_named(tmp_path: Path) -> None:
    strange = b"\x01\x7f\x03later"
    newer = b"\x01\x03\x09later"
    assert decode_record(strange) == UnknownRecord("record type 127 v3", strange)
    assert decode_record(newer) == UnknownRecord("PartitionRecord v9", newer)
    log = small_log()
    at = log.add((None, strange), noop())
    image = replay([read(log, tmp_path)], 0)
    assert image.unknown == [(at, "record type 127 v3")]


@settings(max_examples=200, deadline=None)
@given(kept=st.integers(min_value=0), extra=st.binary(max_size=3))
def test_q03_bytes_that_are_no_record_are_kept(kept: int, extra: bytes) -> None:
    _, whole = partition(ORDERS, 0, (1, 2, 3))
    assert isinstance(decode_record(whole), tuple)
    cut = whole[: kept % len(whole)]
    for value in (cut, whole + extra if extra else cut):
        assert decode_record(value) == UnknownRecord(_any(decode_record(value)), value)


def _any(found: object) -> str:
    assert isinstance(found, UnknownRecord)
    return found.name


@given(st.binary(max_size=60))
def test_no_bytes_end_the_decoder(value: bytes) -> None:
    assert isinstance(decode_record(value), tuple | UnknownRecord)


def test_an_aborted_transaction_and_an_open_one_change_nothing(tmp_path: Path) -> None:
    begin, end = record("BeginTransactionRecord"), record("EndTransactionRecord")
    abort = record("AbortTransactionRecord")
    assert words(tmp_path, begin, setting("a", "1"), abort) == []
    assert words(tmp_path, begin, setting("a", "1")) == []
    assert len(words(tmp_path, begin, setting("a", "1"), end)) == 1


def test_a_log_that_begins_too_late_is_completed_by_another_copy(tmp_path: Path) -> None:
    log = small_log()
    since = log.offset
    log.add(setting("a", "1"))
    other = log.fork()
    log.snapshot(
        *topic("orders", ORDERS, (1, 2, 3), (2, 3, 1)),
        setting("retention.ms", "1000"),
        setting("a", "1"),
    )
    log.cut_start()
    log.add(setting("b", "2"))
    best, helper = read(log, tmp_path), read(other, tmp_path, 102)
    assert [one.at_ms is None for one in told(replay([best, helper], since), since)] == [False] * 2
    alone = replay([best], since)
    assert alone.noted_from > since


def test_where_no_copy_has_the_records_the_next_snapshot_says_what_changed(tmp_path: Path) -> None:
    old = small_log()
    since = old.offset
    new = old.fork()
    new.add(setting("a", "1"))
    new.add(*topic("ledger", LEDGER, (3,)))
    new.snapshot(
        record("FeatureLevelRecord", name="metadata.version", feature_level=25),
        *topic("orders", ORDERS, (1, 2, 3), (2, 3, 1)),
        *topic("ledger", LEDGER, (3,)),
        setting("retention.ms", "1000"),
        setting("a", "1"),
    )
    new.cut_start()
    new.add(noop())
    image = replay([read(new, tmp_path), read(old, tmp_path, 102)], since)
    said = list(told(image, since))
    assert [one.what for one in said] == [
        "ledger (1 partition, id AAAAAAAAAAAAAAAAAAAACw)",
        "topic orders: a unset -> 1",
    ]
    assert {one.at_ms for one in said} == {None}


def told(image: MetadataImage, since: int) -> Iterator[Any]:
    yield from said_changes(image.changes(since), image.values)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_partitions_of_each_version_are_read(version: int, tmp_path: Path) -> None:
    log = small_log()
    fields: dict[str, Any] = {"eligible_leader_replicas": [3]} if version == 2 else {}
    if version:
        fields["directories"] = [UUID(int=1), UUID(int=2)]
    log.add(
        record(
            "PartitionRecord",
            version,
            partition_id=0,
            topic_id=ORDERS,
            replicas=[1, 2],
            isr=[1],
            removing_replicas=[],
            adding_replicas=[],
            leader=1,
            leader_epoch=7,
            partition_epoch=3,
            leader_recovery_state=0,
            **fields,
        )
    )
    state = replay([read(log, tmp_path)], 0).values["partition", ORDERS, 0]
    assert state == PartitionMetadata((1, 2), (1,), 1, 7, 3, elr=(3,) if version == 2 else ())
