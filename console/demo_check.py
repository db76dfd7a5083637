"""Holds what Breakglass said against what the lab knows: verdicts, leaders, losses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.lab.truth import PartitionTruth, Truth
    from services.recovery.assessment import Assessment
    from services.recovery.execution.target import Outcome


def wrong_verdicts(assessments: Iterable[Assessment], truth: Truth) -> Iterator[str]:
    """A sentence for each partition whose verdict or action's broker is not the truth's."""
    found = {one.partition: one for one in assessments}
    for expected in truth.partitions:
        one = found.get(expected.partition)
        said = "nothing" if one is None else f"{one.verdict} {one.action}"
        wanted = expected.expectation
        if one is None or (one.verdict.value, one.action.broker) != (
            wanted.verdict,
            wanted.broker,
        ):
            yield (
                f"{expected.partition}: said {said}, true is {wanted.verdict} b{wanted.broker} "
                f"({wanted.why})"
            )


def wrong_leaders(outcomes: Iterable[Outcome], truth: Truth) -> Iterator[str]:
    """A sentence for each partition that is not led by the truth's designee now."""
    found = {one.partition: one for one in outcomes}
    for expected in truth.partitions:
        one = found.get(expected.partition)
        leader = one.leader if one is not None and one.succeeded else None
        if leader != expected.expectation.designee:
            yield f"{expected.partition}: led by b{leader}, not b{expected.expectation.designee}"


def wrong_losses(assessments: Iterable[Assessment], truth: Truth) -> Iterator[str]:
    """A sentence for each partition whose loss is not the truth's, record by record."""
    found = {one.partition: one for one in assessments}
    for expected in truth.partitions:
        said, true = _loss(found.get(expected.partition)), true_loss(expected)
        if said != true:
            yield f"{expected.partition}: said to lose {said}, true is {true}"


def true_loss(expected: PartitionTruth) -> int | None:
    """Readable records that electing the truth's designee loses."""
    designee = expected.expectation.designee
    if designee is None:
        return None
    choice = expected.choice(designee)
    return choice.committed + choice.uncommitted


def _loss(one: Assessment | None) -> object:
    return None if one is None or one.loss is None else one.loss.total
