"""A time bomb that was stopped is not taken for a broker whose start brings everything back."""

from collections.abc import Iterator

import pytest

from breakglass.services.model import Forfeited, TopicPartition
from breakglass.services.recovery.judgement.assessment import Verb
from tests.kit.fake_cluster import FakeCluster
from tests.unit.incident.conftest import Session, Watched

CARTS = TopicPartition("carts", 0)
NEVER_READ = TopicPartition("never-read", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """b3 led `carts` last and came back EMPTY; b1 and b2 hold records."""
    with FakeCluster(3) as cluster:
        cluster.story.offline(CARTS, (3, 1, 2), last=(3,))
        for broker, records in ((1, 100), (2, 150)):
            cluster.hold(broker, CARTS, (0, records))
        cluster.hold(3, CARTS)
        yield cluster


@pytest.mark.parametrize("everything", [False, True])
def test_once_it_is_stopped_it_is_to_be_kept_down(watched: Watched, everything: bool) -> None:
    assert watched.words() == "BOMB stop b3 NOW"
    watched.stop(3)
    assert watched.words(everything=everything) == "SAFE elect b2"
    found = watched.read().assessment(CARTS)
    assert found is not None
    replica = found.evidence.replica(3)
    assert replica is not None
    assert isinstance(replica.log_end, Forfeited)
    assert any("keep b3 down" in reason for reason in found.reasons)
    assert found.restorers == ()


def test_a_broker_never_read_is_waited_for_until_it_is_declared_gone(watched: Watched) -> None:
    watched.stop(3)
    assert watched.words() == "WAIT start b3"
    watched.watch.declare_gone([3])
    assert watched.words() == "SAFE elect b2"
    watched.watch.declare_gone([])
    assert watched.words() == "WAIT start b3"


def test_r02_a_broker_that_was_empty_in_one_partition_is_started_for_no_other_one(
    cluster: FakeCluster, session: Session, watched: Watched
) -> None:
    """A start is of the whole broker: it would lead the one, too, and empty it."""
    assert watched.words() == "BOMB stop b3 NOW"
    cluster.story.offline(NEVER_READ, (3, 1, 2), last=(3,))
    for broker in (1, 2):
        cluster.hold(broker, NEVER_READ, (0, 10))
    watched.stop(3)
    for one in (session(), watched):
        found = one.read()
        assert "start b3" not in found.summary.headline.lower()
        assert all(row.action and row.action.verb is Verb.ELECT for row in found.rows)
        assessment = found.assessment(NEVER_READ)
        assert assessment is not None
        assert any("keep it down" in reason for reason in assessment.reasons)
