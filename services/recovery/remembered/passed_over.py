"""Brokers that an election passed over: their start truncates partitions that have a leader (R27).

Journals say whom an election gave up. What was heard of a broker, and the epochs of the present
leaders, say it as well, by whatever command: a log that goes on past its divergence from
the leader's is cut there when its broker starts. Where nothing was heard of it, epochs that are
missing from the leader's log say that it may have been passed over (R46). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from breakglass.services.guard.journal_view import JournalView
from breakglass.services.model import PartitionState, ReplicaLog, TopicPartition, Unknown
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.starting import PassedOver
from breakglass.services.recovery.remembered.heard import HeardLog
from breakglass.services.recovery.timeline.ending import endings_of


@dataclass(frozen=True, slots=True)
class Abandonment:
    """A broker whose unread log an election of one partition gave up, by a journal."""

    partition: TopicPartition
    topic_id: str
    broker: int
    leader_epoch: int
    """The partition's leader epoch before the election."""
    at_ms: int
    journal: str
    """The name of the journal."""


def abandonments_in(view: JournalView) -> Iterator[Abandonment]:
    """Whom the elections of *view* gave up, those included whose outcome is unknown."""
    planned = view.plan.items if view.plan is not None else {}
    for ending in endings_of(view):
        item = planned.get(ending.partition, {})
        if not ending.abandons or not ending.may_be_led:
            continue
        epoch = item.get("leader_epoch")
        at_ms = max((step.request.at_ms for step in view.steps_of(ending.partition)), default=0)
        for broker in ending.abandons:
            if broker != ending.leader:
                yield Abandonment(
                    ending.partition,
                    str(item.get("topic_id", "")),
                    broker,
                    epoch if isinstance(epoch, int) else -1,
                    at_ms,
                    view.path.stem,
                )


ElectionKey = tuple[str, TopicPartition, int]
"""Topic id, partition, and the leader epoch that began with the election."""


def elections_in(view: JournalView) -> Iterator[ElectionKey]:
    """The elections of *view* that ended as they were agreed to."""
    planned = view.plan.items if view.plan is not None else {}
    for ending in endings_of(view):
        if ending.leader_epoch is not None and ending.result == RecoveryResult.ELECTED:
            topic_id = str(planned.get(ending.partition, {}).get("topic_id", ""))
            yield topic_id, ending.partition, ending.leader_epoch


def standing(
    abandonments: Collection[Abandonment],
    states: Mapping[TopicPartition, PartitionState],
    ran_at: Callable[[int], int],
    *,
    whole: bool,
) -> dict[int, PassedOver]:
    """The brokers of *abandonments* that have not run since, and were not found safe to start.

    *states* are those of all partitions where *whole*. *ran_at* says when a broker was last heard,
    or its disk found to lose nothing by a start.
    """
    of_election: dict[tuple[str, int], list[Abandonment]] = {}
    ran = {broker: ran_at(broker) for broker in {one.broker for one in abandonments}}
    for one in abandonments:
        of_election.setdefault((one.journal, one.broker), []).append(one)
        if _returned(one, states.get(one.partition)):
            # Who has followed a leader since one election has run since all before it.
            ran[one.broker] = max(ran[one.broker], one.at_ms)
    found: dict[int, list[Abandonment]] = {}
    for (_, broker), given_up in of_election.items():
        if ran[broker] > max(one.at_ms for one in given_up):
            continue
        if any(_returned(one, states.get(one.partition)) for one in given_up):
            continue
        left = [one for one in given_up if _stands(one, states.get(one.partition), whole=whole)]
        if left:
            found.setdefault(broker, []).extend(left)
    return {broker: _passed_over(broker, left) for broker, left in sorted(found.items())}


def _passed_over(broker: int, left: list[Abandonment]) -> PassedOver:
    newest = max(left, key=lambda one: one.at_ms)
    partitions = tuple(sorted({one.partition for one in left}))
    return PassedOver(broker, partitions, newest.at_ms, f"journal {newest.journal}")


def _same(one: Abandonment, state: PartitionState) -> bool:
    return not one.topic_id or one.topic_id == str(state.topic_id)


def _returned(one: Abandonment, state: PartitionState | None) -> bool:
    """Whether the broker has followed a leader since the election, which cut its log already."""
    if state is None or not _same(one, state) or state.leader_epoch <= one.leader_epoch:
        return False
    elr = state.elr if isinstance(state.elr, tuple) else ()
    last = state.last_known_elr if isinstance(state.last_known_elr, tuple) else ()
    return state.leader == one.broker or one.broker in (*state.isr, *elr, *last)


def _stands(one: Abandonment, state: PartitionState | None, *, whole: bool) -> bool:
    """Whether the partition is still the one that was elected without the broker."""
    if state is None:
        return not whole
    return _same(one, state) and state.leader_epoch > one.leader_epoch


def cut_by_leader(heard: HeardLog, leader: ReplicaLog) -> bool:
    """Whether the log that was *heard* goes on past its divergence from that of the *leader*."""
    if not holds_records(heard.log):
        return False
    parting = divergence(heard.log, leader)
    end = heard.log.log_end
    return isinstance(parting, int) and isinstance(end, int) and parting < end


def unled_after(
    leader: ReplicaLog | None, leader_epoch: int, *, unclean: bool = False
) -> int | None:
    """The last leader epoch before a time without leader, by the log of the *leader* now (R46).

    With *unclean* elections a partition gets its next leader at once: any change may have been one.
    So may each where the log of the leader, or its epochs, could not be read.

    A partition that loses its leader gets an epoch in which nobody writes, and the next leader one
    more. So a missing epoch may be such a time, and who wrote before it may have been passed over;
    an idle leader's epoch is missing, too, and so are those of records that were deleted. None: the
    known epochs follow each other from the first one on.
    """
    if unclean or leader is None or isinstance(leader.epochs, Unknown):
        return leader_epoch - 1 if leader_epoch > 0 else None
    written = [held.epoch for held in leader.epochs.ranges]
    first = [0] if leader.log_start == 0 and leader.epochs.complete_from == 0 else []
    epochs = [*first, *written, leader_epoch]
    gaps = [before for before, after in pairwise(epochs) if after - before > 1]
    if gaps:
        return gaps[-1]
    return epochs[0] - 1 if epochs[0] > 0 else None


def merged(*found: Mapping[int, PassedOver]) -> dict[int, PassedOver]:
    """Of each broker all partitions, with the source that names most of them."""
    together: dict[int, list[PassedOver]] = {}
    for some in found:
        for broker, one in some.items():
            together.setdefault(broker, []).append(one)
    return {broker: _one_of(held) for broker, held in sorted(together.items())}


def _one_of(held: list[PassedOver]) -> PassedOver:
    held = [one for one in held if one.proved] or held
    first = max(held, key=lambda one: len(one.partitions))
    partitions = tuple(sorted({name for one in held for name in one.partitions}))
    return replace(first, partitions=partitions)
