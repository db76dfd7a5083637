"""What an interrupted execution left to do: its journal against what the cluster says now. Pure.

Taking up a journal again: what is left is finished under the guards of any election, or undone.
The journal may be a colleague's. What it announced without an outcome may or may not have
happened: the cluster is asked, and the answer journalled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from breakglass.services import patience
from breakglass.services.errors import WrongCluster
from breakglass.services.guard.consent import Price
from breakglass.services.guard.journal import (
    Details,
    EntryKind,
    Journal,
    JournalStep,
    JournalView,
    StepName,
)
from breakglass.services.kafka.election_client import PARTITIONS_A_REQUEST
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import AUTO, STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.execution.confirm import Observer, climb
from breakglass.services.recovery.execution.restore_order import (
    restore_orders,
    still_ours,
    undo_orders,
)
from breakglass.services.recovery.execution.run import Course, Recovery, Rescue, journalled
from breakglass.services.recovery.execution.steps import (
    DESIGNATE,
    ELECT,
    PARTLY_FAILED,
    PREFERRED,
    REORDER,
    RESCUE,
    RESTORE,
    SUCCEEDED,
    UNDO,
    UNDONE,
    target_of_item,
)
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    live_beside,
    order_left,
)
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.plan.check import more_unread
from breakglass.services.recovery.rescue.rescue import SAVED
from breakglass.services.recovery.triage import Left, judge
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
            partition: found
            for partition in step.unsettled
            if (found := _settled(step, partition, states.get(partition)))
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
                partition: {**journalled(outcomes[partition]), "reason": FOUND}
                for partition in step.unsettled
                if partition in outcomes
            }
            if items:
                yield step.request.seq, items


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


def _settled(step: JournalStep, partition: TopicPartition, state: PartitionState | None) -> Details:
    """The outcome of *step* for *partition*; empty where the metadata does not show it."""
    result = "" if state is None else _result(step, step.items[partition], state)
    if not result or state is None:
        return {}
    leader = {"leader": state.leader, "leader_epoch": state.leader_epoch}
    led = step.name in _ELECTIONS and state.leader is not None
    return {"result": result, "reason": FOUND, **(leader if led else {})}


def _result(step: JournalStep, item: Details, state: PartitionState) -> str:
    if step.name in (REORDER, RESTORE, UNDO):
        return "accepted" if tuple(item.get("order", ())) == state.assignment else "not written"
    if step.name == StepName.ADD_REPLICAS:
        before = tuple(item.get("assignment", ()))
        added = set(item.get("order", ())) - {*before}
        if state.assignment == before and state.reassignment is None:
            return "not written"
        return "done" if added and added <= {*state.isr} else ""
    if step.name not in _ELECTIONS or state.leader == item.get("designee"):
        return ""
    return "not elected" if state.leader is None else str(RecoveryResult.ELECTED_ANOTHER)


_ELECTIONS = (ELECT, DESIGNATE, PREFERRED)


@dataclass(frozen=True, slots=True)
class JournalSurvey:
    """A journal, and what the cluster says now of its partitions."""

    view: JournalView
    snapshot: ClusterSnapshot
    remains: Remains
    """What is left by the metadata alone: what an undo works on."""
    evidence: Mapping[TopicPartition, PartitionEvidence]
    """Read now, of the partitions without leader."""
    native: NativeRpc

    @property
    def to_finish(self) -> Remains:
        """What is left, without elections whose price is no longer the one that was agreed to."""
        return unless_dearer(self.remains, self.evidence)


def survey(
    client: ReadClient, view: JournalView, duration: float, native_choice: str = AUTO
) -> JournalSurvey:
    """Find out what is left of *view*; brokers have *duration* seconds to report their logs.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
        WrongCluster: the journal is of another cluster.
    """
    snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), topics_of(view))
    left = remains(view, snapshot)
    wanted = {target.partition for target in left.targets}
    offline = [state for state in snapshot.offline if state.partition in wanted]
    if not offline:
        return JournalSurvey(view, snapshot, left, {}, STOCK)
    designees = {target.partition: target.designee for target in left.targets}
    *_, found = judge(
        client,
        snapshot,
        offline,
        duration,
        native_choice,
        chosen=lambda evidence: designees.get(evidence.partition),
    )
    evidence = {assessment.partition: assessment.evidence for assessment in found.assessments}
    return JournalSurvey(view, snapshot, left, evidence, found.native)


@dataclass(frozen=True, slots=True)
class Resume:
    """Continues a resumed journal; *recovery* writes into that journal.

    Both ways are iterated to their end, or stop between two batches when `Recovery.stop` says
    so; `ended_as` says how the journal records that.
    """

    recovery: Recovery
    survey: JournalSurvey

    def finish(self) -> Iterator[tuple[PartitionOutcome, ...]]:
        """Confirm what was elected, put its order back (R13), and elect the rest.

        Yields outcomes batch by batch; those of `Remains.done` first.
        """
        found = self.survey.to_finish
        self._settle()
        yield from self._finish(found)

    def undo(self) -> Iterator[tuple[PartitionOutcome, ...]]:
        """Put the order back of partitions still without leader, where it is what was written.

        Elections are not undone: a partition that has a leader is reported as refused.
        """
        found = self.survey.remains
        self._settle()
        yield from self._undo(found)

    def _settle(self) -> None:
        states = {state.partition: state for state in self.survey.snapshot.partitions}
        self._note(settlements(self.survey.view, states))

    def _note(self, settled: Iterator[Settlement]) -> None:
        for request, items in settled:
            self.recovery.journal.outcome(request, items)

    def _restore(
        self, batch: tuple[PartitionOutcome, ...], parts: Sequence[JournalledPartition]
    ) -> tuple[PartitionOutcome, ...]:
        """*batch*, with orders put back that were written before and still stand."""
        ours = {part.target.partition for part in parts if part.ours}
        kept = tuple(
            outcome
            for outcome in batch
            if outcome.partition in ours and outcome.order_restored is None
        )
        restored = restore_orders(
            self.recovery.client,
            self._observer,
            self.recovery.journal,
            kept,
            Deadline.after(self.recovery.limits.read),
        )
        by_partition = {outcome.partition: outcome for outcome in restored}
        return tuple(by_partition.get(outcome.partition, outcome) for outcome in batch)

    def _finish(self, found: Remains) -> Iterator[tuple[PartitionOutcome, ...]]:
        if found.done:
            self._note_elected_elsewhere(found.done)
            yield found.done
        course = Course()
        if found.led:
            # The designees' own word (R6), then the orders that are still ours.
            limits, observer = self.recovery.limits, self._observer
            targets = [part.target for part in found.led]
            confirmed = observer.confirm(targets, Deadline.after(limits.confirmation))
            cut = self._cut_by_another(confirmed.values())
            self._note(confirmations(self.survey.view, confirmed | cut))
            elsewhere = self._note_elected_elsewhere((confirmed | cut).values())
            unsaved = {part.target.partition for part in found.led if not part.rescued}
            restored = self._restore(tuple(confirmed.values()), found.led)
            led = []
            for one in climb(observer, restored, Deadline.after(limits.ladder)):
                if one.partition in cut:
                    one = replace(cut[one.partition], order_restored=one.order_restored)
                elif one.partition in elsewhere and one.succeeded:
                    one = self._by_another(one, saved=one.partition not in unsaved)
                led.append(one)
            course.learn(tuple(led))
            yield tuple(led)
        if found.targets:
            rescue = self.recovery.rescue
            if rescue is not None:
                rescue = _WithoutRescued(rescue, found.rescued)
            for batch in replace(self.recovery, rescue=rescue).run(found.targets, course):
                # Where leaders are designated, an order written before is still to be put back.
                yield self._still_written(self._restore(batch, found.offline), found.offline)

    def _cut_by_another(
        self, led: Iterable[PartitionOutcome]
    ) -> dict[TopicPartition, PartitionOutcome]:
        """The designees that lead with less than they had when it was agreed to.

        A replica that led before them cut their logs.
        """
        targets = [one.target for one in led if one.result is RecoveryResult.ELECTED]
        ends = self._observer.log_ends(targets)
        found: dict[TopicPartition, PartitionOutcome] = {}
        for target in targets:
            end, agreed = ends.get(target.partition), target.log_end
            if isinstance(end, int) and agreed is not None and end < agreed:
                found[target.partition] = PartitionOutcome(
                    target,
                    RecoveryResult.ELECTED_ANOTHER,
                    f"b{target.designee} leads now, after another replica that had less: its log "
                    f"ends at {end:,}, and ended at {agreed:,} when this was agreed to. Look for "
                    f"offsets from {end:,} on in rescues and log folders",
                )
        return found

    def _by_another(self, led: PartitionOutcome, *, saved: bool) -> PartitionOutcome:
        """*led*, which another client elected before this run did."""
        reason, rescue = "another client elected it", self.recovery.rescue
        if rescue is not None and not saved and rescue.needed(led.target):
            reason += (
                " before the rescue had saved what this cut: do not start the brokers that hold it "
                "before their log folders are saved (`breakglass report` counts it)"
            )
        return replace(led, result=RecoveryResult.ALREADY_ONLINE, reason=reason)

    def _note_elected_elsewhere(self, led: Iterable[PartitionOutcome]) -> set[TopicPartition]:
        """Journal leaders that another client elected: a ledger settles their records by them.

        Returns their partitions.
        """
        ours = {
            partition
            for step in self.survey.view.steps
            if step.name in _ELECTIONS
            for partition, outcome in step.outcomes.items()
            if outcome.result in (RecoveryResult.ELECTED, RecoveryResult.UNKNOWN)
        }
        unsettled = [one for one in self.survey.view.unsettled if one.name in _ELECTIONS]
        ours |= {partition for step in unsettled for partition in step.unsettled}
        elsewhere = [one for one in led if one.succeeded and one.partition not in ours]
        if elsewhere:
            self.recovery.note("these have a leader that was not elected from here", elsewhere)
        return {one.partition for one in elsewhere}

    def _still_written(
        self, batch: tuple[PartitionOutcome, ...], parts: Sequence[JournalledPartition]
    ) -> tuple[PartitionOutcome, ...]:
        """*batch*, saying of which the order stands that was written before this was resumed."""
        ours = {part.target.partition for part in parts if part.ours}
        return tuple(
            order_left(outcome)
            if outcome.partition in ours and outcome.order_restored is None
            else outcome
            for outcome in batch
        )

    def _undo(self, found: Remains) -> Iterator[tuple[PartitionOutcome, ...]]:
        online = [part.target for part in found.led] + [part.target for part in found.done]
        rest = iter([*found.targets, *online])
        while batch := tuple(islice(rest, PARTITIONS_A_REQUEST)):
            if self.recovery.stop():
                yield tuple(
                    PartitionOutcome(target, RecoveryResult.NOT_ATTEMPTED, "stopped on request")
                    for target in batch
                )
                continue
            limits = self.recovery.limits
            only = {target.partition for target in batch}
            topics = sorted({partition.topic for partition in only})
            reading = self.recovery.client.reading()
            snapshot = reading.snapshot(Deadline.after(limits.read), topics, only)
            yield undo_orders(
                self.recovery.client,
                snapshot,
                self.recovery.journal,
                batch,
                Deadline.after(limits.election),
            )

    @property
    def _observer(self) -> Observer:
        return Observer(self.recovery.client.reading())


@dataclass(frozen=True, slots=True)
class _WithoutRescued:
    """A rescue without the partitions that were saved already."""

    rescue: Rescue
    rescued: Collection[TopicPartition]

    def needed(self, target: ElectionTarget) -> bool:
        return target.partition not in self.rescued and self.rescue.needed(target)

    def save(
        self, targets: Sequence[ElectionTarget], journal: Journal
    ) -> Mapping[TopicPartition, str]:
        unsaved = [target for target in targets if target.partition not in self.rescued]
        return self.rescue.save(unsaved, journal)


def topics_of(view: JournalView) -> list[str]:
    """The topics that *view* is about."""
    named = set(view.plan.items) if view.plan is not None else set()
    for step in view.steps:
        named.update(step.items)
    return sorted({partition.topic for partition in named})


def ended_as(
    found: Remains, outcomes: Sequence[PartitionOutcome], *, undone: bool = False
) -> str | None:
    """How the journal records the end; None where the run was stopped and can be resumed."""
    if any(outcome.result is RecoveryResult.NOT_ATTEMPTED for outcome in outcomes):
        return None
    if found.left or not all(outcome.complete for outcome in outcomes):
        return PARTLY_FAILED
    return UNDONE if undone else SUCCEEDED
