"""What is to be elected, with what it costs: the frozen subject of a consent."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from breakglass.services.guard.consent import ConsentGroup, Price, Stake, consent_groups
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.execution.record import described
from breakglass.services.recovery.execution.target import ElectionTarget, target_of
from breakglass.services.recovery.group_standing import planned_groups
from breakglass.services.recovery.judgement.assessment import Assessment, own_consent
from breakglass.services.recovery.judgement.inputs import abandoned, named
from breakglass.services.recovery.judgement.loss import Loss, loss_of, unread_bound
from breakglass.services.recovery.judgement.ranking import Ranking, holds_records
from breakglass.services.recovery.ledger.holdings import written_holdings
from breakglass.services.words.contents import contents_text


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
