"""The generated incident that benchmarks of the console look at."""

from __future__ import annotations

from collections import Counter

from benchmarks._incident import KINDS, LARGEST, incident_served, tell
from benchmarks._metadata import serve_metadata
from benchmarks._replay import Replay
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.incident.incident import Incident
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.triage import triage
from breakglass.services.session import ReadAccess
from tests.kit.fake_cluster import FakeCluster

COUNT = 200


def read(address: Endpoint) -> Incident:
    access = ReadAccess(ConnectionSettings((address,)))
    with access.reading() as client:
        *_, last = triage(client, 10.0)
    return Incident.of(last)


def test_a_process_of_its_own_serves_every_verdict_it_was_made_for() -> None:
    with incident_served(COUNT) as served:
        host, _, port = served.address.partition(":")
        verdicts = Counter(row.verdict for row in read(Endpoint(host, int(port))).rows)
    assert verdicts.total() == COUNT
    assert verdicts.keys() == {Verdict.WAIT, Verdict.LOSS, Verdict.SAFE, Verdict.FORK}
    assert len(verdicts) == len(KINDS)


def test_half_of_the_partitions_are_of_one_topic() -> None:
    with FakeCluster() as cluster:
        tell(cluster, COUNT)
        assert sum(state.topic == LARGEST for state in cluster.story.states) == COUNT // 2


def test_what_was_asked_before_is_answered_from_memory() -> None:
    with FakeCluster() as cluster:
        tell(cluster, COUNT)
        broker = cluster.brokers[1]
        with Replay(broker.endpoint) as replay:
            cluster.story.addresses[1] = replay.endpoint
            first = read(replay.endpoint)
            asked = broker.frames
            again = read(replay.endpoint)
            assert broker.frames == asked
    assert [row.judged for row in first.rows] == [row.judged for row in again.rows]


def test_librdkafka_lists_the_topics() -> None:
    from confluent_kafka.admin import AdminClient

    with FakeCluster() as cluster:
        tell(cluster, COUNT)
        serve_metadata(cluster)
        admin = AdminClient({"bootstrap.servers": str(cluster.brokers[1].endpoint)})
        topics = admin.list_topics(timeout=10.0).topics
    assert len(topics[LARGEST].partitions) == COUNT // 2
    assert len(topics) == 24
