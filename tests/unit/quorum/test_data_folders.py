"""Brokers' log folders and a copy of the metadata: strays, old ISRs, and what they prove of it."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.model import TopicPartition, kafka_id
from breakglass.services.quorum.data_folders import (
    DataFindings,
    FoundReplica,
    Mending,
    compare_data,
    mend,
    mended_records,
)
from breakglass.services.quorum.image import Key, PartitionMetadata
from breakglass.services.quorum.metadata_copy import LogPosition, read_copy
from breakglass.services.recovery.rescue.broker_folder import read_broker_folder
from tests.kit.metadata_log import T0, batch, crc32c, record
from tests.unit.quorum.clusters import LEDGER, ORDERS, small_log

ENTRY = struct.Struct(">qhiqiqiq")


class Disks:
    """Log folders in the making, one for each broker."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def replica(
        self,
        broker: int,
        number: int,
        records: int,
        *,
        topic: str = "orders",
        topic_id: UUID = ORDERS,
        epochs: tuple[tuple[int, int], ...] = ((0, 0),),
        committed: int = 0,
        producers: tuple[int, ...] = (),
        writer: int = -1,
        snapshot_at: int | None = None,
        at_ms: int = T0,
    ) -> Path:
        folder = self.root / str(broker)
        replica = folder / f"{topic}-{number}"
        replica.mkdir(parents=True)
        own = f"node.id={broker}\ndirectory.id={kafka_id(UUID(int=broker))}\n"
        (folder / "meta.properties").write_text(f"version=1\n{own}")
        one = [(None, b"value")]
        content = b"".join(
            batch(at, epochs[-1][0], one, at_ms=at_ms, producer_id=writer) for at in range(records)
        )
        (replica / f"{0:020}.log").write_bytes(content)
        written = urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
        (replica / "partition.metadata").write_text(f"version: 0\ntopic_id: {written}\n")
        lines = ["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs)]
        (replica / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n")
        mark = folder / "replication-offset-checkpoint"
        earlier = mark.read_text().splitlines()[2:] if mark.exists() else []
        marks = [*earlier, f"{topic} {number} {committed}"]
        mark.write_text("\n".join(["0", str(len(marks)), *marks]) + "\n")
        if producers:
            entries = b"".join(ENTRY.pack(one, 0, 0, 0, 0, 0, 0, -1) for one in producers)
            body = struct.pack(">i", len(producers)) + entries
            at = records if snapshot_at is None else snapshot_at
            (replica / f"{at:020}.snapshot").write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
        return replica

    def against(self, *states: PartitionMetadata, next_id: int = 0) -> DataFindings:
        values: dict[Key, Any] = {
            ("topic", ORDERS): "orders",
            ("producer ids",): next_id,
            **{("partition", ORDERS, at): one for at, one in enumerate(states)},
        }
        return compare_data(
            [read_broker_folder(one) for one in sorted(self.root.iterdir())], values
        )


def state(*isr: int, epoch: int = 0) -> PartitionMetadata:
    return PartitionMetadata((1, 2, 3), isr, isr[0], epoch, 0)


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    return Disks(tmp_path / "disks")


def test_q04_folders_that_agree_with_the_copy_are_in_order(disks: Disks) -> None:
    for broker in (1, 2, 3):
        disks.replica(broker, 0, 10, committed=10, producers=(7,))
    found = disks.against(state(1, 2, 3), next_id=1000)
    assert found.in_order
    assert found.replicas == 3


def test_q04_each_reason_to_become_a_stray_is_named(disks: Disks) -> None:
    disks.replica(1, 0, 1, topic="ledger", topic_id=LEDGER)
    disks.replica(1, 5, 1)
    disks.replica(9, 0, 1)
    found = disks.against(state(1, 2))
    assert [(one.broker, str(one.partition), one.why) for one in found.strays] == [
        (1, "ledger-0", "the copy does not know its topic id"),
        (1, "orders-5", "the copy does not know the partition"),
        (9, "orders-0", "the copy assigns it to 1,2,3"),
    ]
    assert not found.in_order


def test_q21_an_index_that_was_not_closed_is_named_if_its_broker_stopped_cleanly(
    disks: Disks,
) -> None:
    """A trimmed index is not named, nor a segment without a batch, nor a log that is recovered."""
    trimmed, zeros = struct.pack(">qi", T0, 4), bytes(120)
    named = disks.replica(1, 0, 5)
    for number, records, content in ((1, 5, trimmed), (2, 0, zeros), (3, 5, b"")):
        folder = disks.replica(1, number, records)
        (folder / f"{0:020}.timeindex").write_bytes(content)
    (named / f"{0:020}.timeindex").write_bytes(trimmed + zeros)
    states = [state(1)] * 4
    assert disks.against(*states).in_order
    (disks.root / "1" / ".kafka_cleanshutdown").touch()
    found = disks.against(*states)
    assert (found.unclosed, found.in_order) == ((named,), False)


def test_q05_a_member_below_a_high_watermark_had_left_the_isr(disks: Disks) -> None:
    disks.replica(1, 0, 5, committed=5)
    disks.replica(2, 0, 8, committed=7)
    disks.replica(3, 0, 7, committed=7)
    found = disks.against(state(1, 2, 3))
    assert [(one.broker, one.longest, one.proved) for one in found.short_members] == [
        (1, 2, True),
        (3, 2, False),
    ]


def test_q05_a_member_with_an_older_epoch_is_short_though_its_log_is_longer(disks: Disks) -> None:
    disks.replica(1, 0, 9, epochs=((0, 0),))
    disks.replica(2, 0, 5, epochs=((0, 0), (2, 4)))
    (short,) = disks.against(state(1, 2, epoch=2)).short_members
    assert (short.broker, short.longest) == (1, 2)


def test_q05_an_epoch_at_which_nothing_was_written_ranks_nothing_but_was_used(disks: Disks) -> None:
    disks.replica(1, 0, 5, epochs=((0, 0), (3, 5)))
    disks.replica(2, 0, 5)
    found = disks.against(state(1, 2, epoch=2))
    assert found.short_members == ()
    assert [(one.copy, one.log) for one in found.old_epochs] == [(2, 3)]


@pytest.mark.parametrize(("next_id", "reused"), [(0, True), (7, True), (8, False)])
def test_q05_an_id_in_a_snapshot_at_or_above_the_next_is_given_out_twice(
    next_id: int, reused: bool, disks: Disks
) -> None:
    disks.replica(1, 0, 5, producers=(3, 7))
    disks.replica(1, 1, 5, producers=(4,))
    found = disks.against(state(1), state(1), next_id=next_id)
    assert (found.largest_producer_id, found.reused_producer_ids) == (7, reused)


def test_q05_ids_of_batches_after_the_newest_snapshot_count(disks: Disks) -> None:
    disks.replica(1, 0, 5, producers=(3,), writer=2000, snapshot_at=2)
    disks.replica(1, 1, 5, writer=1500)
    disks.replica(1, 2, 5, producers=(4,), writer=9000)
    found = disks.against(state(1), state(1), state(1), next_id=2000)
    assert (found.largest_producer_id, found.reused_producer_ids) == (2000, True)
    assert found.producer_id_in is not None
    assert found.producer_id_in.name == f"{0:020}.log"


@settings(max_examples=40, deadline=None)
@given(where=st.integers(min_value=0), bit=st.integers(0, 7))
def test_a_damaged_producer_snapshot_is_named_and_not_believed(
    where: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    disks = Disks(tmp_path_factory.mktemp("disks"))
    replica = disks.replica(1, 0, 5, producers=(3, 7))
    (path,) = replica.glob("*.snapshot")
    content = bytearray(path.read_bytes())
    content[where % len(content)] ^= 1 << bit
    path.write_bytes(content)
    found = disks.against(state(1), next_id=1000)
    assert found.largest_producer_id is None
    assert [line.startswith(str(path)) for line in found.unread] == [True]


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_file_that_is_missing_is_named(name: str, disks: Disks) -> None:
    replica = disks.replica(1, 0, 5)
    (replica / name).unlink()
    found = disks.against(state(1))
    assert len(found.unread) == 1
    assert name in found.unread[0]
    # A broker renames a folder without a topic id, as one whose id is unknown.
    assert len(found.strays) == (name == "partition.metadata")
    assert not found.in_order


def on(
    broker: int,
    end: int,
    written: int = 0,
    *,
    epoch: int | None = None,
    number: int = 0,
    topic: tuple[str, UUID] = ("orders", ORDERS),
) -> FoundReplica:
    """A replica whose last record has the epoch *written*."""
    partition = TopicPartition(topic[0], number)
    path = Path(f"/disks/{broker}/{partition}")
    noted = written if epoch is None else epoch
    return FoundReplica(broker, path, partition, topic[1], LogPosition(written, end), noted)


def known(*isr: int, epoch: int = 0, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionMetadata:
    return PartitionMetadata(replicas, isr, isr[0] if isr else -1, epoch, 7)


def mended(
    *found: FoundReplica,
    state: PartitionMetadata | None = None,
    whole: tuple[int, ...] = (),
    name: UUID = ORDERS,
) -> Mending:
    values: dict[Key, object] = {("topic", name): "orders"}
    if state is not None:
        values["partition", ORDERS, 0] = state
    directories = {Path(f"/disks/{broker}"): UUID(int=broker) for broker in (1, 2, 3, 4)}
    return mend(values, found, whole, directories)


def isr_of(mending: Mending) -> tuple[int, ...] | None:
    """The ISR that is appended; None: nothing is."""
    return mending.partitions[0].after.isr if mending.partitions else None


def test_q11_logs_that_agree_with_the_copy_need_nothing() -> None:
    assert mended(on(1, 10), on(2, 10), on(3, 10), state=known(1, 2, 3)) == Mending()
    # A replica that had left the ISR may end earlier.
    assert mended(on(1, 10), on(2, 10), on(3, 5), state=known(1, 2)) == Mending()


def test_q11_the_replicas_with_the_longest_log_are_the_new_isr() -> None:
    found = mended(on(1, 10), on(2, 40), on(3, 40), state=known(1, 2, 3))
    (one,) = found.partitions
    assert (one.after.replicas, one.after.isr, one.after.leader) == ((1, 2, 3), (2, 3), 2)
    assert one.after.leader_epoch > 0
    assert one.after.partition_epoch > 7
    assert one.directories == (UUID(int=1), UUID(int=2), UUID(int=3))


def test_q11_a_later_leader_epoch_ranks_before_a_longer_log() -> None:
    assert isr_of(mended(on(1, 40), on(2, 30, 5), state=known(1, 2))) == (2,)


def test_q11_the_new_leader_epoch_is_above_those_of_every_log() -> None:
    (one,) = mended(on(1, 10, epoch=9), on(2, 10), state=known(1, 2, epoch=4)).partitions
    assert one.after.leader_epoch > 9


def test_q11_a_tail_outside_the_isr_that_the_copy_knows_does_not_lead() -> None:
    # Leader 1 died with records that the others did not have; 2 leads at an epoch the copy knows.
    found = mended(on(1, 50, 4), on(2, 40, 4, epoch=5), on(3, 40, 4), state=known(2, 3, epoch=5))
    assert found.partitions == ()


def test_q11_a_log_outside_the_isr_leads_if_the_copy_is_older_than_it() -> None:
    assert isr_of(mended(on(1, 40, 6), on(2, 30), state=known(2, epoch=0))) == (1,)


def test_q11_a_member_without_its_folder_is_empty_if_its_whole_disk_was_read() -> None:
    assert isr_of(mended(on(2, 40), state=known(1, 2), whole=(1,))) == (2,)
    assert isr_of(mended(on(2, 40), state=known(1, 2))) is None
    # The last member came back without its log: it would lead, and the others would follow.
    assert isr_of(mended(on(2, 40), state=known(1), whole=(1,))) == (2,)
    assert isr_of(mended(on(2, 40), state=known(1))) is None


def test_q11_a_topic_that_the_copy_does_not_know_is_made_with_its_own_id() -> None:
    ledger = ("ledger", LEDGER)
    found = mended(on(3, 5, topic=ledger), on(1, 9, topic=ledger), on(1, 2, topic=ledger, number=1))
    assert found.topics == (("ledger", LEDGER),)
    assert [
        (str(one.partition), one.after.replicas, one.after.isr) for one in found.partitions
    ] == [
        ("ledger-0", (1, 3), (1,)),
        ("ledger-1", (1,), (1,)),
    ]


def test_q11_a_partition_of_a_known_topic_is_added_after_the_one_before_it() -> None:
    found = mended(on(1, 4, number=1), on(1, 4, number=3), state=known(1))
    assert [str(one.partition) for one in found.partitions] == ["orders-1"]
    assert found.topics == ()
    assert [path.name for path in found.left] == ["orders-3"]


def test_q11_a_topic_whose_deletion_a_copy_shows_is_not_made(tmp_path: Path) -> None:
    log = small_log()
    log.add(record("RemoveTopicRecord", topic_id=ORDERS))
    copy = read_copy(log.save(tmp_path, 101))
    assert copy.deleted == {ORDERS}
    found = mend({}, [on(1, 4)], (), {}, copy.deleted)
    assert (found.topics, found.partitions) == ((), ())
    assert [*found.left.values()] == ["the topic was deleted"]


def test_q11_a_name_that_another_topic_has_is_not_taken() -> None:
    found = mended(on(1, 4), name=LEDGER)
    assert (found.topics, found.partitions) == ((), ())
    assert (found.replaced, len(found.left), len(found.rivals)) == ({}, 1, 1)


def test_q11_a_topic_that_was_deleted_and_made_again_after_the_copy_is_the_newer_one() -> None:
    """The newer id has later records than the copy, and is on as many brokers."""
    old, made = on(2, 200)._replace(newest_ms=90), ("orders", LEDGER)
    newer = [on(broker, 150, topic=made)._replace(newest_ms=120) for broker in (1, 3)]
    values: dict[Key, object] = {("topic", ORDERS): "orders", ("partition", ORDERS, 0): known(1, 2)}
    values["settings", 2, "orders"] = {"retention.ms": "-1"}
    found = mend(values, [old, *newer], (), {}, (), 100)
    assert (found.topics, found.replaced) == ((made,), {"orders": ORDERS})
    assert [(one.topic_id, one.after.isr) for one in found.partitions] == [(LEDGER, (1, 3))]
    assert [*found.left] == [old.path]
    names = [name for name, _, _ in mended_records(found, 1)]
    assert names == ["RemoveTopicRecord", "TopicRecord", "ConfigRecord", "PartitionRecord"]
    # What is not proved replaces nothing, and is given up by name.
    early = [one._replace(newest_ms=95) for one in newer]
    for some in ((old, *early), (old, on(3, 200)._replace(newest_ms=90), newer[0])):
        kept = mend(values, some, (), {}, (), 100)
        assert (kept.topics, kept.replaced, len(kept.rivals)) == ((), {}, 1)
        assert all("ends at 150" in why for why in kept.left.values())
        assert set(kept.left) == {one.path for one in some if one.topic_id == LEDGER}


def test_q11_without_a_time_no_topic_looks_older() -> None:
    old, made = on(2, 200)._replace(newest_ms=90), on(1, 60, topic=("orders", LEDGER))
    values: dict[Key, object] = {("topic", ORDERS): "orders", ("partition", ORDERS, 0): known(1, 2)}
    (why,) = mend(values, [old, made], (), {}).left.values()
    assert "unknown age" in why
    assert "older" not in why


def test_q11_of_two_topics_of_a_name_that_the_copy_does_not_know_the_newer_one_is_made() -> None:
    ids = [UUID(int=1), UUID(int=2)]
    for older, newer in (ids, ids[::-1]):
        found = [
            on(1, 9, topic=("a", older))._replace(newest_ms=5),
            on(2, 3, topic=("a", newer))._replace(newest_ms=6),
        ]
        mending = mended(*found)
        assert mending.topics == (("a", newer),)
        assert [*mending.left] == [found[0].path]
        assert len(mending.rivals) == 1


def test_q11_the_longest_log_leads_wherever_it_is_assigned() -> None:
    (one,) = mended(on(1, 4), on(4, 40, 8), state=known(1, 2)).partitions
    assert (one.after.replicas, one.after.isr) == ((1, 2, 3, 4), (4,))
    found = mended(on(1, 4), on(2, 4), on(4, 2), state=known(1, 2))
    assert found.partitions == ()
    assert [path.name for path in found.left] == ["orders-0"]


positions = st.tuples(st.integers(0, 3), st.integers(1, 5)) | st.just((-1, 0))
ends = st.dictionaries(st.integers(1, 4), positions, min_size=1)


@given(logs=ends, isr=st.sets(st.integers(1, 3), min_size=1), epoch=st.integers(0, 4))
def test_q11_no_replica_of_the_new_isr_ends_before_one_that_might_have_led(
    logs: dict[int, tuple[int, int]], isr: set[int], epoch: int
) -> None:
    """Brute force: whoever is elected, no record of a replica that the copy trusts is lost."""
    found = [on(broker, end, written) for broker, (written, end) in logs.items()]
    mending = mended(*found, state=known(*sorted(isr), epoch=epoch))
    after = mending.partitions[0].after if mending.partitions else known(*isr, epoch=epoch)
    newest = max(written for written, _ in logs.values())
    trusted = set(logs) if newest > epoch else set(logs) & isr
    for member in set(after.isr) & set(logs):
        assert all(logs[member] >= logs[other] for other in trusted) or not any(
            end for _, end in (logs[other] for other in trusted)
        )
    assert after.leader_epoch >= newest
    assert after.leader_epoch > newest or not mending.partitions
