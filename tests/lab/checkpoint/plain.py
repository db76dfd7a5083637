"""What writers and groups do that are no participants."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

from confluent_kafka import Consumer, TopicPartition

from tests.lab.checkpoint.bank import nothing
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch


def write(topic: Branch, count: int) -> None:
    """Records without headers, by a producer that is no participant."""
    topic.put([(number % topic.partitions, nothing()) for number in range(count)], headers=())


def loop(topic: Branch, group: str) -> None:
    """One transaction that reads, writes and commits."""
    consumer = Consumer({**topic.connection, "group.id": group}, logger=LOG)
    with topic.transaction(group) as producer, closing(consumer) as member:
        producer.produce(topic.topic, nothing(), partition=1)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic.topic, 0, 2)], member.consumer_group_metadata(), SECONDS
        )
        producer.commit_transaction(SECONDS)
        # It answers once the marker is in the topic of offsets, too.
        (found,) = member.committed([TopicPartition(topic.topic, 0)], SECONDS)
        assert found.offset == 2


@contextmanager
def all_the_while(act: Callable[[], None]) -> Iterator[None]:
    """Somebody does *act* again and again until the block ends."""
    stop = Event()

    def go_on() -> None:
        while not stop.is_set():
            act()

    actor = Thread(target=go_on, daemon=True)
    actor.start()
    try:
        yield
    finally:
        stop.set()
        actor.join(SECONDS)
