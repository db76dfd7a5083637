"""In a quiet moment nothing is promised that the prefixes and the groups do not bear out (H10)."""

import itertools
from collections.abc import Mapping
from contextlib import closing
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from breakglass.services.checkpoint.kafka.control import marker_headers
from breakglass.services.checkpoint.kafka.evidence import LAST_OFFSETS, read_evidence
from breakglass.services.checkpoint.protocol.lineage import Committing, GroupEvidence, WriterKind
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import Refused
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import log_of
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch, soon
from tests.lab.checkpoint.plain import all_the_while, loop, write
from tests.lab.checkpoint.taking import Taking, cut_of, why_failed

consistent = pytest.mark.parametrize("level", [Level.COORDINATED, Level.VERIFIED])


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


def offsets(found: StoredCheckpoint) -> dict[str, dict[int, int]]:
    assert found.status is Status.COMPLETED
    return {name: dict(group.offsets) for name, group in cut_of(found).groups.items()}


def groups_on(topic: Branch, client: ReadClient) -> tuple[GroupEvidence, ...]:
    return read_evidence(client, (topic.topic,), topic.control, soon()).groups


@consistent
def test_h10_records_without_ids_are_refused_though_nothing_is_written_at_that_time(
    plain: Branch, taking: Taking, level: Level
) -> None:
    with pytest.raises(Refused, match="writer: idempotent"):
        take(plain, taking, level)
    assert f"{plain.topic}-" in why_failed(taking.store)


def test_h10_markers_hide_no_record_before_them(plain: Branch, client: ReadClient) -> None:
    """Each checkpoint that was refused leaves one more of them."""
    count = 2 * LAST_OFFSETS * plain.partitions
    markers = [(number % plain.partitions, b"") for number in range(count)]
    plain.put(markers, headers=marker_headers(1))
    (found,) = read_evidence(client, (plain.topic,), plain.control, soon()).topics
    assert not found.stamped
    assert found.writers == (WriterKind.IDEMPOTENT,)


@consistent
def test_h10_an_ordinary_group_that_lags_is_refused_until_it_is_saved_or_declared(
    plain: Branch, taking: Taking, level: Level
) -> None:
    external, group = (plain.topic,), f"lagging-{plain.topic}"
    plain.commit(group)
    with pytest.raises(Refused, match=f"--group {group}=reader"):
        take(plain, taking, level, external=external)
    saved = take(plain, taking, level, {group: GroupPolicy.READER}, external)
    assert offsets(saved) == {group: {1: 1}}
    declared = take(plain, taking, level, {group: GroupPolicy.LEFT_OUT}, external)
    assert offsets(declared) == {}


@consistent
def test_h10_records_of_an_external_topic_have_no_cause_inside(
    plain: Branch, taking: Taking, level: Level
) -> None:
    """Also those that are written while it is taken."""
    with all_the_while(lambda: write(plain, 2)):
        found = take(plain, taking, level, external=(plain.topic,))
    assert found.status is Status.COMPLETED


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_h10_a_group_that_has_committed_nothing_is_on_the_topics_of_its_members(
    plain: Branch, client: ReadClient, protocol: str
) -> None:
    group = f"{protocol}-of-{plain.topic}"
    settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol}
    settings |= {"enable.auto.commit": False}
    with closing(Consumer({**plain.connection, **settings}, logger=LOG)) as member:
        member.subscribe([plain.topic])

        def assigned() -> bool:
            member.poll(0.1)
            return len(member.assignment()) == plain.partitions

        wait_until(assigned, "an assignment")
        (found,) = groups_on(plain, client)
    assert (found.name, found.kind, found.reads) == (group, protocol, (plain.topic,))
    assert found.commits is Committing.UNKNOWN


def test_how_a_group_commits_is_read_off_its_last_commits(
    plain: Branch, client: ReadClient
) -> None:
    # The hash code of the second is negative: the sign decides on the partition of its offsets.
    for group in (f"plain-{plain.topic}", "billing"):
        plain.commit(group)
    looped = f"looped-{plain.topic}"
    loop(plain, looped)
    found = {group.name: group for group in groups_on(plain, client)}
    assert found[f"plain-{plain.topic}"].commits is Committing.PLAIN
    assert found["billing"].commits is Committing.PLAIN
    assert found[looped].commits is Committing.TRANSACTIONAL
    assert found[looped].writes == (plain.topic,)
    (evidence,) = read_evidence(client, (plain.topic,), plain.control, soon()).topics
    assert WriterKind.TRANSACTIONAL in evidence.writers


def test_the_open_transaction_of_another_group_is_waited_for(
    plain: Branch, client: ReadClient
) -> None:
    """Both groups commit to one partition, whose stable end is before the open transaction."""
    plain.commit(f"plain-{plain.topic}")
    looped, count = f"looped-{plain.topic}", len(client.partitions((OFFSETS_TOPIC,), soon()))
    names = (f"open-{number}-{plain.topic}" for number in itertools.count())
    place = log_of(looped, OFFSETS_TOPIC, count)
    other = next(name for name in names if log_of(name, OFFSETS_TOPIC, count) == place)
    consumer = Consumer({**plain.connection, "group.id": other}, logger=LOG)
    with plain.transaction(other) as producer, closing(consumer) as member:
        place_of_it = [TopicPartition(plain.topic, 1, 1)]
        producer.send_offsets_to_transaction(place_of_it, member.consumer_group_metadata(), SECONDS)
        loop(plain, looped)
        ending = Timer(1.0, producer.abort_transaction)
        ending.start()
        found = {group.name: group.commits for group in groups_on(plain, client)}
        ending.join()
    assert found[looped] is Committing.TRANSACTIONAL
