"""Whether what a plan rests on still holds: its evidence against evidence read now."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from breakglass.services.errors import WrongCluster
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    Reassignment,
    ReplicaLog,
    TopicPartition,
    TopicSettings,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import refusal
from breakglass.services.recovery.judgement.inputs import abandoned, named
from breakglass.services.recovery.judgement.loss import loss_of, unread_bound
from breakglass.services.recovery.judgement.ranking import (
    ReplicaStanding,
    eligibility,
    rank,
    replica_eligibility,
)
from breakglass.services.recovery.judgement.succession import hazards

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan


class CheckStatus(StrEnum):
    """The state of an election of a plan."""

    UNCHANGED = "unchanged"
    RERANKED = "re-ranked"
    """Only the leader epoch or the order of the assignment moved; rank and loss are the same."""
    CHANGED = "changed"
    """The evidence of the plan has changed: skipped."""
    ONLINE = "online"
    """It has a leader by now: nothing to do, a success."""
    DELETED = "deleted"
    """The partition no longer exists."""
    REFUSED = "refused"
    """Nothing changed, but this leader cannot be elected, as in a file edited by hand."""
    NEW = "new"
    """An election of a bare plan, which had no evidence until now."""

    @property
    def goes_on(self) -> bool:
        """Whether the election is still to run."""
        return self in (CheckStatus.UNCHANGED, CheckStatus.RERANKED, CheckStatus.NEW)

    @property
    def fine(self) -> bool:
        """Whether the partition ends as planned: it can be elected, or has a leader already."""
        return self.goes_on or self is CheckStatus.ONLINE


@dataclass(frozen=True, slots=True)
class Checked:
    """An election of a plan, compared with the present."""

    partition: TopicPartition
    leader: int
    status: CheckStatus
    reason: str = ""
    """The change; empty if nothing changed."""


def led_evidence(state: PartitionState) -> PartitionEvidence:
    """The evidence of a partition that has a leader: its logs and settings are not read."""
    unread = Unknown("not read, for the partition has a leader")
    return PartitionEvidence(state, (), TopicSettings(unread, unread, unread, unread))


def require_cluster(plan: Plan, cluster_id: str, source: str) -> None:
    """Return if *plan*, which messages call *source*, was made for this cluster, or for any.

    Raises:
        WrongCluster: the plan was made for another cluster.
    """
    if plan.cluster_id not in (None, cluster_id):
        raise WrongCluster(
            f"{source} was made for cluster {plan.cluster_id} and this is cluster {cluster_id}: "
            "connect to the right one, or make a plan for this one."
        )


def check(plan: Plan, fresh: Mapping[TopicPartition, PartitionEvidence]) -> tuple[Checked, ...]:
    """Compare each election of *plan* with *fresh* evidence, in the plan's order.

    Raises ValueError for a bare plan, which rests on nothing yet (`planning.adopt`).
    """
    if plan.breakglass is None:
        raise ValueError("a bare plan has no evidence to check")
    return tuple(
        [
            check_one(plan.records[partition], leader, fresh.get(partition))
            for partition, leader in plan.leaders.items()
        ]
    )


def check_one(record: PartitionRecord, leader: int, now: PartitionEvidence | None) -> Checked:
    """Compare the election of *leader* with the evidence *now*; None: no such partition."""
    return check_evidence(record.evidence, leader, now)


def check_evidence(then: PartitionEvidence, leader: int, now: PartitionEvidence | None) -> Checked:
    """Compare the election of *leader* on the evidence of *then* with that of *now*."""
    partition = then.partition
    if now is None:
        return Checked(partition, leader, CheckStatus.DELETED, "there is no such partition now")
    if now.state.topic_id != then.state.topic_id:
        reason = "the topic was deleted and created again"
        return Checked(partition, leader, CheckStatus.CHANGED, reason)
    if not now.state.offline:
        reason = f"b{now.state.leader} leads it"
        return Checked(partition, leader, CheckStatus.ONLINE, reason)
    changes = "; ".join(_changes(then, now, leader)) or _worse(then, now, leader)
    if changes:
        return Checked(partition, leader, CheckStatus.CHANGED, changes)
    barred = refusal(now, leader)
    if barred:
        return Checked(partition, leader, CheckStatus.REFUSED, barred)
    moved = _moved(then, now)
    return Checked(
        partition, leader, CheckStatus.RERANKED if moved else CheckStatus.UNCHANGED, moved
    )


def _changes(then: PartitionEvidence, now: PartitionEvidence, leader: int) -> Iterator[str]:
    if set(then.state.assignment) != set(now.state.assignment):
        before, after = named(then.state.assignment), named(now.state.assignment)
        yield f"the assignment was {before} and is {after}"
        return
    if now.unregistered and not then.unregistered:
        yield f"{named(now.unregistered)} is no longer registered"
    if isinstance(now.state.reassignment, Reassignment):
        yield "a reassignment is under way"
    in_the_way = [hazard for hazard in hazards(now, leader) if hazard not in hazards(then, leader)]
    if in_the_way:
        yield f"the controller may elect {named(in_the_way)} instead"
    for replica in then.replicas:
        present = now.replica(replica.broker)
        if present is None:
            yield f"b{replica.broker} was not read"
        else:
            yield from _replica_changes(replica, present)
            yield from _standing_change(then, now, present, leader)


def _replica_changes(then: ReplicaLog, now: ReplicaLog) -> Iterator[str]:
    name = f"b{then.broker}"
    if not _same(then.log_end, now.log_end):
        yield f"the log end of {name} was {_shown(then.log_end)} and is {_shown(now.log_end)}"
    before, after = then.last_written_epoch, now.last_written_epoch
    if not _same(before, after):
        yield f"the last written epoch of {name} was {_shown(before)} and is {_shown(after)}"


def _standing_change(
    then: PartitionEvidence, now: PartitionEvidence, present: ReplicaLog, leader: int
) -> Iterator[str]:
    """Any change of the designee; another replica only when it became more able to lead."""
    before = eligibility(then, present.broker)
    after = replica_eligibility(now, present)
    if before.standing is after.standing:
        return
    became_able = _ABILITY[after.standing] > _ABILITY[before.standing]
    if present.broker == leader or became_able:
        was = f"was {before.standing.value} and is {after.standing.value}"
        yield f"b{present.broker} {was}{f' ({after.reason})' if after.reason else ''}"


_ABILITY = {
    ReplicaStanding.BARRED: 0,
    ReplicaStanding.BY_HAND: 1,
    ReplicaStanding.DOUBTFUL: 2,
    ReplicaStanding.ELIGIBLE: 3,
}


def _worse(then: PartitionEvidence, now: PartitionEvidence, leader: int) -> str:
    """How rank or loss of the designee changed, where its parts did not."""
    if _rank(now, leader) > _rank(then, leader):
        return f"b{leader} no longer has its rank"
    before, after = loss_of(then, leader).total, loss_of(now, leader).total
    if not _same(before, after):
        return f"electing b{leader} lost {_shown(before)} and would lose {_shown(after)}"
    return more_unread(abandoned(then, leader), unread_bound(then).at_least, now, leader)


def more_unread(
    given_up: Collection[int], at_least: int | Unknown, now: PartitionEvidence, leader: int
) -> str:
    """What electing *leader* gives up now beyond what was agreed to; empty if nothing.

    The price was the unread logs of the brokers *given_up*, of *at_least* records.
    """
    more = [broker for broker in abandoned(now, leader) if broker not in given_up]
    if more:
        return f"electing b{leader} would also abandon {named(more)}, which is unread now"
    bound = unread_bound(now).at_least
    if isinstance(at_least, Unknown) or (isinstance(bound, int) and bound <= at_least):
        return ""
    if isinstance(bound, Unknown) and not abandoned(now, leader):
        return ""
    least = "an unknown number of records" if isinstance(bound, Unknown) else f">= {bound:,}"
    return f"unread logs had >= {at_least:,} records and have {least} now"


def _rank(evidence: PartitionEvidence, broker: int) -> int:
    brokers = rank(evidence).recommendable
    return brokers.index(broker) if broker in brokers else len(brokers)


def _moved(then: PartitionEvidence, now: PartitionEvidence) -> str:
    if then.state.leader_epoch != now.state.leader_epoch:
        return f"leader epoch {then.state.leader_epoch} became {now.state.leader_epoch}"
    if then.state.assignment != now.state.assignment:
        return "the order of the assignment changed"
    return ""


def _same(figure: int | None | Unknown, other: int | None | Unknown) -> bool:
    """Equal, where all that is unknown is alike whatever the reason."""
    if isinstance(figure, Unknown) or isinstance(other, Unknown):
        return isinstance(figure, Unknown) and isinstance(other, Unknown)
    return figure == other


def _shown(value: int | None | Unknown) -> str:
    return "unknown" if isinstance(value, Unknown) else "none" if value is None else f"{value:,}"
