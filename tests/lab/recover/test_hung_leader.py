"""A leader is stopped (SIGSTOP): the ends of the other leaders' logs are known all the same."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from breakglass.services.backup_watch import location
from breakglass.services.checkpoint.kafka.logs import Logs
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import Unreachable
from breakglass.services.kafka.marker_client import Small
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import Unanswered, read_leader_ends
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.scenarios.damage import make_patient
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.pipeline.source import WantedTopics, read_sources
from breakglass.services.recovery.execution.confirm import Observer, seen_in
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Rung,
)
from breakglass.services.recovery.group_standing import LeaderLog, read_leader_logs
from breakglass.services.session import Power, ReadAccess
from tests.kit.waiting import wait_until
from tests.lab.conftest import FreshCluster
from tests.lab.recover.session import reading
from tests.unit.pipeline.test_continuous import handed_out

ASK_SECONDS = 10.0
PATIENT_SECONDS = 240
"""The stopped broker stays leader in the brokers' metadata for as long as the test takes."""
LED, HUNG = TopicPartition("orders", 0), TopicPartition("orders", 1)
RECORDS = 25


@contextmanager
def hung_leader(cluster: Cluster) -> Iterator[ReadClient]:
    """b1 leads orders-0, b2 leads orders-1 and is stopped."""
    create_topic(cluster, "orders", [[1], [2]])
    for partition in (LED, HUNG):
        produce(cluster, partition.topic, partition.partition, RECORDS)
    make_patient(cluster, PATIENT_SECONDS)
    cluster.broker(2).pause()
    try:
        with reading(cluster) as client:
            client.describe(Deadline.after(ASK_SECONDS))
            yield client
    finally:
        cluster.broker(2).resume()


def test_a_stopped_leader_hides_the_log_ends_of_no_other_leader(
    fresh_cluster: FreshCluster,
) -> None:
    """One lab for all users of the log ends: each of them waits out the stopped leader once."""
    with hung_leader(fresh_cluster(brokers=2)) as client:
        states = client.partitions(("orders",), Deadline.after(ASK_SECONDS))
        by_partition = {state.partition: state for state in states}
        assert by_partition[HUNG].leader == 2

        ends = read_leader_ends(client.sender, states, Deadline.after(ASK_SECONDS))
        assert ends[LED] == RECORDS
        assert isinstance(ends[HUNG], Unanswered)

        lag = location.read_ends(client, {"orders"}, Deadline.after(ASK_SECONDS))
        assert lag.ends[LED] == RECORDS

        logs = read_leader_logs(client, states, {}, Deadline.after(ASK_SECONDS))
        led = logs[LED]
        assert isinstance(led, LeaderLog)
        assert (led.end, type(logs[HUNG])) == (RECORDS, Unanswered)

        wanted = WantedTopics(("orders",))
        (topic,) = read_sources(client, wanted, Deadline.after(ASK_SECONDS), partial=True)
        assert [(partition.partition, partition.stable_end) for partition in topic.partitions] == [
            (LED, RECORDS)
        ]
        assert set(topic.unread) == {HUNG.partition}

        logs_of_led = Logs(client, (by_partition[LED],))
        assert logs_of_led.high_watermarks(Deadline.after(ASK_SECONDS)) == {LED: RECORDS}
        with pytest.raises(Unreachable):
            Logs(client, states).high_watermarks(Deadline.after(ASK_SECONDS))

        targets = [
            ElectionTarget(
                partition=state.partition,
                topic_id=state.topic_id,
                designee=state.leader or 0,
                order=state.assignment,
                assignment=state.assignment,
                leader_epoch=state.leader_epoch,
                log_end=RECORDS,
                min_insync_replicas=1,
                live=(),
            )
            for state in states
        ]
        confirmed = Observer(client).log_ends(targets)
        assert confirmed[LED] == RECORDS
        assert isinstance(confirmed[HUNG], Unknown)

        waiting = [
            PartitionOutcome(target, RecoveryResult.ELECTED, "", target.designee, 0, Rung.SERVING)
            for target in targets
        ]
        seen = seen_in(Observer(client), waiting, by_partition, Deadline.after(ASK_SECONDS))
        assert set(seen) == {LED}


def test_a_stopped_leader_delays_no_stream_and_no_marker_of_other_leaders(
    fresh_cluster: FreshCluster,
) -> None:
    cluster = fresh_cluster(brokers=2)
    with hung_leader(cluster) as client:
        with handed_out(client, {HUNG: 0, LED: 0}) as batches:
            wait_until(lambda: batches, "a batch of the leader that answers", 3 * ASK_SECONDS)
        assert batches == [{LED: (0, RECORDS)}]

        states = client.partitions(("orders",), Deadline.after(ASK_SECONDS))
        power = Power(ReadAccess(connection_settings(ConnectionOptions(cluster.bootstrap_servers))))
        with power.markers(client.describe(Deadline.after(ASK_SECONDS)).cluster_id) as markers:
            # The leader that is stopped comes first.
            written = markers.write(
                sorted(states, key=lambda state: state.partition != HUNG),
                Small(b"marker", b""),
                Deadline.after(ASK_SECONDS),
            )
        assert written == {LED: RECORDS}
