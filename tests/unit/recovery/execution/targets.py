"""Targets, states and descriptions by small integers, for tables."""

from uuid import UUID

from breakglass.services.model import PartitionState, Reassignment, TopicPartition, Unknown
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.snapshot import Broker, ClusterDescription
from tests.kit.fake_metadata import TOPIC_ID

ORDERS = TopicPartition("orders", 3)
ANOTHER_TOPIC_ID = UUID("99999999-2222-3333-4444-555555555555")


def target(
    partition: TopicPartition = ORDERS,
    designee: int = 1,
    order: tuple[int, ...] = (1, 2, 3),
    assignment: tuple[int, ...] = (3, 1, 2),
    *,
    topic_id: UUID = TOPIC_ID,
    leader_epoch: int = 5,
    log_end: int | None = 100,
    minimum: int | None = 1,
    live: tuple[int, ...] = (2,),
) -> ElectionTarget:
    """b1 is to lead, b3 led last."""
    return ElectionTarget(
        partition, topic_id, designee, order, assignment, leader_epoch, log_end, minimum, live
    )


def state(
    partition: TopicPartition = ORDERS,
    assignment: tuple[int, ...] = (3, 1, 2),
    *,
    leader: int | None = None,
    leader_epoch: int = 5,
    topic_id: UUID = TOPIC_ID,
    isr: tuple[int, ...] = (),
    elr: tuple[int, ...] | Unknown = (),
    last: tuple[int, ...] | Unknown = (),
    reassignment: Reassignment | Unknown | None = None,
) -> PartitionState:
    """The partition that `target` is about, as the metadata has it."""
    return PartitionState(
        partition, topic_id, leader, leader_epoch, assignment, isr, elr, last, (), reassignment
    )


def brokers(
    *ids: int, fenced: tuple[int, ...] = (), names_fenced: bool = True
) -> ClusterDescription:
    """The brokers *ids*, of which some are fenced."""
    listed = tuple(Broker(id_, f"b{id_}", 9092, fenced=id_ in fenced) for id_ in ids)
    return ClusterDescription("cluster", listed, names_fenced)
