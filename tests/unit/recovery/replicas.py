"""Evidence by small integers, for tables."""

from collections.abc import Sequence
from uuid import UUID

from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    FigureSource,
    PartitionEvidence,
    PartitionState,
    Reassignment,
    ReplicaLog,
    Role,
    TopicPartition,
    TopicSettings,
    Unknown,
)
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.snapshot import Quorum

TOPIC_ID = UUID("11111111-2222-3333-4444-555555555555")
ANOTHER_TOPIC_ID = UUID("99999999-2222-3333-4444-555555555555")
PLAIN = TopicSettings(
    min_insync_replicas=1, unclean_election=False, compacted=False, tiered=False
)  # fmt: skip
HEALTHY = Circumstances(Quorum(leader=100, leader_epoch=1, high_watermark=9, voters=()))


def log(
    broker: int,
    *epochs: tuple[int, int],
    start: int = 0,
    hw: int | Unknown | None = None,
    role: Role = Role.STALE,
    fenced: bool | Unknown = False,
    log_dir_online: bool | Unknown = True,
    end: int | None = None,
) -> ReplicaLog:
    """A replica that was read; *epochs* are (epoch, end offset). By default all is committed."""
    ranges = tuple(
        EpochRange(epoch, low, high)
        for (epoch, high), low in zip(
            epochs, [start, *(high for _, high in epochs[:-1])], strict=False
        )
    )
    log_end = epochs[-1][1] if epochs else (start if end is None else end)
    return ReplicaLog(
        broker=broker,
        role=role,
        fenced=fenced,
        reachable=True,
        log_start=start,
        high_watermark=log_end if hw is None else hw,
        log_end=log_end,
        leader_epoch=9,
        epochs=EpochHistory(ranges, start),
        newest_ms=1_000 if ranges else None,
        log_dir_online=log_dir_online,
        source=FigureSource.STOCK,
        observed_at_ms=5_000,
    )


def without_epochs(broker: int, end: int, *, role: Role = Role.STALE) -> ReplicaLog:
    """A replica whose ends were told and whose epochs were not (no READ on the topic, R22)."""
    denied = Unknown(f"b{broker}: READ on the topic is missing")
    return ReplicaLog(
        broker=broker,
        role=role,
        fenced=False,
        reachable=True,
        log_start=0,
        high_watermark=denied,
        log_end=end,
        leader_epoch=9,
        epochs=denied,
        newest_ms=denied,
        log_dir_online=True,
        source=FigureSource.STOCK,
    )


def silent(
    broker: int,
    *,
    role: Role = Role.STALE,
    fenced: bool | Unknown = True,
    log_dir_online: bool | Unknown | None = None,
    last_heard: ReplicaLog | None = None,
) -> ReplicaLog:
    """A replica that could not be read; *last_heard* is what it told before it fell silent."""
    why = Unknown(f"b{broker} does not answer (connection refused)")
    return ReplicaLog(
        broker=broker,
        role=role,
        fenced=fenced,
        reachable=False,
        log_start=why,
        high_watermark=why,
        log_end=why,
        leader_epoch=why,
        epochs=why,
        newest_ms=why,
        log_dir_online=why if log_dir_online is None else log_dir_online,
        last_heard=last_heard,
    )


def offline(
    *replicas: ReplicaLog,
    topic: str = "orders",
    number: int = 3,
    leader: int | None = None,
    leader_epoch: int = 9,
    assignment: Sequence[int] | None = None,
    settings: TopicSettings = PLAIN,
    floor: int | Unknown | None = None,
    floor_source: str = "group billing",
    reassignment: Reassignment | None | Unknown = None,
    unregistered: tuple[int, ...] = (),
    topic_id: UUID = TOPIC_ID,
) -> PartitionEvidence:
    """An offline partition with *replicas*; ISR, ELR and last known ELR follow from their roles."""
    order = [replica.broker for replica in replicas] if assignment is None else assignment
    members = {role: tuple(r.broker for r in replicas if r.role is role) for role in Role}
    state = PartitionState(
        partition=TopicPartition(topic, number),
        topic_id=topic_id,
        leader=leader,
        leader_epoch=leader_epoch,
        assignment=tuple(order),
        isr=members[Role.ISR],
        elr=members[Role.ELR],
        last_known_elr=members[Role.LAST_KNOWN_ELR],
        reassignment=reassignment,
    )
    return PartitionEvidence(
        state=state,
        replicas=replicas,
        settings=settings,
        unread_floor=Unknown("consumer groups were not read") if floor is None else floor,
        unread_floor_source="" if floor is None else floor_source,
        unregistered=unregistered,
    )
