"""Each level on a broker: taken of an application at work, restored, and what it promises."""

from dataclasses import replace

import pytest

from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.wording import promise
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from tests.kit.clusters import in_main_job
from tests.kit.waiting import wait_until
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import make, numbered, produce
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.bank import Bank, Books, books
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.chain import Chain, Judged, complete, judged, stored
from tests.lab.checkpoint.taking import Taking, cut_of, take_of
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
