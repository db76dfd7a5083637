"""KIP-1275's own requests, served in the place of brokers that lack them.

Log ends are those on the brokers' disks; designees are elected by a reorder, which is undone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from breakglass.services.kafka.wire.api_keys import ELECT_LEADERS
from breakglass.services.kafka.wire.messages.kip1275 import (
    DEFAULT_API_KEY,
    DESIGNATED_SINCE,
    ElectLeadersRequest,
    ElectLeadersResponse,
    LogInfoSchema,
    replica_log_info,
)
from breakglass.services.kafka.wire.passing import Head, answer_frame, request_body
from breakglass.services.lab.layout import Address
from breakglass.services.lab.proxy import Service
from breakglass.services.lab.topics import elect_unclean, reassign
from breakglass.services.model import PartitionState, TopicPartition
from tests.lab.scenarios.damaged import Damaged

CLUSTER_AUTHORIZATION_FAILED = 31


@dataclass
class Native:
    """What one broker pretends to be able to do; may be changed while it serves."""

    lab: Damaged
    broker: int
    form: LogInfoSchema = LogInfoSchema.KIP
    api_key: int = DEFAULT_API_KEY
    deny_cluster_action: bool = False
    errors: dict[TopicPartition, int] = field(default_factory=dict)
    """Error codes to answer for single partitions."""

    @property
    def offers(self) -> dict[int, tuple[int, int] | None]:
        return {self.api_key: (0, 0), ELECT_LEADERS: (0, DESIGNATED_SINCE)}

    def services(self, upstream: Address, fail: Callable[[str], None]) -> Mapping[int, Service]:
        return {self.api_key: self._log_info, ELECT_LEADERS: self._elect}

    def _states(self) -> dict[TopicPartition, PartitionState]:
        return {state.partition: state for state in self.lab.cluster.partitions()}

    def _log_info(self, head: Head, frame: bytes) -> bytes:
        messages = replica_log_info(self.form, self.api_key)
        request = request_body(messages.request_class, head.api_version, frame[head.end :])
        states = {(one.topic_id, one.partition.partition): one for one in self._states().values()}
        topic_class = messages.response_class.TopicPartitionLogInfo
        answers = [
            topic_class(
                topic_id=topic.topic_id,
                partition_log_info=[
                    topic_class.PartitionLogInfo(**self._entry(states[topic.topic_id, number]))
                    for number in topic.partitions
                ],
            )
            for topic in request.topic_partitions
        ]
        answer = messages.response_class(topic_partition_log_info_list=answers)
        return answer_frame(head, answer)

    def _entry(self, state: PartitionState) -> dict[str, Any]:
        """What the answer says of one partition."""
        denied = CLUSTER_AUTHORIZATION_FAILED if self.deny_cluster_action else 0
        error = denied or self.errors.get(state.partition, 0)
        replica = self.lab.truth_of(state.partition).replica(self.broker)
        end, written, current = replica.log_end, replica.epochs[-1].epoch, state.leader_epoch
        if error:
            end = written = current = -1
        entry = {"partition": state.partition.partition, "log_end_offset": end, "error_code": error}
        if self.form is LogInfoSchema.KIP:
            return {**entry, "partition_leader_epoch": current}
        return {**entry, "last_written_leader_epoch": written, "current_leader_epoch": current}

    def _elect(self, head: Head, frame: bytes) -> bytes | None:
        """Elect the designees; versions that designate nobody are the broker's."""
        if head.api_version < DESIGNATED_SINCE:
            return None
        request = request_body(ElectLeadersRequest, head.api_version, frame[head.end :])
        wanted = {
            TopicPartition(topic.topic, number): leader
            for topic in request.topic_partitions
            for number, leader in zip(topic.partitions, topic.designated_leaders, strict=True)
        }
        self._lead({one: leader for one, leader in wanted.items() if one not in self.errors})
        topic_class = ElectLeadersResponse.ReplicaElectionResult
        results = [
            topic_class.PartitionResult(
                partition_id=one.partition, error_code=self.errors.get(one, 0)
            )
            for one in wanted
        ]
        (name,) = {one.topic for one in wanted}
        answer = topic_class(topic=name, partition_result=results)
        return answer_frame(head, ElectLeadersResponse(replica_election_results=[answer]))

    def _lead(self, leaders: Mapping[TopicPartition, int]) -> None:
        if leaders:
            states, cluster = self._states(), self.lab.cluster
            orders = {one: states[one].assignment for one in leaders}
            reassign(
                cluster,
                {
                    one: (leader, *(other for other in orders[one] if other != leader))
                    for one, leader in leaders.items()
                },
            )
            elect_unclean(cluster, *leaders)

            def led() -> bool:
                found = self._states()
                return all(found[one].leader == leader for one, leader in leaders.items())

            cluster.wait_until(led, "the designees to lead")
            reassign(cluster, orders)
