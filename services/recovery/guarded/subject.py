"""What a guarded election is about, frozen before consent: targets, prices, what is left out.

The price of a rescue is part of it: how much will be saved is estimated before consent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import ConsentGroup, Price
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.execution.target import ElectionTarget, target_of
from breakglass.services.recovery.guarded.election_quote import (
    Priced,
    groups_of,
    priced,
    priced_as_judged,
)
from breakglass.services.recovery.judgement.assessment import (
    Assessment,
    Verdict,
    recovery_order,
    refusal,
)
from breakglass.services.recovery.judgement.loss import UnreadRecords, unread_bound
from breakglass.services.recovery.rescue.rescue import divide
from breakglass.services.recovery.rescue.results import estimate
from breakglass.services.recovery.rescue.spans import AtRisk
from breakglass.services.recovery.triage import Left

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.appraisal import Appraisal
    from breakglass.services.recovery.resume import JournalSurvey
    from breakglass.services.recovery.unfinished import JournalledPartition


@dataclass(frozen=True, slots=True)
class RescueSize:
    """What the elections cut off readable replicas."""

    partitions: int
    """Partitions of which something will be saved."""
    records: int
    """Offsets to be saved; an upper bound where a log was compacted."""
    size: int | Unknown
    """About how many bytes the rescue takes, if batches are not compressed."""
    impossible: int = 0
    """Partitions that cannot be rescued: a log start is unknown."""


def rescue_size(wanted: Iterable[Priced]) -> RescueSize:
    """What a rescue before the election of *wanted* saves; asks nobody."""
    at_risk = [AtRisk(quoted.evidence, quoted.target.designee) for quoted in wanted]
    shares, unknown = divide(at_risk)
    chosen = [share for some in shares.values() for share in some]
    size: int | Unknown = 0
    for share in chosen:
        bytes_ = estimate(share)
        size = bytes_ if isinstance(bytes_, Unknown) or isinstance(size, Unknown) else size + bytes_
        if isinstance(size, Unknown):
            break
    return RescueSize(len(shares), sum(share.offsets for share in chosen), size, len(unknown))


@dataclass(frozen=True)
class ElectionSubject:
    """Elections with their prices, and requested partitions that are not elected."""

    cluster_id: str
    wanted: tuple[Priced, ...] = ()
    """The elections, in the order of recovery."""
    led: tuple[ElectionTarget, ...] = ()
    """Led by their designees already: to be confirmed, and their order put back."""
    left: tuple[Left, ...] = ()
    """Partitions that are not elected, with the reason."""
    native: NativeRpc = STOCK
    digest: str = ""
    """The digest of the plan that the elections come from; empty without a plan."""
    approved_by: tuple[str, ...] | None = None
    """Who approved that digest; None: there is no plan to approve."""
    spared: Mapping[TopicPartition, str] = field(default_factory=dict)
    """What would bring partitions back without an election: ``start b3``."""

    @cached_property
    def groups(self) -> tuple[ConsentGroup, ...]:
        """The phrases to agree to."""
        return groups_of(self.wanted)

    @cached_property
    def why_alone(self) -> dict[TopicPartition, str]:
        """Partitions that need a phrase of their own, and why."""
        return {
            quoted.partition: quoted.stake.why_alone
            for quoted in self.wanted
            if quoted.stake.why_alone
        }

    @cached_property
    def known_loss(self) -> Price:
        """Records lost by the elections whose loss is known."""
        prices = [quoted.stake.price for quoted in self.wanted]
        known = [price.records for price in prices if isinstance(price.records, int)]
        return Price(sum(known), any(price.approximate for price in prices))

    @cached_property
    def unknown_losses(self) -> int:
        """Elections whose loss is not known."""
        return sum(isinstance(quoted.stake.price.records, Unknown) for quoted in self.wanted)

    @cached_property
    def unread(self) -> tuple[UnreadRecords, ...]:
        """What only unread replicas can hold, for each election."""
        return tuple(unread_bound(quoted.evidence) for quoted in self.wanted)

    @cached_property
    def rescue(self) -> RescueSize:
        return rescue_size(self.wanted)

    def summed(self) -> ElectionSubject:
        """The subject with all sums worked out, which a thread of its own can do."""
        _ = self.groups, self.why_alone, self.known_loss, self.unknown_losses, self.unread
        _ = self.rescue
        return self

    def without(self, partitions: Collection[TopicPartition], reason: str) -> ElectionSubject:
        """The subject without the elections of *partitions*, which are left for *reason*."""
        gone = frozenset(partitions)
        out = [quoted.partition for quoted in self.wanted if quoted.partition in gone]
        return replace(
            self,
            wanted=tuple(quoted for quoted in self.wanted if quoted.partition not in gone),
            left=(*self.left, *(Left(partition, reason) for partition in out)),
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
    judged = {assessment.partition: assessment for assessment in assessments}
    for partition in sorted(partitions, key=recovery_order):
        found = _recommended(partition, judged.get(partition))
        if isinstance(found, Left):
            left.append(found)
        else:
            wanted.append(found)
    elected = {quoted.partition for quoted in wanted}
    spared = {
        name: str(assessment.action)
        for name, assessment in judged.items()
        if assessment.verdict is Verdict.WAIT and assessment.restorers and name in elected
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
    by_partition = appraisal.plan.records
    wanted = [
        priced(evidence[target.partition], target, by_partition[target.partition].gone)
        for target in appraisal.targets()
    ]
    records = [by_partition[quoted.partition] for quoted in wanted]
    return ElectionSubject(
        cluster_id,
        tuple(sorted(wanted, key=lambda quoted: recovery_order(quoted.partition))),
        left=tuple(skipped_of(appraisal)),
        native=native,
        digest=appraisal.plan.digest,
        approved_by=tuple(approval.by for approval in appraisal.plan.approvals),
        spared={record.partition: record.action for record in records if record.comes_back_whole},
    )


def skipped_of(appraisal: Appraisal) -> Iterator[Left]:
    """The partitions of a plan that are not elected, with the reason."""
    for skipped in appraisal.skipped:
        reason = f"{skipped.result}{f': {skipped.reason}' if skipped.reason else ''}"
        yield Left(skipped.partition, reason)


def subject_of_journal(found: JournalSurvey, *, undo: bool = False) -> ElectionSubject:
    """What a journal leaves to be elected and confirmed; with *undo* to be put back."""
    remains = found.remains if undo else found.to_finish
    wanted = (
        () if undo else tuple(_priced_again(found, unfinished) for unfinished in remains.offline)
    )
    led = (unfinished.target for unfinished in (remains.offline if undo else remains.led))
    plan = found.view.plan
    return ElectionSubject(
        found.snapshot.cluster_id,
        wanted,
        led=tuple(led),
        left=remains.left,
        native=found.native,
        digest="" if plan is None else str(plan.payload.get("digest", "")),
    )


def _priced_again(found: JournalSurvey, part: JournalledPartition) -> Priced:
    return priced(found.evidence[part.target.partition], part.target, part.gone)
