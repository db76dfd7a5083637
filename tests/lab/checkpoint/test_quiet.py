"""In a quiet moment nothing is promised that the prefixes and the groups do not bear out (H10)."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from threading import Event, Thread, Timer
from typing import Any

import pytest

from breakglass.services.checkpoint.kafka.stamps import marker_headers
from breakglass.services.checkpoint.kafka.topic_evidence import LAST_OFFSETS, read_evidence
from breakglass.services.checkpoint.kafka.transaction_logs import log_of
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.evidence import Committing, GroupEvidence, WriterKind
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import Refused, UsageError
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from tests.kit.commits import commit_offsets
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.bank import nothing
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch
from tests.lab.checkpoint.taking import Taking

CONSISTENT = (Level.COORDINATED, Level.VERIFIED)


@pytest.fixture
def topic(broker: Cluster) -> Branch:
    """A topic of two partitions with three records each, which say nothing of what led to them."""
    name = f"quiet-{uuid.uuid4().hex[:8]}"
    found = Branch(broker, name, Guarantee.EXACTLY_ONCE, 2, f"control-{name}")
    found.open()
    write(found, 6)
    return found


def write(topic: Branch, count: int) -> None:
    """Records without headers, by a producer that is no participant."""
    topic.put([(number % topic.partitions, nothing()) for number in range(count)], headers=())


def take(
    topic: Branch,
    taking: Taking,
    level: Level,
    groups: Mapping[str, GroupPolicy] | None = None,
    external: tuple[str, ...] = (),
) -> StoredCheckpoint:
    with taking.parts(topic, level, groups or {}, external=external) as (coordinator, finisher):
        id = coordinator.take()
        assert isinstance(id, int)
        return finisher.finish(id)


def commit(topic: Branch, group: str, offset: int = 1) -> None:
    """Commit an offset for an ordinary *group*, which lags."""
    from confluent_kafka import Consumer, TopicPartition

    with closing(Consumer({**topic.connection, "group.id": group}, logger=LOG)) as member:
        commit_offsets(member, [TopicPartition(topic.topic, 0, offset)])


@pytest.mark.parametrize("level", CONSISTENT)
def test_h10_records_without_ids_are_refused_though_nothing_is_written_at_that_time(
    topic: Branch, taking: Taking, level: Level
) -> None:
    with pytest.raises(Refused, match=r"says nothing of what led to it \(writer: idempotent\)"):
        take(topic, taking, level)
    found = taking.store.read(1)
    assert found is not None
    assert found.failed is not None
    assert f"the record {topic.topic}-" in found.failed.reason


def test_h10_markers_hide_no_record_before_them(topic: Branch, client: ReadClient) -> None:
    """Each checkpoint that was refused leaves one more of them."""
    count = 2 * LAST_OFFSETS * topic.partitions
    markers = [(number % topic.partitions, b"") for number in range(count)]
    topic.put(markers, headers=marker_headers(1))
    (found,) = read_evidence(client, (topic.topic,), topic.control, soon()).topics
    assert not found.stamped
    assert found.writers == (WriterKind.PARTICIPANT, WriterKind.IDEMPOTENT)


@pytest.mark.parametrize("level", CONSISTENT)
def test_h10_an_ordinary_group_that_lags_is_refused_until_it_is_saved_or_declared(
    topic: Branch, taking: Taking, level: Level
) -> None:
    external, group = (topic.topic,), f"lagging-{topic.topic}"
    commit(topic, group)
    with pytest.raises(Refused, match=rf"group {group} \(classic\) reads .*--group {group}=reader"):
        take(topic, taking, level, external=external)
    saved = take(topic, taking, level, {group: GroupPolicy.READER}, external)
    assert offsets(saved) == {group: {1: 1}}
    declared = take(topic, taking, level, {group: GroupPolicy.LEFT_OUT}, external)
    assert offsets(declared) == {}


def offsets(found: StoredCheckpoint) -> dict[str, dict[int, int]]:
    assert found.status is Status.COMPLETED
    assert found.cut is not None
    return {name: dict(group.offsets) for name, group in found.cut.groups.items()}


@pytest.mark.parametrize("level", CONSISTENT)
def test_h10_records_of_an_external_topic_have_no_cause_inside(
    topic: Branch, taking: Taking, level: Level
) -> None:
    """Also those that are written while it is taken."""
    with writing(topic):
        found = take(topic, taking, level, external=(topic.topic,))
    assert found.status is Status.COMPLETED


@contextmanager
def writing(topic: Branch) -> Iterator[None]:
    """Somebody writes records without headers all the while."""
    stop = Event()

    def write_on() -> None:
        while not stop.wait(0.01):
            write(topic, 2)

    writer = Thread(target=write_on, daemon=True)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join(SECONDS)


def test_h10_an_external_topic_is_one_of_the_topics(topic: Branch, taking: Taking) -> None:
    with pytest.raises(UsageError, match="--external names another, not among --topics"):
        take(topic, taking, Level.VERIFIED, external=("another",))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_h10_a_group_that_has_committed_nothing_is_on_the_topics_of_its_members(
    topic: Branch, client: ReadClient, protocol: str
) -> None:
    from confluent_kafka import Consumer

    group = f"{protocol}-of-{topic.topic}"
    settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol}
    settings |= {"enable.auto.commit": False}
    with closing(Consumer({**topic.connection, **settings}, logger=LOG)) as member:
        member.subscribe([topic.topic])

        def assigned() -> bool:
            member.poll(0.1)
            return len(member.assignment()) == topic.partitions

        wait_until(assigned, "an assignment")
        (found,) = groups(topic, client)
    assert (found.name, found.kind, found.reads) == (group, protocol, (topic.topic,))
    assert found.commits is Committing.UNKNOWN


def test_how_a_group_commits_is_read_off_its_last_commits(
    topic: Branch, client: ReadClient
) -> None:
    # The hash code of the second is negative: the sign decides on the partition of its offsets.
    for group in (f"plain-{topic.topic}", "billing"):
        commit(topic, group)
    looped = f"looped-{topic.topic}"
    loop(topic, looped)
    found = {group.name: group for group in groups(topic, client)}
    assert found[f"plain-{topic.topic}"].commits is Committing.PLAIN
    assert found["billing"].commits is Committing.PLAIN
    assert found[looped].commits is Committing.TRANSACTIONAL
    assert found[looped].writes == (topic.topic,)
    (evidence,) = read_evidence(client, (topic.topic,), topic.control, soon()).topics
    assert WriterKind.TRANSACTIONAL in evidence.writers


def test_the_open_transaction_of_another_group_is_waited_for(
    topic: Branch, client: ReadClient
) -> None:
    """Both groups commit to one partition, whose stable end is before the open transaction."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    commit(topic, f"plain-{topic.topic}")
    looped, count = f"looped-{topic.topic}", len(client.partitions((OFFSETS_TOPIC,), soon()))
    names = (f"open-{number}-{topic.topic}" for number in itertools.count())
    other = next(
        name
        for name in names
        if log_of(name, OFFSETS_TOPIC, count) == log_of(looped, OFFSETS_TOPIC, count)
    )
    producer = Producer({**topic.connection, "transactional.id": other}, logger=LOG)
    producer.init_transactions(SECONDS)
    with closing(Consumer({**topic.connection, "group.id": other}, logger=LOG)) as member:
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic.topic, 1, 1)], member.consumer_group_metadata(), SECONDS
        )
        loop(topic, looped)
        ending = Timer(1.0, producer.abort_transaction)
        ending.start()
        found = {group.name: group.commits for group in groups(topic, client)}
        ending.join()
    assert found[looped] is Committing.TRANSACTIONAL


def loop(topic: Branch, group: str) -> None:
    """One transaction that reads, writes and commits."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({**topic.connection, "transactional.id": group}, logger=LOG)
    producer.init_transactions(SECONDS)
    with closing(Consumer({**topic.connection, "group.id": group}, logger=LOG)) as member:
        producer.begin_transaction()
        producer.produce(topic.topic, nothing(), partition=1)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic.topic, 0, 2)], member.consumer_group_metadata(), SECONDS
        )
        producer.commit_transaction(SECONDS)
        # It answers once the marker is in the topic of offsets, too.
        (found,) = member.committed([TopicPartition(topic.topic, 0)], SECONDS)
        assert found.offset == 2


def groups(topic: Branch, client: ReadClient) -> tuple[GroupEvidence, ...]:
    return read_evidence(client, (topic.topic,), topic.control, soon()).groups


def soon() -> Deadline:
    return Deadline.after(SECONDS)


def test_h10_of_participants_topics_too_an_ordinary_reader_has_to_be_named(
    broker: Cluster, taking: Taking
) -> None:
    name = f"read-{uuid.uuid4().hex[:8]}"
    topic = Branch(broker, name, Guarantee.EXACTLY_ONCE, 2, f"control-{name}").open()
    reader = f"reader-of-{name}"
    commit(topic, reader)
    with pytest.raises(Refused, match=f"group {reader}"):
        take(topic, taking, Level.VERIFIED)
    named = {reader: GroupPolicy.READER}
    assert offsets(take(topic, taking, Level.VERIFIED, named)) == {reader: {1: 1}}
