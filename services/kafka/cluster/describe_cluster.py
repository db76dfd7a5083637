"""Reads brokers, cluster id and KRaft quorum, as the cluster describes itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, TimedOut, UnsupportedByCluster, WrongCluster
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    REQUEST_TIMED_OUT,
    cluster_error,
    denied,
    describe_error,
    unbelievable,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import NotOffered, Silent, Unknown
from breakglass.services.snapshot import Broker, ClusterDescription, Quorum, Voter

KRAFT_VERSION = "kraft.version"
"""The feature of a quorum whose voters are in the metadata log: it is dynamic from 1 on."""
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
SILENT_QUORUM = Silent("the controller quorum does not answer")


BROKERS, CONTROLLERS = 1, 2
"""Types of endpoints in DescribeClusterRequest.json."""


def describe_cluster(
    sender: Sender, deadline: Deadline, endpoints: int = BROKERS
) -> ClusterDescription:
    """Ask for brokers and cluster id, including fenced brokers where the cluster lists them.

    With CONTROLLERS, which only the listener of a controller answers (Kafka 3.7), the brokers are
    the controllers that have registered.

    Raises:
        Unreachable: no bootstrap server answers.
        ClusterError: the broker refused, or its answer cannot be a broker's.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeClusterRequest,
        DescribeClusterResponse,
    )

    offered = sender.offers(ANY_BROKER, DescribeClusterRequest.API_KEY, deadline)
    names_fenced = offered is not None and offered[1] >= 2
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=endpoints,
        include_fenced_brokers=names_fenced and endpoints == BROKERS,
    )
    answer = sender.call(ANY_BROKER, request, DescribeClusterResponse, deadline)
    if answer.error_code:
        raise cluster_error(
            answer.error_code, "describing the cluster", "DESCRIBE on CLUSTER", answer.error_message
        )
    brokers = tuple(
        Broker(one.broker_id, one.host, one.port, one.rack, names_fenced and bool(one.is_fenced))
        for one in answer.brokers
    )
    if len({broker.id for broker in brokers}) < len(brokers) or not all(map(_possible, brokers)):
        raise unbelievable(sender.name(ANY_BROKER), "lists a broker twice, or one that cannot be")
    if not _CLUSTER_ID.fullmatch(answer.cluster_id):
        raise unbelievable(sender.name(ANY_BROKER), "names a cluster id that cannot be")
    return ClusterDescription(answer.cluster_id, brokers, names_fenced)


_CLUSTER_ID = re.compile(r"(?!\.{1,2}$)[!-~]{1,64}", re.ASCII)
"""Usually 22 characters of base64; `kafka-storage format` takes others. State folders have it."""


def _possible(broker: Broker) -> bool:
    """Whether a broker can have that id and port; a fenced one may have no port."""
    return broker.id >= 0 and -1 <= broker.port < 65_536


def describe_quorum(
    sender: Sender, deadline: Deadline, broker: int = ANY_BROKER
) -> Quorum | Unknown:
    """Ask *broker* for the controller quorum; without a quorum, say so instead of waiting (R20).

    `Silent` when the quorum does not answer: a broker retries a forwarded request for a minute,
    and answers requests that need no controller at once (ForwardingManager.scala).
    """
    answer = quorum_members(sender, deadline, broker)
    return answer if isinstance(answer, Unknown) else answer[0]


def quorum_members(
    sender: Sender, deadline: Deadline, broker: int = ANY_BROKER
) -> tuple[Quorum, tuple[Voter, ...]] | Unknown:
    """The same, with the observers: nodes that follow the log and have no vote, as brokers do."""
    answer = _asked(sender, deadline, broker)
    if isinstance(answer, Unknown):
        return answer
    leader = _leader(answer)
    quorum = Quorum(
        leader=answer.leader_id if answer.leader_id >= 0 else None,
        leader_epoch=answer.leader_epoch,
        high_watermark=answer.high_watermark,
        voters=tuple(_voter(voter, leader) for voter in answer.current_voters),
    )
    return quorum, tuple(_voter(one, leader) for one in answer.observers)


def heard_by_controllers(sender: Sender, brokers: Sequence[int], deadline: Deadline) -> int | None:
    """The first of *brokers* to which the controller quorum answers; None if there is none."""
    if not brokers:
        return None
    with ThreadPoolExecutor(len(brokers), "quorum") as threads:
        answers = threads.map(lambda broker: describe_quorum(sender, deadline, broker), brokers)
        found = zip(brokers, answers, strict=True)
        return next((broker for broker, answer in found if isinstance(answer, Quorum)), None)


def read_controller_time(sender: Sender, deadline: Deadline) -> int | Unknown:
    """The time by the clock of the quorum's leader, in milliseconds since 1970.

    It reports the current time as its own last caught-up time (KIP-836). Brokers tell no time.
    """
    answer = _asked(sender, deadline)
    if isinstance(answer, Unknown):
        return answer
    leader = _leader(answer)
    told = -1 if leader is None else int(leader.last_caught_up_timestamp)
    return told if told > 0 else Unknown("the controller does not tell the time")


def _asked(sender: Sender, deadline: Deadline, broker: int = ANY_BROKER) -> Any:
    """The quorum's own partition in the answer, or Unknown."""
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )

    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequest.TopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)],
            )
        ]
    )
    limit = deadline.sooner(patience.CONTROLLER)
    try:
        answer = sender.call(broker, request, DescribeQuorumResponse, limit, lane="quorum")
    except TimedOut:
        return SILENT_QUORUM
    except UnsupportedByCluster as error:
        return NotOffered(str(error))
    except BreakglassError as error:
        return Unknown(f"the controller quorum cannot be asked: {error}")
    if answer.error_code:
        return _untold(answer)
    partitions = answer.topics[0].partitions if answer.topics else ()
    if not partitions:
        return Unknown("the answer about the controller quorum is empty")
    partition = partitions[0]
    return _untold(partition) if partition.error_code else partition


def _untold(refusal: Any) -> Unknown:
    if refusal.error_code in AUTHORIZATION_CODES:
        return denied("DESCRIBE on CLUSTER")
    if refusal.error_code == REQUEST_TIMED_OUT:
        return SILENT_QUORUM
    return Unknown(describe_error(refusal.error_code, refusal.error_message))


def _leader(partition: Any) -> Any:
    """The voter that leads the quorum; None where nobody does."""
    voters = partition.current_voters
    return next((voter for voter in voters if voter.replica_id == partition.leader_id), None)


def _voter(voter: Any, leader: Any) -> Voter:
    if voter.log_end_offset < 0:
        silent = Unknown(f"voter {voter.replica_id} has not fetched from the quorum leader")
        return Voter(voter.replica_id, silent, silent, silent)
    leader_end = -1 if leader is None else leader.log_end_offset
    lag = max(0, leader_end - voter.log_end_offset)
    return Voter(voter.replica_id, voter.log_end_offset, lag, _silent_ms(voter, leader))


def _silent_ms(voter: Any, leader: Any) -> int | Unknown:
    """The leader reports the current time as its own last caught-up time."""
    if leader is None:
        return Unknown("the quorum has no leader that voters could fetch from")
    if voter is leader:
        return 0
    now, fetched = leader.last_caught_up_timestamp, voter.last_fetch_timestamp
    if min(now, fetched) < 0:
        return Unknown(f"when voter {voter.replica_id} last fetched is not known")
    return int(max(0, now - fetched))


def require_same_cluster(before: str, now: str) -> None:
    """Return if the addresses still belong to the cluster that was read *before*.

    Raises WrongCluster: the addresses now belong to the cluster *now*.
    """
    if now != before:
        raise WrongCluster(
            f"these addresses lead to cluster {now} now, and {before} was read: check tunnels and "
            "names, then start again"
        )
