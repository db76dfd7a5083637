"""Snapshots by small integers, for tables."""

from collections.abc import Sequence
from uuid import UUID

from breakglass.services.model import (
    PartitionState,
    Reassignment,
    TopicPartition,
    TopicSettings,
    Unknown,
)
from breakglass.services.snapshot import Broker, ClusterDescription, ClusterSnapshot, Quorum, Voter

TOPIC_ID = UUID("11111111-2222-3333-4444-555555555555")
QUORUM = Quorum(101, 7, 900, (Voter(101, 900, 0, 0), Voter(102, 890, 10, 300)))
SECOND = 1_000


def state(
    number: int = 0,
    isr: Sequence[int] = (1, 2, 3),
    *,
    topic: str = "orders",
    leader: int | None = -1,
    assignment: Sequence[int] = (1, 2, 3),
    moving: Reassignment | Unknown | None = None,
) -> PartitionState:
    """A partition led by the first of its ISR unless *leader* says otherwise."""
    led = (isr[0] if isr else None) if leader == -1 else leader
    return PartitionState(
        TopicPartition(topic, number), TOPIC_ID, led, 3, tuple(assignment), tuple(isr), (), (),
        reassignment=moving,
    )  # fmt: skip


def snapshot(
    *states: PartitionState,
    quorum: Quorum | Unknown = QUORUM,
    brokers: Sequence[int] = (1, 2, 3),
    fenced: Sequence[int] = (),
    settings: dict[str, TopicSettings] | None = None,
) -> ClusterSnapshot:
    listed = tuple(
        Broker(broker, f"kafka-{broker}", 9092, "rack-a", broker in fenced) for broker in brokers
    )
    description = ClusterDescription("cluster-1", listed, names_fenced=True)
    return ClusterSnapshot(description, quorum, states, SECOND, settings or {})


def minimum(replicas: int | Unknown) -> TopicSettings:
    return TopicSettings(replicas, False, False)
