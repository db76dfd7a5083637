"""Records that come while a stream backs them up: soon there, exactly once, whatever comes."""

from confluent_kafka.cimpl import NewPartitions

from breakglass.services.lab.cluster import Cluster
from breakglass.services.topic_backup.group_history import read_offsets
from tests.lab.asking import delete_topic
from tests.lab.backup.backups import BackUp
from tests.lab.backup.producing import (
    SECONDS,
    admin,
    commit,
    committed_bytes,
    delete_before,
    make,
    numbered,
    produce,
)
from tests.lab.backup.streaming import following


def test_b10_a_new_topic_and_a_new_partition_are_streamed(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    with following(back_up, f"{topic}.*") as followed:
        make(whole_broker, f"{topic}-new")
        produce(whole_broker, f"{topic}-new", numbered(4))
        followed.await_end(f"{topic}-new", 4)
        client = admin(whole_broker)
        client.create_partitions([NewPartitions(topic, 2)])[topic].result(SECONDS)
        whole_broker.wait_until(
            lambda: len(whole_broker.partitions(topic)) == 2, "the new partition"
        )
        produce(whole_broker, topic, numbered(5), partition=1)
        followed.await_end(topic, 5, partition=1)
    for name, partition in ((topic, 1), (f"{topic}-new", 0)):
        assert back_up.bytes(name, partition) == committed_bytes(whole_broker, name, partition)


def test_b2_a_topic_created_anew_beside_a_stream_begins_a_generation(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    with following(back_up, topic) as followed:
        produce(whole_broker, topic, numbered(5))
        followed.await_end(topic, 5)
        before = back_up.records(topic)
        delete_topic(whole_broker, topic)
        make(whole_broker, topic)
        produce(whole_broker, topic, numbered(50, start=1000))
        followed.await_true(lambda: (back_up.root / f"{topic}~2").is_dir())
        followed.await_end(f"{topic}~2", 50)
        produce(whole_broker, topic, numbered(5))
        followed.await_end(f"{topic}~2", 55)
    assert back_up.records(topic) == before
    assert back_up.bytes(f"{topic}~2") == committed_bytes(whole_broker, topic)


def test_b3_what_retention_takes_before_the_stream_has_it_is_a_gap(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)

    def overtake() -> None:
        produce(whole_broker, topic, numbered(20))
        delete_before(whole_broker, topic, 15)

    with following(back_up, topic) as followed:
        followed.then = overtake
        produce(whole_broker, topic, numbered(5))
        followed.await_end(topic, 25)
        produce(whole_broker, topic, numbered(5))
        followed.await_end(topic, 30)
    assert followed.done is not None
    assert followed.done.missing == {"lost": 10}
    assert [record.offset for record in back_up.records(topic)] == [*range(5), *range(15, 30)]


def test_groups_are_saved_also_without_records(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    """As it is without --every: the newest in the original's file, each change in the history."""
    from breakglass.services.topic_backup import group_history

    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(9))
    with following(back_up, topic, every=0.5) as followed:
        for offset in (3, 7):
            commit(whole_broker, topic, f"{topic}-group", offset)
            wanted = {f"{topic}-group": offset}
            followed.await_true(
                lambda wanted=wanted: read_offsets(back_up.folder(topic), 0) == wanted  # type: ignore[misc]
            )
    folder = back_up.folder(topic)
    times = group_history.times(folder.names())
    states = [group_history.read_state(folder, at).partitions for at in times]
    assert states == [{0: {f"{topic}-group": 3}}, {0: {f"{topic}-group": 7}}]
