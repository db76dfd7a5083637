"""What a guarded election is about, frozen before consent: targets, prices, what is left out.

The price of a rescue is part of it: how much will be saved is estimated before consent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import ConsentGroup, Price, Stake, consent_groups
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.native_rpc import AUTO, STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.evidence.contents import as_known
from breakglass.services.recovery.execution.steps import described
from breakglass.services.recovery.execution.target import ElectionTarget, target_of
from breakglass.services.recovery.group_standing import planned_groups
from breakglass.services.recovery.judgement.assessment import (
    Assessment,
    Verdict,
    own_consent,
    recovery_order,
    refusal,
)
from breakglass.services.recovery.judgement.inputs import abandoned, named
from breakglass.services.recovery.judgement.loss import Loss, UnreadRecords, loss_of, unread_bound
from breakglass.services.recovery.judgement.ranking import Ranking, holds_records
from breakglass.services.recovery.ledger.holdings import written_holdings
from breakglass.services.recovery.plan.check import (
    Checked,
    CheckStatus,
    check_evidence,
    led_evidence,
)
from breakglass.services.recovery.rescue.rescue import divide
from breakglass.services.recovery.rescue.spans import AtRisk, estimate
from breakglass.services.recovery.triage import Left, Triage, judge, select
from breakglass.services.words.figures import contents_text

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.make import Appraisal
    from breakglass.services.recovery.unfinished import JournalSurvey


@quickly_made
@dataclass(frozen=True, slots=True)
class Priced:
    """A target with the price of its election."""

    evidence: PartitionEvidence
    target: ElectionTarget
    stake: Stake
    gone: tuple[int, ...] = ()
    """Brokers declared gone, which are not waited for."""

    @property
    def partition(self) -> TopicPartition:
        return self.target.partition


def priced(
    evidence: PartitionEvidence,
    target: ElectionTarget,
    gone: Collection[int] = (),
    loss: Loss | None = None,
    ranking: Ranking | None = None,
) -> Priced:
    """*target* with its price, whom it abandons, and whether it needs a consent of its own.

    Brokers of *gone* are not passed over: somebody declared that they never return. The *loss*
    of electing the designee and the *ranking* save working them out again.
    """
    loss = loss or loss_of(evidence, target.designee)
    stake = Stake(
        target.partition,
        Price(loss.total, loss.approximate),
        own_consent(evidence, target.designee, gone, loss, ranking),
        tuple(sorted(abandoned(evidence, target.designee))),
    )
    return Priced(evidence, target, stake, tuple(sorted(gone)))


def priced_as_judged(judged: Assessment, target: ElectionTarget) -> Priced:
    """The election priced on the evidence that was *judged*, with its loss and its ranking."""
    loss = judged.loss_of(target.designee)
    return priced(judged.evidence, target, judged.gone, loss, judged.ranking)


def frozen(evidence: PartitionEvidence, designee: int, gone: Collection[int] = ()) -> Priced:
    """The election of *designee*, frozen on *evidence*, with its price."""
    return priced(evidence, target_of(evidence, designee), gone)


def groups_of(wanted: Iterable[Priced]) -> tuple[ConsentGroup, ...]:
    """The phrases to agree to before *wanted* are elected."""
    return consent_groups([quoted.stake for quoted in wanted])


def empty_over_unread(
    elections: Iterable[tuple[PartitionEvidence, int, tuple[int, ...]]],
) -> tuple[str, ...]:
    """Which elections are of an EMPTY log while others are unread; each broker in a sentence.

    *elections* are the evidence, the designee, and the brokers that are given up. A shared phrase
    does not say it.
    """
    found: dict[tuple[int, tuple[int, ...]], list[TopicPartition]] = {}
    for evidence, broker, abandons in elections:
        replica = evidence.replica(broker)
        if abandons and replica is not None and not holds_records(replica):
            found.setdefault((broker, abandons), []).append(evidence.partition)
    return tuple(
        f"b{broker} is EMPTY in {named_first(partitions)}: all that unread {named(abandons)} "
        f"{'has' if len(abandons) == 1 else 'have'} of {'it' if len(partitions) == 1 else 'them'} "
        "is given up"
        for (broker, abandons), partitions in found.items()
    )


def named_first(partitions: list[TopicPartition]) -> str:
    """``orders-3``, ``orders-3 and 4 more partitions``."""
    more = len(partitions) - 1
    return f"{partitions[0]}" + (f" and {more:,} more partition{'s' * (more != 1)}" * bool(more))


def planned(quoted: Priced) -> dict[str, object]:
    """All that it takes to finish in another process, and what was agreed to.

    That is the price, the brokers that are abandoned, and what they hold at least: None where
    nothing is known of that. Beside it stands how far the designee's contents were verified, what
    each replica held, for the ledger of the incident, and which groups the election leaves past
    the end.
    """
    unread = unread_bound(quoted.evidence)
    designee = quoted.evidence.replica(quoted.target.designee)
    return {
        **described(quoted.target),
        "price": str(quoted.stake.price),
        "abandons": quoted.stake.abandons,
        "unread_at_least": None if isinstance(unread.at_least, Unknown) else unread.at_least,
        "unread_source": unread.source,
        "gone": quoted.gone,
        "contents": "not read" if designee is None else contents_text(designee),
        **written_holdings(quoted.evidence),
        **planned_groups(quoted.evidence, quoted.target.log_end),
    }


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
        ()
        if undo
        else tuple(
            priced(found.evidence[unfinished.target.partition], unfinished.target, unfinished.gone)
            for unfinished in remains.offline
        )
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


@dataclass(frozen=True, slots=True)
class Reread:
    """What was agreed to, compared with what the brokers say now."""

    checked: tuple[Checked, ...]
    """The result for each election, in their order."""
    wanted: tuple[Priced, ...]
    """What can be elected on the evidence of now, at the price of now.

    Partitions that are led by now stay, at the price that was agreed to: the run finds them
    online, and nothing of them is to be rescued.
    """
    native: NativeRpc

    @property
    def changed(self) -> tuple[Checked, ...]:
        """Elections whose evidence has changed."""
        return tuple(checked for checked in self.checked if not checked.status.fine)


def reread(
    client: ReadClient,
    cluster_id: str,
    wanted: Sequence[Priced],
    duration: float,
    native_choice: str = AUTO,
    *,
    report: Callable[[Triage], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Reread:
    """Read the partitions of *wanted* again and compare each election with its evidence.

    Brokers have *duration* seconds to answer; *report* is called with each reading so far.

    Raises:
        WrongCluster: the addresses lead to another cluster than *cluster_id* by now.
        Unreachable: no broker serves the cluster's metadata.
        NotAuthorized: a topic may not be described any more.
    """
    selection = select(client, [quoted.partition for quoted in wanted])
    require_same_cluster(cluster_id, selection.snapshot.cluster_id)
    found: Triage | None = None
    if selection.offline:
        for found in judge(
            client,
            selection.snapshot,
            selection.offline,
            duration,
            native_choice,
            stop=stop,
            contents=None,
            elsewhere=False,
        ):
            report(found)
    # What is known now of each partition that exists. The contents of a log are not read again:
    # where its end and epoch are as *before*, so are they.
    read = () if found is None else found.evidence.partitions
    then = {quoted.partition: quoted.evidence for quoted in wanted}
    now = {
        evidence.partition: as_known(then.get(evidence.partition), evidence) for evidence in read
    }
    for state in selection.online:
        now[state.partition] = led_evidence(state)
    checked = tuple(
        check_evidence(quoted.evidence, quoted.target.designee, now.get(quoted.partition))
        for quoted in wanted
    )
    native = STOCK if found is None else found.native
    return Reread(checked, tuple(_as_of_now(wanted, checked, now)), native)


def _as_of_now(
    wanted: Sequence[Priced],
    checked: Sequence[Checked],
    now: Mapping[TopicPartition, PartitionEvidence],
) -> Iterator[Priced]:
    for before, found in zip(wanted, checked, strict=True):
        if found.status is CheckStatus.ONLINE:
            yield replace(before, evidence=now[found.partition])
        elif found.status is not CheckStatus.DELETED:
            evidence = now[found.partition]
            if not refusal(evidence, found.leader):
                yield frozen(evidence, found.leader, before.gone)
