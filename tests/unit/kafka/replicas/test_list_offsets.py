"""One leader of two is hung: each reader of log ends still knows those of the other leader."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.backup_watch import location
from breakglass.services.checkpoint.kafka.logs import Logs
from breakglass.services.errors import Unreachable
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    NO_LEADER,
    EpochEnd,
    EpochWalk,
    OffsetError,
    Unanswered,
    read_leader_ends,
)
from breakglass.services.model import TopicPartition, known
from breakglass.services.pipeline.source import WantedTopics, read_sources
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
)
from breakglass.services.recovery.group_standing import LeaderLog, read_leader_logs
from tests.kit.deadlines import ample
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import TOPIC_ID
from tests.unit.kafka.replicas.replica_model import ModelReplica

HUNG, LED, LOST, OFFLINE = (TopicPartition("orders", number) for number in range(4))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """b2 leads orders-0 and is hung; b1 leads orders-1 with 40 records; b3 lost orders-2."""
    with FakeCluster(3) as cluster:
        for partition, leader in ((HUNG, 2), (LED, 1), (LOST, 3), (OFFLINE, None)):
            state = cluster.story.offline(partition, (1, 2))
            cluster.story.states[partition] = replace(state, leader=leader)
        cluster.hold(2, HUNG, (0, 10))
        cluster.hold(1, LED, (0, 40))
        cluster.brokers[2].hang(until=lambda: answered(cluster))
        yield cluster


@pytest.fixture
def brief_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who misses it has no say in which metadata is the newest; b2 is silent for longer."""
    monkeypatch.setattr(patience, "LOOK", 0.05)


def answered(cluster: FakeCluster) -> bool:
    """Whether b1 is asked beside b2: who waits for b2 first waits in vain."""
    asked = cluster.brokers[1].received
    return any(one.api_key in (FetchRequest.API_KEY, ListOffsetsRequest.API_KEY) for one in asked)


def target(partition: TopicPartition, designee: int) -> ElectionTarget:
    return ElectionTarget(partition, TOPIC_ID, designee, (1, 2), (1, 2), 5, 40, 1, ())


def test_each_partition_has_its_end_or_a_reason(cluster: FakeCluster, client: ReadClient) -> None:
    ends = read_leader_ends(client.sender, cluster.story.states.values(), ample())
    silent = ends[HUNG]
    assert ends[LED] == 40
    assert ends[OFFLINE] == NO_LEADER
    assert isinstance(ends[LOST], OffsetError)
    assert isinstance(silent, Unanswered)
    assert isinstance(silent.error, Unreachable)


def test_all_readers_know_the_other_leaders_end(cluster: FakeCluster, client: ReadClient) -> None:
    found = location.read_ends(client, {"orders"}, ample())
    assert (found.ends[LED], type(found.ends[HUNG])) == (40, Unanswered)
    logs = read_leader_logs(client, cluster.story.states.values(), {}, ample())
    led = logs[LED]
    assert isinstance(led, LeaderLog)
    assert (led.end, type(logs[HUNG])) == (40, Unanswered)
    ends = Observer(client).log_ends([target(HUNG, 2), target(LED, 1)])
    assert (ends[LED], known(ends[HUNG])) == (40, False)


@pytest.mark.usefixtures("brief_look")
def test_a_backup_copies_the_partitions_of_the_other_leader(client: ReadClient) -> None:
    (topic,) = read_sources(client, WantedTopics(("orders",)), ample(), partial=True)
    assert [source.partition for source in topic.partitions] == [LED]
    assert set(topic.unread) == {HUNG.partition, LOST.partition, OFFLINE.partition}


@pytest.mark.usefixtures("brief_look")
def test_what_needs_all_of_them_raises_the_error(cluster: FakeCluster, client: ReadClient) -> None:
    with pytest.raises(Unreachable):
        read_sources(client, WantedTopics(("orders",)), ample())
    states = (cluster.story.states[LED], cluster.story.states[HUNG])
    with pytest.raises(Unreachable):
        Logs(client, states).high_watermarks(ample())
    assert Logs(client, states[:1]).high_watermarks(ample()) == {LED: 40}


LARGEST_EPOCH = 2**31 - 1
_gaps = st.one_of(st.just(1), st.integers(1, 3), st.integers(1, 2**27))
_steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("next"), _gaps),
    st.tuples(st.just("lead"), _gaps),
    st.tuples(st.just("truncate"), st.integers(0, 12)),
    st.tuples(st.just("expire"), st.integers(1, 12)),
    st.tuples(st.just("start over"), st.integers(0, 40)),
)


@st.composite
def replicas(draw: st.DrawFn) -> tuple[ModelReplica, int]:
    """A replica after up to thirty steps as leader and follower, and the current leader epoch."""
    replica, epoch = ModelReplica(), draw(st.one_of(st.just(0), st.integers(0, 2**27)))
    for name, number in draw(st.lists(_steps, max_size=30)):
        if name == "append":
            replica.append(epoch, number)
        elif name == "truncate":
            replica.truncate(replica.end - number)
        elif name == "expire":
            replica.delete_below(replica.start + number)
        elif name == "start over":
            replica.start_over(number)
        else:
            epoch = min(LARGEST_EPOCH, epoch + number)
            if name == "lead":
                replica.lead(epoch)
    return replica, min(LARGEST_EPOCH, epoch + draw(st.integers(0, 3)))


def walked(walk: EpochWalk, replica: ModelReplica) -> int:
    """Answer *walk* out of *replica* until it asks no more; how many questions that took."""
    questions = 0
    while walk.question is not None:
        questions += 1
        assert questions < 1_000, "the walk does not end"
        walk.answer(*replica.answer(walk.question))
    return questions


class TestAgainstTheModel:
    @given(replicas(), st.one_of(st.just(True), st.none(), st.integers(-1, LARGEST_EPOCH)))
    def test_the_whole_history_is_what_the_records_say_whatever_hint_is_given(
        self, case: tuple[ModelReplica, int], hint: int | bool | None
    ) -> None:
        replica, current = case
        walk = EpochWalk(replica.end, current, replica.newest_epoch if hint is True else hint)
        walked(walk, replica)
        event(f"{min(len(replica.ranges), 4)} epochs")
        if walk.astray:
            walk.start_at(replica.start)
        assert walk.history.ranges == replica.ranges
        assert walk.history.complete_from <= replica.start or replica.ranges == ()

    @given(replicas(), st.integers(1, 6))
    def test_what_it_knows_halfway_is_true(
        self, case: tuple[ModelReplica, int], depth: int
    ) -> None:
        """A walk may stop at any depth: what it tells is true, and says from where on."""
        replica, current = case
        assume(replica.ranges)
        walk = EpochWalk(replica.end, current, replica.newest_epoch)
        while walk.question is not None and len(walk.history.ranges) < depth:
            walk.answer(*replica.answer(walk.question))
        told = walk.history
        newer = [range_ for range_ in replica.ranges if range_.start >= told.complete_from]
        assert list(told.ranges) == newer
        assert told.last_written == (newer[-1].epoch if newer else None)


def test_a_log_that_changes_meanwhile_never_ends_up_known_and_wrong() -> None:
    """The answers fit no log: the walk says so, instead of telling of no records."""
    walk = EpochWalk(50, 3, None)
    while walk.question is not None:
        walk.answer(EpochEnd(walk.question, 20), 0)
    assert walk.astray
