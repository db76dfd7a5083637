"""Predicts which replicas the controller elects uncleanly by itself, and the loss (R14). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from breakglass.services.guard.consent import Price, Stake
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.judgement.succession import (
    BY_UNCLEAN_ELECTION,
    Circumstances,
    forecast,
)


@dataclass(frozen=True, slots=True)
class UncleanWinner:
    """The replica that an unclean election by order takes, with the brokers live now."""

    partition: TopicPartition
    broker: int
    price: Price
    best: int | None
    """The replica that an election should choose; None: no replica can be read."""
    best_price: Price | None

    @property
    def stake(self) -> Stake:
        return Stake(self.partition, self.price)

    def __str__(self) -> str:
        """``b2 is elected next, and loses 25; b1 loses 0``."""
        told = f"b{self.broker} is elected at any moment, and loses {self.price}"
        if self.best is None or self.best_price is None or self.best == self.broker:
            return told
        return f"{told}; b{self.best} loses {self.best_price}"


def unclean_winners(
    judged: Iterable[Assessment], circumstances: Circumstances
) -> Iterator[UncleanWinner]:
    """The winners of *judged* partitions where unclean election is on and a replica is live.

    Partitions for which a clean successor is elected are left out: they need no unclean election.
    """
    for assessment in judged:
        settings = replace(assessment.evidence.settings, unclean_election=True)
        next_leader = forecast(replace(assessment.evidence, settings=settings), circumstances)
        if next_leader.broker is None or next_leader.reason != BY_UNCLEAN_ELECTION:
            continue
        best = assessment.best
        yield UncleanWinner(
            assessment.partition,
            next_leader.broker,
            _price(assessment, next_leader.broker),
            best,
            None if best is None else _price(assessment, best),
        )


def _price(judged: Assessment, broker: int) -> Price:
    loss = judged.loss_of(broker)
    return Price(loss.total, loss.approximate)
