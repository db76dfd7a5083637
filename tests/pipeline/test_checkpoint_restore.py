"""Checkpoints restored on a real broker: the applications go on as if nothing had been."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.checkpoint.kafka.control_log import read_control
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import GroupPolicy
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import Refused
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import Power, ReadAccess
from tests.kit.commits import commit_offsets
from tests.lab.checkpoint.bank import Bank, books
from tests.lab.checkpoint.branch import SECONDS, Branch
from tests.lab.checkpoint.conftest import GUARANTEES
from tests.lab.checkpoint.taking import Taking
from tests.pipeline.checkpoint_restores import Checkpoints
from tests.pipeline.producing import LOG, committed_messages, make, numbered, producer, put


@pytest.fixture
def taking(broker: Cluster, client: ReadClient, spark: Spark, tmp_path: Path) -> Taking:
    options = ConnectionOptions(bootstrap_server=broker.bootstrap_servers)
    power = Power(ReadAccess(connection_settings(options, {})))
    return Taking(client, power, BackupStore(str(tmp_path / "store")), spark)


@pytest.fixture(params=GUARANTEES)
def bank(request: pytest.FixtureRequest, broker: Cluster, topic: str) -> Branch:
    """Three accounts in logs that begin at offset 50; once with each guarantee."""
    made = Branch(broker, topic, request.param, 3, f"control-{topic}")
    return made.open(start=50)


@pytest.mark.timeout(600)
def test_h02_offsets_that_shift_lose_and_double_nothing_restore_after_restore(
    bank: Branch, taking: Taking, tmp_path: Path
) -> None:
    with bank.working(1):
        bank.order(150, hops=15)
        assert taking.take(bank).status is Status.COMPLETED
    restored = taking.restore(bank, 1, f"{bank.topic}-2", tmp_path / "first")
    with restored.working(1):
        restored.order(60, hops=15)
        second = taking.take(restored)
        assert (second.id, second.status) == (2, Status.COMPLETED)
    again = taking.restore(restored, 2, f"{bank.topic}-3", tmp_path / "second")
    again.order(10)
    found = books(again.settle())
    assert (found.total, found.doubled, found.lost) == (bank.total, (), ())


@pytest.mark.timeout(600)
def test_a_restore_triggers_no_checkpoint_and_its_word_comes_last(
    broker: Cluster, bank: Branch, taking: Taking, client: ReadClient, tmp_path: Path
) -> None:
    with bank.working(1):
        bank.order(60, hops=10)
        taking.take(bank)
    restored = taking.restore(bank, 1, f"{bank.topic}-2", tmp_path / "state")
    keys = [
        (message.key() or b"").decode() for message in committed_messages(broker, bank.control, 0)
    ]
    assert keys[-1].startswith("restored/")
    assert [key for key in keys if key.startswith("take/")] == ["take/1"]
    restored.settle()
    assert taking.store.ids() == [1]
    deadline = Deadline.after(SECONDS)
    control = read_control(client, bank.control, deadline)
    assert control is not None
    (state,) = client.partitions((restored.topic,), deadline)[:1]
    assert control.restored[state.topic_id.hex].id == 1
    came = {created.topic_id for created in control.created.values()}
    assert state.topic_id.hex not in came


def test_topics_that_hold_records_are_refused(bank: Branch, taking: Taking, tmp_path: Path) -> None:
    with bank.working(1):
        bank.order(10, hops=1)
        taking.take(bank)
    with pytest.raises(Refused, match="has records"):
        taking.restore(bank, 1, bank.topic, tmp_path / "state")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_state_that_was_saved_is_restored_where_its_records_are_gone(
    broker: Cluster, taking: Taking, topic: str, tmp_path: Path
) -> None:
    bank = Branch(broker, topic, Guarantee.EXACTLY_ONCE, 3, f"control-{topic}").open()
    with bank.at_work(Bank(3, saves=True)):
        bank.order(60, hops=10)
        first = taking.take(bank)
        assert first.cut is not None
        # What the accounts have been given at first is in no log any more.
        bank.delete_before({one - 1: at for one, at in first.cut.positions.items()})
        bank.order(30, hops=10)
        second = taking.take(bank)
    assert second.status is Status.COMPLETED
    assert all(
        partition.counting and partition.counting.manifest for partition in second.partitions
    )
    restored = taking.restore(bank, 2, f"{topic}-2", tmp_path / "state")
    restored.order(10)
    found = books(restored.settle(saves=True))
    assert (found.total, found.doubled, found.lost) == (bank.total, (), ())


@pytest.mark.timeout(600)
def test_h02_where_records_were_first_goes_with_a_checkpoint_to_where_nobody_noted_it(
    broker: Cluster, checkpoints: Checkpoints, topic: str
) -> None:
    make(broker, topic)
    writer = producer(broker, transactional_id=topic)
    writer.init_transactions(SECONDS)
    for begin in (0, 10, 20):
        writer.begin_transaction()
        put(writer, topic, numbered(10, begin))
        writer.commit_transaction(SECONDS)
    group = f"readers-of-{topic}"
    groups = {group: GroupPolicy.AT_LEAST_ONCE}
    commit(broker, group, topic, 4)
    second, third = f"{topic}-2", f"{topic}-3"
    assert checkpoints.taken(topic, groups=groups) == 1
    checkpoints.restore(checkpoints.plan(1, {topic: second}))
    assert checkpoints.taken(second, groups=groups) == 2
    elsewhere = replace(checkpoints, control=f"{checkpoints.control}-elsewhere")
    elsewhere.restore(elsewhere.plan(2, {second: third}))
    ids = {name: checkpoints.topic_id(name) for name in (topic, third)}
    notes = elsewhere.told().restored
    assert list(notes) == [ids[third]]
    moved = notes[ids[third] or ""].moved[0]
    assert {records.old.topic_id for records in moved} == {ids[topic]}
    firsts, thirds = (
        {one.offset(): one.value() for one in committed_messages(broker, name, 0)}
        for name in (topic, third)
    )
    places = {
        records.new_offset + shift: records.old.offset + shift
        for records in moved
        for shift in range(records.count)
    }
    assert len(places) == 26
    assert {new: thirds[new] for new in places} == {new: firsts[old] for new, old in places.items()}


def commit(broker: Cluster, group: str, topic: str, offset: int) -> None:
    """Have *group* resume there in the topic's one partition."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group}
    with closing(Consumer(settings, logger=LOG)) as member:
        commit_offsets(member, [TopicPartition(topic, 0, offset)])
