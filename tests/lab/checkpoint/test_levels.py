"""Each level on a broker: taken of an application at work, restored, and what it promises."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.checkpoint.coordinator import take_copy
from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.spark.partition_copy import SMALL, KafkaSources
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.wording import promise
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from tests.kit.clusters import in_main_job
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.lab.asking import transactional
from tests.lab.backup.independent import contents, delivered
from tests.lab.backup.producing import (
    commit,
    committed_messages,
    make,
    numbered,
    produce,
    put,
)
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.bank import Bank, Books, books
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.chain import Chain, Judged, complete, judged, stored
from tests.lab.checkpoint.soak import rounds
from tests.lab.checkpoint.taking import Taking, cut_of, read, take_of
from tests.lab.conftest import FreshCluster
from tests.lab.transactional.kit import offsets_of, wait_for_the_end
from tests.lab.transactional.loop import PlainBank


@in_main_job
@pytest.mark.parametrize("level", [Level.COORDINATED, Level.VERIFIED])
def test_participants_go_on_from_a_restored_checkpoint_with_the_same_total(
    small_bank: Branch, taking: Taking, level: Level
) -> None:
    with small_bank.at_work(Bank(3)):
        small_bank.order(60, hops=10)
        taken = taking.take(small_bank, level)
    assert (taken.status, take_of(taken).level) == (Status.COMPLETED, level)
    content = held(taking.store, taken.id)
    audit = audited(content, small_bank.group, small_bank.topic, passes_over=False)
    assert audit == Books(small_bank.total, (), ())
    restored = taking.restore(small_bank, taken.id, f"{small_bank.topic}-again")
    restored.order(10, hops=5)
    assert books(restored.settle()) == Books(small_bank.total, (), ())


@in_main_job
def test_h15_transactions_go_on_from_a_restored_transactional_checkpoint_with_the_same_total(
    whole_broker: Cluster, client: ReadClient, taking: Taking, topic: str
) -> None:
    bank = PlainBank(whole_broker, topic, 3).open()
    groups = {bank.group: GroupPolicy.EXACTLY_ONCE}
    with bank.running(1):
        bank.order(30, hops=10)
        wait_until(
            lambda: sum(offsets_of(client, bank.group, (topic,)).values()) > 60,
            "records to be processed",
        )
        id = taking.started(WantedCheckpoint((topic,), groups, Level.TRANSACTIONAL))
        assert taking.finisher().finish(id).status is Status.COMPLETED
    wait_for_the_end(client, bank.group, (topic,))
    again = PlainBank(whole_broker, f"{topic}-again", 3, bank.group)
    taking.restored(id, {topic: again.topic})
    with again.running(1):
        wait_until(lambda: again.idle(client), "the bank to come to the end")
    assert again.faults() == {}


@in_main_job
def test_a_chain_goes_on_from_a_restored_ordered_checkpoint_and_loses_nothing(
    whole_broker: Cluster, client: ReadClient, taking: Taking, topic: str
) -> None:
    chain = Chain(whole_broker, topic).open()
    with chain.running():
        chain.at_work(client)
        id = taking.started(chain.wanted)
        assert taking.finisher().finish(id).status is Status.COMPLETED
    found = judged(chain, *stored(taking.store, id))
    assert found == Judged((), found.doubled, 0)
    again = replace(chain, suffix="-again")
    taking.restored(id, dict(zip(chain.topics, again.topics, strict=True)))
    with again.running(source=False):
        wait_until(lambda: complete(again, client), "everything to be processed")


@in_main_job
def test_h09_a_vector_is_restored_and_labelled_unverifiable(
    whole_broker: Cluster, taking: Taking, topic: str
) -> None:
    make(whole_broker, topic, partitions=2)
    for partition in (0, 1):
        produce(whole_broker, topic, numbered(20, start=20 * partition), partition)
    id = taking.taken(topic)
    found = held(taking.store, id).found
    assert found.started is not None
    assert cut_of(found).positions == found.started.positions
    assert "unverifiable" in promise(found)
    taking.restored(id, {topic: f"{topic}-back"})
    for partition in (0, 1):
        back = contents(whole_broker, f"{topic}-back", partition)
        assert back == contents(whole_broker, topic, partition)


PARTITIONS = 2
SEGMENT_BYTES = 1_000_000
VALUE = b"v" * 500


@pytest.fixture(params=[SMALL // 2, 3 * SMALL], ids=["read here", "read by Spark"])
def filled(request: pytest.FixtureRequest, whole_broker: Cluster, topic: str) -> str:
    """A topic with so many records in each partition."""
    make(whole_broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        values = ({"value": VALUE} for _ in range(request.param))
        produce(whole_broker, topic, values, partition)
    return topic


def test_h13_s3_nodes_that_cut_their_segments_elsewhere_hold_the_same_records(
    taking: Taking, filled: str
) -> None:
    id = taking.started(WantedCheckpoint((filled,), level=Level.VECTOR))
    # Node 1 has begun as well, so that its copy is asked for though that of node 0 is whole.
    for number in range(1, PARTITIONS + 1):
        taking.store.copies.begin(CopyId(id, number, 1), None)
    found = replace(taking.finisher(), side_by_side=1).finish(id)
    small = KafkaSources(taking.run(max_segment_bytes=SEGMENT_BYTES))
    for number, source in small.open(take_of(found), cut_of(found)).items():
        copy = CopyId(id, number, 1)
        assert take_copy(taking.store.copies, copy, None, source, time.sleep) is Status.COMPLETED
    found = read(taking.store, id)
    assert found.status is Status.COMPLETED
    for part in found.partitions:
        one, other = (each.manifest for each in part.copies)
        assert one is not None
        assert other is not None
        assert one.records_digest == other.records_digest
        assert len(one.files) < len(other.files)


ROUNDS = 4
"""A broker, a member and a worker are killed at a coordinated one, a worker at a verified one;
`make soak` runs a hundred."""


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_checkpoints_under_kill_9_conserve_the_total(
    fresh_cluster: FreshCluster, guarantee: Guarantee, tmp_path: Path
) -> None:
    done = list(rounds(fresh_cluster(), guarantee, ROUNDS, tmp_path))
    assert all(round_.consistent for round_ in done), done
    assert [round_.half > 0 for round_ in done] == [False, False, True, True], done
    assert [round_.status for round_ in done].count(Status.COMPLETED) >= ROUNDS - 1, done


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
    writer = transactional(whole_broker, topic)
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
