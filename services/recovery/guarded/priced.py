"""What is to be elected, with what it costs: the frozen subject of a consent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from services.consent import ConsentGroup, Price, Stake, consent_groups
from services.model import PartitionEvidence, TopicPartition
from services.recovery.execution.prepare import target_of
from services.recovery.execution.record import described
from services.recovery.execution.target import Target
from services.recovery.judgement.loss import loss_of
from services.recovery.judgement.replica_choice import own_consent
from services.words.contents import contents_text


@dataclass(frozen=True, slots=True)
class Priced:
    """A target with what electing it costs."""

    evidence: PartitionEvidence
    target: Target
    stake: Stake

    @property
    def partition(self) -> TopicPartition:
        return self.target.partition


def priced(evidence: PartitionEvidence, target: Target) -> Priced:
    """*target* with its price, and whether it needs a consent of its own."""
    loss = loss_of(evidence, target.designee)
    why_alone = own_consent(evidence, target.designee)
    price = Price(loss.total, loss.approximate)
    return Priced(evidence, target, Stake(target.partition, price, why_alone))


def frozen(evidence: PartitionEvidence, designee: int) -> Priced:
    """The election of *designee*, frozen on *evidence*, with its price."""
    return priced(evidence, target_of(evidence, designee))


def groups_of(wanted: Iterable[Priced]) -> tuple[ConsentGroup, ...]:
    """What has to be agreed to before *wanted* are elected, one phrase each."""
    return consent_groups([one.stake for one in wanted])


def planned(one: Priced) -> dict[str, object]:
    """All that it takes to finish in another process, and the price that was agreed to.

    Beside the price, how far it was verified that the designee can be read.
    """
    designee = one.evidence.replica(one.target.designee)
    contents = "not read" if designee is None else contents_text(designee)
    return {**described(one.target), "price": str(one.stake.price), "contents": contents}
