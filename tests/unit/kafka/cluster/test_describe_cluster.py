"""The controller quorum as DescribeQuorum tells it: who is behind, and who has gone silent."""

from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse

from breakglass.services.kafka.cluster.describe_cluster import describe_quorum
from breakglass.services.model import known
from breakglass.services.snapshot import Quorum
from tests.kit.deadlines import ample
from tests.kit.fake_cluster import FakeCluster

NOW = 1_700_000_000_000
VOTERS = {
    101: {"log_end_offset": 90, "last_fetch_timestamp": -1, "last_caught_up_timestamp": NOW},
    102: {"log_end_offset": 88, "last_fetch_timestamp": NOW - 400},
    103: {"log_end_offset": 30, "last_fetch_timestamp": NOW - 60_000},
    104: {"log_end_offset": -1, "last_fetch_timestamp": -1},
}


def told(leader: int, **changed: int) -> Quorum:
    """What is made of an answer of four voters."""

    def answer(_: Any) -> Any:
        topic_class = DescribeQuorumResponse.TopicData
        state = topic_class.PartitionData.ReplicaState
        partition = topic_class.PartitionData(
            partition_index=0,
            leader_id=leader,
            leader_epoch=7,
            high_watermark=88,
            current_voters=[
                state(replica_id=one, **{**held, **changed}) for one, held in VOTERS.items()
            ],
            observers=[],
        )
        topic = topic_class(topic_name="__cluster_metadata", partitions=[partition])
        return DescribeQuorumResponse(topics=[topic], nodes=[])

    with FakeCluster(1) as cluster, closing(cluster.sender()) as sender:
        cluster.brokers[1].serve(DescribeQuorumRequest, answer)
        quorum = describe_quorum(sender, ample())
    assert isinstance(quorum, Quorum)
    return quorum


@pytest.mark.parametrize(
    ("leader", "changed"),
    [(-1, {}), (101, {"last_caught_up_timestamp": -1})],
    ids=["no leader to fetch from", "no time of the leader's"],
)
def test_silence_that_cannot_be_measured_is_unknown(leader: int, changed: dict[str, int]) -> None:
    assert not known(told(leader, **changed).voters[1].silent_ms)
