"""Prices what is lost when the controller forgets ELR and last known leaders (R3). Pure.

Any change of a topic's min.insync.replicas makes the controller forget them on every partition of
the topic. A broker that came back EMPTY is then no longer elected, and an unclean election takes
the first live replica of the assignment. But an intact leader that returns is not elected either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from breakglass.services.guard.consent import Price, Stake
from breakglass.services.kafka.cluster.settings import LayeredSetting
from breakglass.services.model import (
    Forfeited,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    Unknown,
    known,
)
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.judgement.loss import loss_of, unread_bound
from breakglass.services.recovery.judgement.ranking import rank
from breakglass.services.recovery.judgement.succession import inheritors, shortfall

REMEMBERED = (Role.ELR, Role.LAST_KNOWN_ELR)
_NOBODY = Unknown("no replica can be read")


@dataclass(frozen=True, slots=True)
class Forgetting:
    """One offline partition whose ELR and last known leader are forgotten."""

    partition: TopicPartition
    forgotten: tuple[int, ...]
    """The forgotten brokers, in the order of the assignment."""
    bomb: int | None
    """The broker that came back EMPTY, or below others, and would be elected (R2)."""
    intact: tuple[int, ...]
    """Brokers that would have led without loss, and are no longer elected by themselves."""
    best: int | None
    """The replica that an election must choose then; None: no replica can be read."""
    price: Price
    """The readable records that electing `best` loses."""
    unread: int | Unknown
    """At least how many records are known to be in no readable log."""

    @property
    def stake(self) -> Stake:
        """What the partition gives up."""
        return Stake(self.partition, self.price, abandons=self.intact)

    def __str__(self) -> str:
        """``forgets b4, which is back EMPTY; forgets b3, which ...``."""
        told = [f"forgets {_named([self.bomb])}, which would be elected over better logs"] * (
            self.bomb is not None
        )
        if self.intact:
            told.append(
                f"forgets {_named(self.intact)}, which may bring it back whole: from then on "
                f"{self._choice}"
            )
        rest = [
            number for number in self.forgotten if number != self.bomb and number not in self.intact
        ]
        if rest:
            told.append(f"forgets {_named(rest)}")
        return "; ".join(told)

    @property
    def _choice(self) -> str:
        if self.best is None:
            return "it has to be elected by hand, and none can be read now"
        least = "?" if isinstance(self.unread, Unknown) else f"{self.unread:,}"
        return f"electing b{self.best} loses {self.price}, unread >= {least}"


def remembered(state: PartitionState) -> tuple[int, ...]:
    """The members of ELR and last known leaders, in the order of the assignment."""
    elr = state.elr if known(state.elr) else ()
    last = state.last_known_elr if known(state.last_known_elr) else ()
    return tuple(broker for broker in state.assignment if broker in {*elr, *last})


def forgetting_of(judged: Assessment, gone: Collection[int]) -> Forgetting | None:
    """What the controller forgets about one offline partition; None if nothing."""
    evidence = judged.evidence
    brokers = remembered(evidence.state)
    if not brokers:
        return None
    bomb = judged.action.broker if judged.verdict is Verdict.BOMB else None
    bomb = bomb if bomb in brokers else None
    intact = [
        broker
        for broker in inheritors(evidence.state)
        if broker in brokers and broker != bomb and _intact(evidence, broker, gone)
    ]
    after = without_memory(evidence)
    winner = rank(after).winner
    loss = None if winner is None else loss_of(after, winner.broker)
    return Forgetting(
        evidence.partition,
        brokers,
        bomb,
        tuple(intact),
        None if winner is None else winner.broker,
        Price(_NOBODY) if loss is None else Price(loss.total, loss.approximate),
        unread_bound(after).at_least,
    )


def without_memory(evidence: PartitionEvidence) -> PartitionEvidence:
    """*evidence* as it is after ELR and last known leaders are forgotten."""
    return replace(
        evidence,
        state=replace(evidence.state, elr=(), last_known_elr=()),
        replicas=tuple(map(_stale, evidence.replicas)),
    )


def moment_value(told: LayeredSetting) -> str | None:
    """The temporary value: the one that affects the topic's producers least.

    A topic without its own value gets the value that already applies. An own value equal to the
    value beneath is removed (None). Any other own value is raised by one, because a lower value
    would let fewer replicas acknowledge records than the topic requires.
    """
    if told.own is None:
        return told.beneath
    return None if told.own == told.beneath else str(int(told.own) + 1)


def moment_text(told: LayeredSetting) -> str:
    """The temporary change in words."""
    if told.own is None:
        return f"set to {told.beneath}, which holds already, then taken away again"
    if told.own == told.beneath:
        return f"its own {told.own} taken away, beneath which the same holds, then set again"
    return (
        f"raised from {told.own} to {int(told.own) + 1} for a moment, in which producers may meet "
        f"NOT_ENOUGH_REPLICAS and try again, then set to {told.own} again"
    )


def together(found: Iterable[Forgetting]) -> Iterator[tuple[str, str]]:
    """Label and sentence for each topic's partitions of the same fate: ``orders 0-2``."""
    from breakglass.services.recovery.timeline.moments import partition_numbers

    alike: dict[tuple[str, str], list[int]] = {}
    for forgetting in found:
        key = forgetting.partition.topic, str(forgetting)
        alike.setdefault(key, []).append(forgetting.partition.partition)
    for (topic, told), numbers in alike.items():
        yield f"{topic}-{partition_numbers(numbers)}", told


def eligible_elsewhere(
    states: Iterable[PartitionState],
) -> Mapping[TopicPartition, tuple[int, ...]]:
    """Partitions with a leader whose other eligible replicas are forgotten, too."""
    return {
        state.partition: state.elr
        for state in states
        if not state.offline and isinstance(state.elr, tuple) and state.elr
    }


def _intact(evidence: PartitionEvidence, broker: int, gone: Collection[int]) -> bool:
    """Whether no evidence says that electing *broker* loses records."""
    replica = evidence.replica(broker)
    if replica is None or broker in gone or isinstance(replica.log_end, Forfeited):
        return False
    if isinstance(replica.log_end, Unknown):
        return True
    return not shortfall(evidence, replica)


def _stale(replica: ReplicaLog) -> ReplicaLog:
    return replace(replica, role=Role.STALE) if replica.role in REMEMBERED else replica


def _named(brokers: Iterable[int | None]) -> str:
    return ", ".join(f"b{broker}" for broker in brokers)
