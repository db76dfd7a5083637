"""Checkpoints restored on a real broker: the applications go on as if nothing had been."""

from dataclasses import replace

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import GroupPolicy
from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.backup.independent import delivered
from tests.lab.backup.producing import commit, committed_messages, make, numbered, producer, put
from tests.lab.checkpoint.bank import Books, books
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.taking import Taking


def test_h02_offsets_that_shift_lose_and_double_nothing_restore_after_restore(
    bank: Branch, taking: Taking
) -> None:
    """Its logs begin at offset 50, and restored ones at 0."""
    bank = replace(bank, topic=f"{bank.topic}-50", partitions=3).open(start=50)
    with bank.working(1):
        bank.order(150, hops=15)
        assert taking.take(bank).status is Status.COMPLETED
    restored = taking.restore(bank, 1, f"{bank.topic}-2")
    with restored.working(1):
        restored.order(60, hops=15)
        second = taking.take(restored)
        assert (second.id, second.status) == (2, Status.COMPLETED)
    again = taking.restore(restored, 2, f"{bank.topic}-3")
    again.order(10, hops=5)
    assert books(again.settle()) == Books(bank.total, (), ())


def test_a_restore_triggers_no_checkpoint_and_its_word_comes_last(
    whole_broker: Cluster, small_bank: Branch, taking: Taking
) -> None:
    with small_bank.working(1):
        small_bank.order(60, hops=10)
        taking.take(small_bank)
    restored = taking.restore(small_bank, 1, f"{small_bank.topic}-2")
    keys = [
        (message.key() or b"").decode()
        for message in committed_messages(whole_broker, small_bank.control, 0)
    ]
    assert keys[-1].startswith("restored/")
    assert [key for key in keys if key.startswith("take/")] == ["take/1"]
    restored.settle()
    assert taking.store.ids() == [1]
    told, new = taking.told(), taking.topic_id(restored.topic)
    assert told.restored[new or ""].id == 1
    assert new not in {created.topic_id for created in told.created.values()}


def test_h02_where_records_were_first_goes_with_a_checkpoint_to_where_nobody_noted_it(
    whole_broker: Cluster, taking: Taking, topic: str
) -> None:
    make(whole_broker, topic)
    writer = producer(whole_broker, transactional_id=topic)
    writer.init_transactions(DEADLINE_SECONDS)
    for begin in (0, 10, 20):
        writer.begin_transaction()
        put(writer, topic, numbered(10, begin))
        writer.commit_transaction(DEADLINE_SECONDS)
    group, second, third = f"readers-of-{topic}", f"{topic}-2", f"{topic}-3"
    groups = {group: GroupPolicy.AT_LEAST_ONCE}
    commit(whole_broker, topic, group, 4)
    assert taking.taken(topic, groups=groups) == 1
    taking.restored(1, {topic: second})
    assert taking.taken(second, groups=groups) == 2
    elsewhere = replace(taking, control=f"{taking.control}-elsewhere")
    elsewhere.restored(2, {second: third})
    ids = {name: taking.topic_id(name) for name in (topic, third)}
    notes = elsewhere.told().restored
    assert list(notes) == [ids[third]]
    moved = notes[ids[third] or ""].moved[0]
    assert {records.old.topic_id for records in moved} == {ids[topic]}
    firsts, thirds = (dict(delivered(whole_broker, name, 0)) for name in (topic, third))
    places = {
        records.new_offset + shift: records.old.offset + shift
        for records in moved
        for shift in range(records.count)
    }
    assert len(places) == 26
    assert {new: thirds[new] for new in places} == {new: firsts[old] for new, old in places.items()}
