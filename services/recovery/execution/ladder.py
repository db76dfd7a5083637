"""How far elected partitions have come: readable, writable, redundant (R7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.replicas.epoch_ends import EpochAnswer, read_epoch_ends
from breakglass.services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    ListedOffset,
    Unanswered,
    ask_brokers,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.execution.confirm import (
    POLL_SECONDS,
    Observer,
    States,
    by_designee,
)
from breakglass.services.recovery.execution.target import (
    ElectedReach,
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Rung,
)

FIRST_EPOCH = 0
"""Any epoch will do for a question whose answer has the high watermark too."""


def climb(
    observer: Observer, outcomes: Sequence[PartitionOutcome], deadline: Deadline
) -> tuple[PartitionOutcome, ...]:
    """Watch elected partitions until each is readable, or *deadline*; others stay as they are.

    A broker that stops answering leaves its partitions on the rung last seen.
    """
    seen = {outcome.partition: outcome for outcome in outcomes}
    while True:
        waiting = [outcome for outcome in seen.values() if _climbs(outcome)]
        if not waiting:
            break
        seen.update(_look(observer, waiting, Deadline.after(patience.LOOK)))
        if deadline.passed or not any(_climbs(outcome) for outcome in seen.values()):
            break
        observer.pause(min(POLL_SECONDS * 5, deadline.remaining()))
    return tuple(seen[outcome.partition] for outcome in outcomes)


def rung(target: ElectionTarget, state: PartitionState, high_watermark: int | None) -> Rung:
    """The highest rung that *state* and the leader's *high_watermark* prove.

    A log that was unread when it was chosen (R16) is not known to be readable to its end.
    """
    end = target.log_end
    if high_watermark is None or end is None or high_watermark < end:
        return Rung.SERVING
    if target.min_insync_replicas is None or len(state.isr) < target.min_insync_replicas:
        return Rung.READABLE
    return Rung.REDUNDANT if len(state.isr) > 1 else Rung.WRITABLE


def _climbs(outcome: PartitionOutcome) -> bool:
    return (
        outcome.result is RecoveryResult.ELECTED
        and outcome.rung is not None
        and outcome.rung < Rung.READABLE
    )


def _look(
    observer: Observer, waiting: Sequence[PartitionOutcome], deadline: Deadline
) -> dict[TopicPartition, PartitionOutcome]:
    try:
        states = observer.states([outcome.target for outcome in waiting], deadline)
    except BreakglassError:
        return {}
    return seen_in(observer, waiting, states, deadline)


def seen_in(
    observer: Observer, waiting: Sequence[PartitionOutcome], states: States, deadline: Deadline
) -> dict[TopicPartition, PartitionOutcome]:
    """Where each of *waiting* stands by *states* and its leader's own word.

    Those whose leader does not answer before *deadline* are missing, as are those without a state.
    """
    marks = _high_watermarks(observer, waiting, deadline)
    return {
        outcome.partition: outcome.with_rung(
            rung(outcome.target, states[outcome.partition], marks[outcome.partition]),
            ElectedReach(marks[outcome.partition], len(states[outcome.partition].isr)),
        )
        for outcome in waiting
        if outcome.partition in states and outcome.partition in marks
    }


def _high_watermarks(
    observer: Observer, waiting: Sequence[PartitionOutcome], deadline: Deadline
) -> Mapping[TopicPartition, int | None]:
    """The leaders' high watermarks; None: not known.

    Where one lies before the leader's own epoch, it is not in ListOffsets (error 78), but in every
    Fetch. Partitions of a broker that does not answer are missing; the others do not wait for it.
    """
    asked = by_designee([outcome.target for outcome in waiting])
    answers = ask_brokers(
        asked,
        lambda broker, partitions: list_offsets(
            observer.client.sender, broker, partitions, LATEST, deadline, replica_id=LEADER_ONLY
        ),
    )
    marks = {
        partition: answer.offset if isinstance(answer, ListedOffset) else None
        for partition, answer in answers.items()
        if not isinstance(answer, Unanswered)
    }
    low = {
        broker: [partition for partition in partitions if marks.get(partition, 0) is None]
        for broker, partitions in asked.items()
    }
    fetched = ask_brokers(
        {broker: partitions for broker, partitions in low.items() if partitions},
        lambda broker, partitions: read_epoch_ends(
            observer.client.sender, broker, dict.fromkeys(partitions, FIRST_EPOCH), deadline
        ),
    )
    for partition, told in fetched.items():
        if isinstance(told, EpochAnswer):
            marks[partition] = told.high_watermark
    return marks
