"""Sends the lab's own requests to its nodes, and reads fenced brokers and partitions from them.

It does not use the product's client: the facts that tests compare the product with must not be
read by the product.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from breakglass.services.errors import ConnectFailed, LabError, TimedOut, UnsupportedByCluster
from breakglass.services.lab.layout import Address
from breakglass.services.model import PartitionState, TopicPartition, Unknown

CLIENT_ID = "breakglass-lab"
CORRELATION_ID = 1
ACCEPT_SECONDS = 1.0


def accepts(address: Address) -> bool:
    """Whether a connection to *address* is accepted."""
    try:
        socket.create_connection(address, timeout=ACCEPT_SECONDS).close()
    except OSError:
        return False
    return True


class Conversation:
    """Requests and answers with the node that listens plaintext at *address*, one at a time.

    Raises:
        ConnectFailed: nothing listens, or the connection broke.
        TimedOut: *seconds* passed since the conversation began.
    """

    def __init__(self, address: Address, seconds: float) -> None:
        self._address = address
        self._give_up = time.monotonic() + seconds
        try:
            self._socket = socket.create_connection(address, timeout=seconds)
        except OSError as error:
            raise self._translated(error) from error
        try:
            from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

            answer = self._exchange(ApiVersionsRequest(), ApiVersionsResponse, 0)
            self._versions = {api.api_key: int(api.max_version) for api in answer.api_keys}
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Any, response_class: Any) -> Any:
        """The decoded answer, in the highest version that both sides know.

        Raises:
            UnsupportedByCluster: the node does not serve this api.
        """
        offered = self._versions.get(request.API_KEY)
        if offered is None:
            raise UnsupportedByCluster(
                f"{self._address} does not serve {request.name}: use a newer Kafka."
            )
        return self._exchange(request, response_class, min(request.max_version, offered))

    def _exchange(self, request: Any, response_class: Any, version: int) -> Any:
        request.API_VERSION = version
        request.with_header(correlation_id=CORRELATION_ID, client_id=CLIENT_ID)
        try:
            self._limit()
            self._socket.sendall(request.encode(header=True, framed=True))
            (size,) = struct.unpack(">i", self._read(4))
            frame = self._read(size)
        except OSError as error:
            raise self._translated(error) from error
        return response_class.decode(frame, version=version, header=True)

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._limit()
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionResetError("the node closed the connection")
            parts += part
        return bytes(parts)

    def _limit(self) -> None:
        remaining = self._give_up - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._socket.settimeout(remaining)

    def _translated(self, error: OSError) -> ConnectFailed | TimedOut:
        if isinstance(error, TimeoutError):
            return TimedOut(f"{self._address} did not answer in time: is that node paused?")
        return ConnectFailed(f"{self._address} cannot be reached ({error}): start that node.")


NULL_ELR = Unknown("this Kafka has no eligible leader replicas")


def read_fenced(node: Conversation, cluster_id: str) -> dict[int, bool]:
    """The registered brokers, each with whether it is fenced.

    Before Kafka 4.0 fenced brokers are left out of the answer altogether.

    Raises:
        LabError: a broker of another cluster than *cluster_id* answers.
    """
    from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

    request = DescribeClusterRequest(include_fenced_brokers=True)
    answer = node.ask(request, DescribeClusterResponse)
    if answer.cluster_id != cluster_id:
        raise LabError(
            f"Cluster {answer.cluster_id} answers in place of this lab, {cluster_id}: another "
            "program took its ports. End the other lab, or make this one again."
        )
    return {broker.broker_id: bool(broker.is_fenced) for broker in answer.brokers}


def read_partitions(node: Conversation, topics: Sequence[str]) -> tuple[PartitionState, ...]:
    """Every partition of *topics*, as *node* has it; of all topics when none is named.

    Raises:
        LabError: a topic does not exist there.
    """
    from kafka.protocol.admin import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

    wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=topic) for topic in sorted(topics)]
    found: list[PartitionState] = []
    cursor: Any = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=wanted, cursor=cursor)
        answer = node.ask(request, DescribeTopicPartitionsResponse)
        found.extend(state for topic in answer.topics for state in _states(topic))
        if answer.next_cursor is None:
            return tuple(found)
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )


def _states(topic: Any) -> list[PartitionState]:
    if topic.error_code:
        raise LabError(
            f"Topic {topic.name} cannot be described (error {topic.error_code}): create it first."
        )
    return [
        PartitionState(
            partition=TopicPartition(topic.name, partition.partition_index),
            topic_id=topic.topic_id,
            leader=partition.leader_id if partition.leader_id >= 0 else None,
            leader_epoch=partition.leader_epoch,
            assignment=tuple(partition.replica_nodes),
            isr=tuple(partition.isr_nodes),
            elr=_elr(partition.eligible_leader_replicas),
            last_known_elr=_elr(partition.last_known_elr),
            offline_replicas=tuple(partition.offline_replicas),
        )
        for partition in topic.partitions
    ]


def _elr(ids: Sequence[int] | None) -> tuple[int, ...] | Unknown:
    return NULL_ELR if ids is None else tuple(ids)
