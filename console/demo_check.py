"""Holds what Breakglass said and saved against the lab's truth: verdicts, leaders, losses, keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breakglass.services.lab.truth import PartitionTruth, ReplicaTruth, Truth
    from breakglass.services.recovery.execution.target import PartitionOutcome
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.rescue.results import RescuedPartition, Saved


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


def wrong_leaders(outcomes: Iterable[PartitionOutcome], truth: Truth) -> Iterator[str]:
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


def wrong_rescues(results: Iterable[RescuedPartition], truth: Truth) -> Iterator[str]:
    """A sentence for each partition of which other records were saved than its election cuts off.

    They are read back from disk and compared with the truth key by key.
    """
    found = {one.partition: one for one in results}
    for expected in truth.partitions:
        one = found.get(expected.partition)
        saved, lost = _saved_keys(one.saved if one else ()), lost_keys(expected)
        if saved != lost:
            yield f"{expected.partition}: {len(saved)} records saved, {len(lost)} are cut off"


def lost_keys(expected: PartitionTruth) -> list[str]:
    """Keys of the records that readable replicas hold and the truth's designee does not."""
    designee = expected.expectation.designee
    if designee is None:
        return []
    chosen = expected.replica(designee)
    others = [one for one in expected.replicas if one.readable and one.broker != designee]
    return sorted(
        key
        for written in expected.written
        for offset, key in enumerate(written.keys, written.start)
        if any(_holds(one, written.epoch, offset) for one in others)
        and not _holds(chosen, written.epoch, offset)
    )


def _holds(replica: ReplicaTruth, epoch: int, offset: int) -> bool:
    return any(one.epoch == epoch and one.start <= offset < one.end for one in replica.epochs)


def _saved_keys(saved: Iterable[Saved]) -> list[str]:
    from breakglass.services.topic_backup.address import partition_of

    return sorted(
        (record.key or b"").decode()
        for one in saved
        for record in partition_of(str(one.path)).records()
    )


def true_loss(expected: PartitionTruth) -> int | None:
    """Readable records that electing the truth's designee loses."""
    designee = expected.expectation.designee
    if designee is None:
        return None
    choice = expected.choice(designee)
    return choice.committed + choice.uncommitted


def _loss(one: Assessment | None) -> object:
    return None if one is None or one.loss is None else one.loss.total
