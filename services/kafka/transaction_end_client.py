"""The client that ends a hanging transaction by writing its marker.

A leader accepts the marker from any client with ALTER on CLUSTER, if neither the producer epoch nor
the coordinator epoch is below the partition's last of that producer (tried on 3.9.2 and 4.3.1;
ProducerAppendInfo.appendEndTxnMarker). It also accepts a coordinator epoch above the true one, and
would then fence the true coordinator: send the epoch of the coordinator's own marker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from breakglass.services.kafka.wire.answers import AUTHORIZATION_CODES, describe_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition

NOT_ENOUGH_REPLICAS = 19
COORDINATOR_FENCED = 52
UNKNOWN_SERVER_ERROR = -1


@dataclass(frozen=True, slots=True)
class EndMarker:
    """The end of one producer's transaction, as its coordinator wrote it or would write it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool

    @property
    def word(self) -> str:
        return "commit" if self.commit else "abort"


class TransactionEndClient:
    """Writes markers, one partition at a time; constructed only in armed sessions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def end(
        self, leader: int, partition: TopicPartition, marker: EndMarker, deadline: Deadline
    ) -> str:
        """Make *leader* append *marker* to *partition*; an error in words, "" for done.

        Raises:
            Unreachable: the leader could not be connected to; nothing was sent.
            OutcomeUnknown: no answer; the marker may or may not have been written.
        """
        from breakglass.services.kafka.wire.messages.other import VERSION, WriteTxnMarkersResponse

        answer = self._sender.change(
            leader,
            _request(partition, marker),
            WriteTxnMarkersResponse,
            deadline,
            f"writing the {marker.word} marker of producer {marker.producer_id} to {partition}",
            "run `breakglass after transactions list` to see whether it is still open",
            max_version=VERSION,
        )
        codes = [
            told.error_code
            for one in answer.markers
            if one.producer_id == marker.producer_id
            for topic in one.topics
            if topic.name == partition.topic
            for told in topic.partitions
            if told.partition_index == partition.partition
        ]
        return _words(codes[0]) if codes else "left out of the answer"


def _request(partition: TopicPartition, marker: EndMarker) -> Any:
    from breakglass.services.kafka.wire.messages.other import WriteTxnMarkersRequest

    marker_class = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker_class.WritableTxnMarkerTopic(
        name=partition.topic, partition_indexes=[partition.partition]
    )
    return WriteTxnMarkersRequest(
        markers=[
            marker_class(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                topics=[topic],
                coordinator_epoch=marker.coordinator_epoch,
            )
        ]
    )


def _words(code: int) -> str:
    if code in AUTHORIZATION_CODES:
        return "not allowed: needs ALTER on CLUSTER"
    if code == NOT_ENOUGH_REPLICAS:
        return f"{describe_error(code)}: start brokers until min.insync.replicas is met, then again"
    if code == COORDINATOR_FENCED:
        return f"{describe_error(code)}: a newer coordinator has written to it since: look again"
    if code == UNKNOWN_SERVER_ERROR:
        return f"{describe_error(code)}: the broker's log says why (a newer epoch of the producer?)"
    return describe_error(code) if code else ""
