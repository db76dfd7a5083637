"""What a guarded election is about, frozen before consent: targets, price, what is left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import ConsentGroup, Price
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.choice import Left
from breakglass.services.recovery.execution.prepare import target_of
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.guarded.election_quote import (
    Priced,
    groups_of,
    priced,
    priced_as_judged,
)
from breakglass.services.recovery.guarded.rescue_size import RescueSize, rescue_size
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.judgement.loss import UnreadRecords, unread_bound
from breakglass.services.recovery.judgement.precedence import recovery_order
from breakglass.services.recovery.judgement.replica_choice import refusal

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.appraisal import Appraisal
    from breakglass.services.recovery.resume import JournalSurvey
    from breakglass.services.recovery.unfinished import JournalledPartition


@dataclass(frozen=True)
class ElectionSubject:
    """Elections with their prices, and what was asked for and is not elected."""

    cluster_id: str
    wanted: tuple[Priced, ...] = ()
    """In the order of recovery."""
    led: tuple[ElectionTarget, ...] = ()
    """Led by their designees already: to be confirmed, and their order put back."""
    left: tuple[Left, ...] = ()
    """Not elected, with the reason."""
    native: NativeRpc = STOCK
    digest: str = ""
    """Of the plan that they come from; empty without one."""
    approved_by: tuple[str, ...] | None = None
    """Who has agreed to that digest; None: nobody could."""
    spared: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Elections that are not needed if something else is done: ``start b3``."""

    @cached_property
    def groups(self) -> tuple[ConsentGroup, ...]:
        """What has to be agreed to, one phrase each."""
        return groups_of(self.wanted)

    @cached_property
    def why_alone(self) -> dict[TopicPartition, str]:
        """Partitions that need a phrase of their own, and why."""
        return {one.partition: one.stake.why_alone for one in self.wanted if one.stake.why_alone}

    @cached_property
    def known_loss(self) -> Price:
        """Records lost by the elections whose loss is known."""
        prices = [one.stake.price for one in self.wanted]
        known = [one.records for one in prices if isinstance(one.records, int)]
        return Price(sum(known), any(one.approximate for one in prices))

    @cached_property
    def unknown_losses(self) -> int:
        """Elections whose loss is not known."""
        return sum(isinstance(one.stake.price.records, Unknown) for one in self.wanted)

    @cached_property
    def unread(self) -> tuple[UnreadRecords, ...]:
        """What only unread replicas can hold, for each election."""
        return tuple(unread_bound(one.evidence) for one in self.wanted)

    @cached_property
    def rescue(self) -> RescueSize:
        """What a rescue saves before them."""
        return rescue_size(self.wanted)

    def summed(self) -> ElectionSubject:
        """The same with everything counted that is asked for later: for a thread of its own."""
        _ = self.groups, self.why_alone, self.known_loss, self.unknown_losses, self.unread
        _ = self.rescue
        return self

    def without(self, partitions: Collection[TopicPartition], reason: str) -> ElectionSubject:
        """The same without the elections of *partitions*, which are left for *reason*."""
        out = [one.partition for one in self.wanted if one.partition in partitions]
        return replace(
            self,
            wanted=tuple(one for one in self.wanted if one.partition not in partitions),
            left=(*self.left, *(Left(one, reason) for one in out)),
        )


def subject_of(
    cluster_id: str,
    partitions: Sequence[TopicPartition],
    assessments: Iterable[Assessment],
    native: NativeRpc = STOCK,
) -> ElectionSubject:
    """The election of the recommended replica of each of *partitions*.

    *assessments* judge those of them that are offline and were read.
    """
    wanted: list[Priced] = []
    left: list[Left] = []
    judged = {one.partition: one for one in assessments}
    for partition in sorted(partitions, key=recovery_order):
        found = _recommended(partition, judged.get(partition))
        if isinstance(found, Left):
            left.append(found)
        else:
            wanted.append(found)
    elected = {one.partition for one in wanted}
    spared = {
        name: str(one.action)
        for name, one in judged.items()
        if one.verdict is Verdict.WAIT and one.restorers and name in elected
    }
    return ElectionSubject(
        cluster_id, tuple(wanted), left=tuple(left), native=native, spared=spared
    )


def _recommended(partition: TopicPartition, found: Assessment | None) -> Priced | Left:
    if found is None:
        return Left(partition, "it is not offline any more, or was not read yet: look again")
    if found.designee is None:
        why = found.reasons[0] if found.reasons else str(found.action)
        return Left(partition, f"{found.verdict} {found.action}: {why}")
    refused = refusal(found.evidence, found.designee)
    if refused:
        return Left(partition, f"{found.verdict} {found.action}: {refused}")
    target = target_of(found.evidence, found.designee, found.ranking)
    return priced_as_judged(found, target)


def subject_of_plan(appraisal: Appraisal, cluster_id: str, native: NativeRpc) -> ElectionSubject:
    """The elections of a plan, on evidence read now."""
    evidence = appraisal.evidence
    held = appraisal.plan.records
    wanted = [
        priced(evidence[one.partition], one, held[one.partition].gone)
        for one in appraisal.targets()
    ]
    records = [held[one.partition] for one in wanted]
    return ElectionSubject(
        cluster_id,
        tuple(sorted(wanted, key=lambda one: recovery_order(one.partition))),
        left=tuple(_skipped(appraisal)),
        native=native,
        digest=appraisal.plan.digest,
        approved_by=tuple(one.by for one in appraisal.plan.approvals),
        spared={one.partition: one.action for one in records if one.comes_back_whole},
    )


def _skipped(appraisal: Appraisal) -> Iterator[Left]:
    for one in appraisal.skipped:
        reason = f"{one.result}{f': {one.reason}' if one.reason else ''}"
        yield Left(one.partition, reason)


def subject_of_journal(found: JournalSurvey, *, undo: bool = False) -> ElectionSubject:
    """What a journal leaves to be elected and confirmed; with *undo* to be put back."""
    remains = found.remains if undo else found.to_finish
    wanted = () if undo else tuple(_priced_again(found, one) for one in remains.offline)
    held = (one.target for one in (remains.offline if undo else remains.led))
    return ElectionSubject(
        found.snapshot.cluster_id,
        wanted,
        led=tuple(held),
        left=remains.left,
        native=found.native,
        digest=_digest(found),
    )


def _priced_again(found: JournalSurvey, part: JournalledPartition) -> Priced:
    return priced(found.evidence[part.target.partition], part.target, part.gone)


def _digest(found: JournalSurvey) -> str:
    plan = found.view.plan
    return "" if plan is None else str(plan.payload.get("digest", ""))
