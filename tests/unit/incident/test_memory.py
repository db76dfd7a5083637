"""A time bomb that was stopped is not taken for a broker whose start brings everything back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import pytest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.incident import broker_liveness, watch
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.model import Forfeited, TopicPartition
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.session import Effort, ReadAccess
from tests.kit.deadlines import endless
from tests.kit.fake_cluster import FakeCluster

CARTS = TopicPartition("carts", 0)


@pytest.fixture
def bombed(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """b3 led `carts` last and came back EMPTY; b1 and b2 hold records."""
    endless(monkeypatch)
    monkeypatch.setattr(broker_liveness, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "METADATA_SHARE", 1.0)
    with FakeCluster(3) as cluster:
        cluster.story.offline(CARTS, (3, 1, 2), last=(3,))
        for broker, records in ((1, 100), (2, 150)):
            cluster.hold(broker, CARTS, (0, records))
        cluster.hold(3, CARTS)
        yield cluster


def opened(cluster: FakeCluster) -> IncidentWatch:
    settings = ConnectionSettings((cluster.brokers[1].endpoint, cluster.brokers[2].endpoint))
    return IncidentWatch(ReadAccess(settings, contents=Effort.FULL))


@pytest.fixture
def watched(bombed: FakeCluster) -> Iterator[IncidentWatch]:
    with closing(opened(bombed)) as watched:
        yield watched


def last(
    watched: IncidentWatch, before: Incident | None = None, *, everything: bool = False
) -> Incident:
    *_, incident = watched.read(before, everything=everything)
    return incident


def stop_b3(cluster: FakeCluster) -> None:
    cluster.story.fenced = {3}
    cluster.brokers[3].stop()


def words(incident: Incident) -> str:
    (row,) = incident.rows
    return f"{row.verdict} {row.action}"


@pytest.fixture
def seen(watched: IncidentWatch) -> Incident:
    """b3 is known as EMPTY."""
    incident = last(watched)
    assert words(incident) == "BOMB stop b3 NOW"
    return incident


@pytest.mark.parametrize("everything", [False, True])
def test_once_it_is_stopped_its_start_is_not_proposed(
    bombed: FakeCluster, watched: IncidentWatch, seen: Incident, everything: bool
) -> None:
    stop_b3(bombed)
    after = last(watched, seen, everything=everything)
    assert words(after) == "SAFE elect b2"


def test_r02_a_console_that_is_opened_later_does_not_propose_its_start_either(
    bombed: FakeCluster, watched: IncidentWatch, seen: Incident
) -> None:
    stop_b3(bombed)
    with closing(opened(bombed)) as later:
        assert words(last(later)) == "SAFE elect b2"


def test_it_says_to_keep_the_broker_down(
    bombed: FakeCluster, watched: IncidentWatch, seen: Incident
) -> None:
    stop_b3(bombed)
    found = last(watched, seen).assessment(CARTS)
    assert found is not None
    replica = found.evidence.replica(3)
    assert replica is not None
    assert isinstance(replica.log_end, Forfeited)
    assert any("keep b3 down" in reason for reason in found.reasons)
    assert found.restorers == ()


def test_a_broker_that_was_never_read_is_still_worth_waiting_for(
    bombed: FakeCluster, watched: IncidentWatch
) -> None:
    stop_b3(bombed)
    assert words(last(watched)) == "WAIT start b3"


def test_a_topic_created_again_is_another_one(
    bombed: FakeCluster, watched: IncidentWatch, seen: Incident
) -> None:
    stop_b3(bombed)
    state = bombed.story.states[CARTS]
    bombed.story.states[CARTS] = replace(state, topic_id=uuid4())
    assert last(watched, seen).rows[0].verdict is Verdict.WAIT


def test_a_broker_declared_gone_is_not_waited_for_until_that_is_taken_back(
    bombed: FakeCluster, watched: IncidentWatch
) -> None:
    stop_b3(bombed)
    before = last(watched)
    watched.declare_gone([3])
    gone = last(watched, before)
    assert words(gone) == "SAFE elect b2"
    watched.declare_gone([])
    assert words(last(watched, gone)) == "WAIT start b3"
