"""Participants on a real broker: what they write, and what becomes of it when they are killed."""

from contextlib import closing

from confluent_kafka import Consumer, TopicPartition

from breakglass.services.checkpoint.kafka.owners import read_ids, read_named_groups
from breakglass.services.model import TopicPartition as KafkaPartition
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch, soon
from tests.lab.checkpoint.taking import Taking


def test_h03_a_member_that_is_started_again_knows_the_checkpoint_it_had_come_to(
    bank: Branch, taking: Taking
) -> None:
    """What is in flight carries the id and would bring it again, so nothing is in flight."""
    with bank.working(1):
        bank.order(100)
        taking.take(bank)
    bank.settle()
    assert _committed_ids(bank, taking) == {1}
    with bank.working(1):
        bank.order(20)
    bank.settle()
    assert _committed_ids(bank, taking) == {1}


def test_h11_offsets_are_read_while_a_transaction_holds_others_back(
    bank: Branch, taking: Taking
) -> None:
    bank.settle()
    offsets = [TopicPartition(bank.topic, number, 1) for number in range(bank.partitions)]
    consumer = Consumer({**bank.connection, "group.id": bank.group}, logger=LOG)
    with bank.transaction("holding") as producer, closing(consumer) as member:
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), SECONDS)
        standing = read_named_groups(taking.client, [bank.group], _partitions(bank), soon())
    assert standing[bank.group].keys() == set(_partitions(bank))


def _committed_ids(bank: Branch, taking: Taking) -> set[int | None]:
    """The checkpoints that the group has committed beside its offsets."""
    ids = read_ids(taking.client.sender, bank.group, _partitions(bank), soon())
    return {ids.get(partition) for partition in _partitions(bank)}


def _partitions(bank: Branch) -> list[KafkaPartition]:
    return [KafkaPartition(bank.topic, number) for number in range(bank.partitions)]
