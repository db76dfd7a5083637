"""What an interrupted execution left to do: its journal against what the cluster says now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from breakglass.services.errors import WrongCluster
from breakglass.services.guard.consent import Price
from breakglass.services.guard.journal_view import Details, EntryKind, JournalStep, JournalView
from breakglass.services.guard.steps import ADD_REPLICAS
from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.execution.preferred import STEP as PREFERRED
from breakglass.services.recovery.execution.record import target_of_item
from breakglass.services.recovery.execution.restore_order import RESTORE, UNDO, still_ours
from breakglass.services.recovery.execution.routes import DESIGNATE, ELECT, REORDER
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    live_beside,
)
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.plan.check import more_unread
from breakglass.services.recovery.rescue.rescue import SAVED
from breakglass.services.recovery.rescue.rescue import STEP as RESCUE
from breakglass.services.recovery.triage import Left
from breakglass.services.snapshot import ClusterSnapshot

FOUND = "found when it was resumed"


@dataclass(frozen=True, slots=True)
class JournalledPartition:
    """A partition of a journalled plan, and how far it came by its journal."""

    target: ElectionTarget
    price: str
    """The loss that was agreed to; empty in a plan without it."""
    abandons: tuple[int, ...]
    """Brokers whose unread logs it was agreed to give up."""
    unread_at_least: int | Unknown
    """What the abandoned logs had at least, as far as was known."""
    gone: tuple[int, ...]
    """Brokers that were declared gone."""
    reordered: bool
    """An order was announced: it may have been written."""
    elected: bool
    """The designee itself confirmed that it leads."""
    rescued: bool
    """The records that the election cuts off were saved."""
    ours: bool = False
    """The order that was written still stands."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of a journalled plan, by what remains to be done."""

    offline: tuple[JournalledPartition, ...] = ()
    """Partitions without leader: to be elected, or undone."""
    led: tuple[JournalledPartition, ...] = ()
    """Partitions that the designee leads: to be confirmed, and their order put back if ours."""
    done: tuple[PartitionOutcome, ...] = ()
    """Outcomes of partitions that are done."""
    left: tuple[Left, ...] = ()
    """Partitions that an operator has to look at: neither done nor to be finished."""

    @property
    def targets(self) -> tuple[ElectionTarget, ...]:
        """What is to be elected."""
        return tuple(part.target for part in self.offline)

    @property
    def rescued(self) -> frozenset[TopicPartition]:
        """Partitions of `offline` that need no second rescue."""
        return frozenset(part.target.partition for part in self.offline if part.rescued)


def remains(view: JournalView, snapshot: ClusterSnapshot) -> Remains:
    """What is left of the plan in *view*, by the metadata of *snapshot*.

    Guards are those of `execution.recheck`, when the elections are run.

    Raises:
        WrongCluster: the journal is of another cluster.
    """
    if view.cluster_id != snapshot.cluster_id:
        raise WrongCluster(
            f"journal {view.path} is of cluster {view.cluster_id} and this is "
            f"{snapshot.cluster_id}: connect to the cluster that it was written for"
        )
    parts, left = _parts(view)
    states = {state.partition: state for state in snapshot.partitions}
    placed = [_place(part, states.get(part.target.partition)) for part in parts]
    return Remains(
        offline=tuple(part for some in placed for part in some.offline),
        led=tuple(part for some in placed for part in some.led),
        done=tuple(part for some in placed for part in some.done),
        left=(
            *left,
            *_unsettled_preferred(view, states),
            *(part for some in placed for part in some.left),
        ),
    )


def unless_dearer(found: Remains, evidence: Mapping[TopicPartition, PartitionEvidence]) -> Remains:
    """*found* without elections whose price is no longer the one that was agreed to.

    *evidence* is read now, of every partition that is offline.
    """
    fresh = tuple(_seen_again(part, evidence.get(part.target.partition)) for part in found.offline)
    changed = {
        part.target.partition: reason
        for part in found.offline
        if (reason := _dearer(part, evidence.get(part.target.partition)))
    }
    return replace(
        found,
        offline=tuple(part for part in fresh if part.target.partition not in changed),
        left=(*found.left, *(Left(partition, reason) for partition, reason in changed.items())),
    )


def consented(view: JournalView) -> bool:
    """Whether the plan of *view* was agreed to, by every phrase that it needed.

    That counts for exactly its targets, at exactly its price (`unless_dearer`). Consents to undo
    it, or to confirm what is led already, are not among them.
    """
    if view.plan is None:
        return False
    given = [
        entry
        for entry in view.entries
        if entry.kind is EntryKind.CONSENT
        and entry.seq > view.plan.seq
        and entry.payload.get("elects", True)
    ]
    return len(given) >= int(view.plan.payload.get("consents", 1))


def abandons_of(view: JournalView) -> dict[TopicPartition, tuple[int, ...]]:
    """Brokers whose unread logs the plan of *view* gives up, by partition."""
    items = {} if view.plan is None else view.plan.items
    return {partition: _brokers(item, "abandons") for partition, item in items.items()}


Settlement = tuple[int, dict[TopicPartition, Details]]
"""The number of a request, and items for its `Journal.outcome`."""


def settlements(
    view: JournalView, states: Mapping[TopicPartition, PartitionState]
) -> Iterator[Settlement]:
    """The outcomes of unsettled steps, as the metadata shows them now.

    An election whose designee leads is left out, for metadata is not confirmation (R6), and so
    are steps of other kinds.
    """
    for step in view.unsettled:
        items: dict[TopicPartition, Details] = {
            partition: {"result": result, "reason": FOUND}
            for partition in step.unsettled
            if (result := _settled(step, partition, states.get(partition)))
        }
        if items:
            yield step.request.seq, items


def confirmations(
    view: JournalView, outcomes: Mapping[TopicPartition, PartitionOutcome]
) -> Iterator[Settlement]:
    """The outcomes of unsettled elections, as their designees report them now."""
    for step in view.unsettled:
        if step.name in _ELECTIONS:
            items: dict[TopicPartition, Details] = {
                partition: {"result": outcomes[partition].result.value, "reason": FOUND}
                for partition in step.unsettled
                if partition in outcomes
            }
            if items:
                yield step.request.seq, items


def _parts(view: JournalView) -> tuple[tuple[JournalledPartition, ...], tuple[Left, ...]]:
    parts: list[JournalledPartition] = []
    left: list[Left] = []
    for partition, item in view.plan.items.items() if view.plan is not None else ():
        steps = view.steps_of(partition)
        target = _target(partition, [item, *(step.items[partition] for step in steps)])
        if target is None:
            reason = "the journal does not say how it was to be elected: plan again"
            left.append(Left(partition, reason))
        else:
            parts.append(_part(target, item, steps))
    return tuple(parts), tuple(left)


def _target(partition: TopicPartition, items: Collection[Details]) -> ElectionTarget | None:
    """The target that the plan describes, or any request of it."""
    read = (target_of_item(partition, item) for item in items)
    return next((value for value in read if value is not None), None)


def _part(
    target: ElectionTarget, item: Details, steps: Collection[JournalStep]
) -> JournalledPartition:
    ended = {
        (step.name, step.outcomes[target.partition].result)
        for step in steps
        if target.partition in step.outcomes
    }
    bound = item.get("unread_at_least", 0)
    return JournalledPartition(
        target,
        str(item.get("price", "")),
        _brokers(item, "abandons"),
        bound if isinstance(bound, int) else Unknown("not known when it was agreed to"),
        _brokers(item, "gone"),
        reordered=any(step.name == REORDER for step in steps),
        elected=any((name, str(RecoveryResult.ELECTED)) in ended for name in _ELECTIONS),
        rescued=(RESCUE, SAVED) in ended,
    )


def _brokers(item: Details, name: str) -> tuple[int, ...]:
    listed = item.get(name, ())
    if not isinstance(listed, list | tuple):
        return ()
    return tuple([broker for broker in listed if isinstance(broker, int)])


def _unsettled_preferred(
    view: JournalView, states: Mapping[TopicPartition, PartitionState]
) -> Iterator[Left]:
    """Preferred elections lose nothing and are not taken up again."""
    for step in view.unsettled:
        if step.name == PREFERRED:
            for partition in step.unsettled:
                state = states.get(partition)
                if state is None or state.leader != step.items[partition].get("designee"):
                    yield Left(partition, "its preferred election is unsettled: hold it again")


def _place(part: JournalledPartition, state: PartitionState | None) -> Remains:
    """*part*, in the list where it belongs."""
    target = part.target
    if state is None or state.topic_id != target.topic_id:
        return _leaving(part, "the topic is gone: nothing is left to recover")
    ours = part.reordered and state.assignment == target.order != target.assignment
    part = replace(part, ours=ours)
    if state.leader is None:
        return Remains(offline=(part,))
    if ours and not still_ours(target, state):
        return _leaving(part, _no_longer_ours(target, state))
    if state.leader == target.designee and (ours or not part.elected):
        return Remains(led=(part,))
    led = "" if state.leader == target.designee else f"led by b{state.leader}"
    online = PartitionOutcome(
        target, RecoveryResult.ALREADY_ONLINE, led, state.leader, state.leader_epoch
    )
    return Remains(done=(online,))


def _leaving(part: JournalledPartition, reason: str) -> Remains:
    return Remains(left=(Left(part.target.partition, reason),))


def _no_longer_ours(target: ElectionTarget, state: PartitionState) -> str:
    if state.leader != target.designee:
        return (
            f"b{state.leader} leads it, not b{target.designee}, in the order that was written for "
            f"the election: reassign it to {list(target.assignment)} if you want the old one"
        )
    if isinstance(state.reassignment, Unknown):
        why = f"whether a reassignment runs is unknown ({state.reassignment.reason})"
    else:
        why = "a reassignment runs"
    return f"its order cannot be put back, because {why}: resume once that is over"


def _seen_again(
    part: JournalledPartition, evidence: PartitionEvidence | None
) -> JournalledPartition:
    """*part* with the brokers that are live now, at whose price it is judged again.

    A partition whose price was agreed to as unknown is not judged again: who came back since is a
    stranger to that consent.
    """
    if evidence is None or not _priced(part):
        return part
    live = live_beside(evidence, part.target.designee)
    return replace(part, target=replace(part.target, live=live))


def _dearer(part: JournalledPartition, evidence: PartitionEvidence | None) -> str:
    """Why *part* may not be elected on the old consent; empty where it may."""
    if not part.price:
        return ""
    if evidence is None:
        return "its evidence could not be read again: resume once brokers answer"
    loss = loss_of(evidence, part.target.designee)
    now = str(Price(loss.total, loss.approximate))
    if _priced(part) and now != part.price:
        return (
            f"electing b{part.target.designee} was agreed to at the price of {part.price} records "
            f"and would now lose {now}: plan again"
        )
    more = more_unread(part.abandons, part.unread_at_least, evidence, part.target.designee)
    return f"{more}: plan again" if more else ""


def _priced(part: JournalledPartition) -> bool:
    """Whether a number of records was agreed to be lost."""
    return part.price not in ("", str(Price(Unknown(""))))


def _settled(step: JournalStep, partition: TopicPartition, state: PartitionState | None) -> str:
    """The result of *step* for *partition*; empty where the metadata does not show it."""
    item = step.items[partition]
    if state is None:
        return ""
    if step.name in _ORDERS:
        return "accepted" if tuple(item.get("order", ())) == state.assignment else "not written"
    if step.name == ADD_REPLICAS:
        added = set(item.get("order", ())) - set(item.get("assignment", ()))
        return "done" if added and added <= {*state.isr} else ""
    if step.name not in _ELECTIONS or state.leader == item.get("designee"):
        return ""
    return "not elected" if state.leader is None else str(RecoveryResult.ELECTED_ANOTHER)


_ORDERS = (REORDER, RESTORE, UNDO)
_ELECTIONS = (ELECT, DESIGNATE, PREFERRED)
