"""The truth about a damaged lab: printed, and compared with what Breakglass said and saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from breakglass.console.output import columns, print_json, print_table

if TYPE_CHECKING:
    from breakglass.services.lab.scenarios.scenario import Scenario
    from breakglass.services.lab.truth import PartitionTruth, ReplicaTruth, Truth
    from breakglass.services.recovery.execution.target import PartitionOutcome
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.ledger.entries import IncidentLedger
    from breakglass.services.recovery.rescue.spans import RescuedPartition, Saved


SCENARIO_COLUMNS = columns("Scenario", "Options", "What happens")
TRUTH_COLUMNS = columns(
    "Partition",
    "Verdict",
    "Best",
    ">Broker",
    ">Start",
    ">LEO",
    "Epochs",
    ">Committed",
    ">Uncommitted",
    ">Unread",
    ">Acked",
)
"""The last four: records lost by electing that replica."""
MOST_PARTITIONS = 20


def print_scenarios(scenarios: Sequence[Scenario], *, as_json: bool) -> None:
    """List what can happen to a lab."""
    if as_json:
        listed = [
            {"name": one.name, "summary": one.summary, "options": dict(one.options)}
            for one in scenarios
        ]
        print_json({"schema": 1, "scenarios": listed})
        return
    print_table(
        SCENARIO_COLUMNS,
        [
            (
                scenario.name,
                " ".join(f"{key}={value}" for key, value in scenario.options.items()),
                scenario.summary,
            )
            for scenario in scenarios
        ],
    )


def print_truth(truth: Truth, *, as_json: bool) -> None:
    """Print the whole truth as JSON, or a row for each replica of the first partitions."""
    if as_json:
        from breakglass.services.lab.truth import document

        print_json(document(truth))
        return
    shown = truth.partitions[:MOST_PARTITIONS]
    print_table(TRUTH_COLUMNS, [row for partition in shown for row in _rows(partition)])
    left = len(truth.partitions) - len(shown)
    if left:
        print(f"and {left:,} more partitions")


def _rows(truth: PartitionTruth) -> Iterator[list[object]]:
    expected = truth.expectation
    choices = {choice.broker: choice for choice in truth.choices}
    for number, replica in enumerate(truth.replicas):
        first = (truth.partition, expected.verdict, expected.designee) if number == 0 else ("",) * 3
        choice = choices.get(replica.broker)
        price = (
            (choice.committed, choice.uncommitted, choice.unread, choice.acked)
            if choice
            else ("",) * 4
        )
        epochs = " ".join(str(epoch.epoch) for epoch in replica.epochs)
        yield [*first, replica.broker, replica.log_start, replica.log_end, epochs, *price]


def wrong_verdicts(assessments: Iterable[Assessment], truth: Truth) -> Iterator[str]:
    """A sentence for each partition whose verdict or action's broker is not the truth's."""
    found = {assessment.partition: assessment for assessment in assessments}
    for expected in truth.partitions:
        assessment = found.get(expected.partition)
        said = "nothing" if assessment is None else f"{assessment.verdict} {assessment.action}"
        wanted = expected.expectation
        if assessment is None or (assessment.verdict.value, assessment.action.broker) != (
            wanted.verdict,
            wanted.broker,
        ):
            yield (
                f"{expected.partition}: said {said}, true is {wanted.verdict} b{wanted.broker} "
                f"({wanted.why})"
            )


def wrong_leaders(outcomes: Iterable[PartitionOutcome], truth: Truth) -> Iterator[str]:
    """A sentence for each partition that is not led by the truth's designee now."""
    found = {outcome.partition: outcome for outcome in outcomes}
    for expected in truth.partitions:
        outcome = found.get(expected.partition)
        leader = outcome.leader if outcome is not None and outcome.succeeded else None
        if leader != expected.expectation.designee:
            yield f"{expected.partition}: led by b{leader}, not b{expected.expectation.designee}"


def wrong_losses(assessments: Iterable[Assessment], truth: Truth) -> Iterator[str]:
    """A sentence for each partition whose loss is not the truth's, record by record."""
    found = {assessment.partition: assessment for assessment in assessments}
    for expected in truth.partitions:
        assessment, true = found.get(expected.partition), true_loss(expected)
        said = assessment.loss.total if assessment and assessment.loss else None
        if said != true:
            yield f"{expected.partition}: said to lose {said}, true is {true}"


def wrong_rescues(results: Iterable[RescuedPartition], truth: Truth) -> Iterator[str]:
    """A sentence for each partition of which other records were saved than its election cuts off.

    They are read back from disk and compared with the truth key by key.
    """
    found = {result.partition: result for result in results}
    for expected in truth.partitions:
        rescued = found.get(expected.partition)
        saved, lost = _saved_keys(rescued.saved if rescued else ()), lost_keys(expected)
        if saved != lost:
            yield f"{expected.partition}: {len(saved)} records saved, {len(lost)} are cut off"


def wrong_ledger(ledger: IncidentLedger, truth: Truth) -> Iterator[str]:
    """A sentence for each figure of the ledger that is not the truth's, and where it adds up not.

    The truth counts records by (epoch, offset): what the designee holds is kept, and what other
    readable replicas hold besides is rescued.
    """
    yield from ledger.differences
    found = {partition.partition: partition for partition in ledger.partitions}
    for expected in truth.partitions:
        true = true_fates(expected)
        one = found.get(expected.partition)
        said = {} if one is None else {str(fate): part.total for fate, part in one.sums.items()}
        said = {fate: records for fate, records in said.items() if records}
        if one is None or said != true or one.held != sum(true.values()):
            yield f"{expected.partition}: the ledger has {said}, true is {true}"


def true_fates(expected: PartitionTruth) -> dict[str, int]:
    """How many records the election of the truth's designee keeps, and how many are rescued."""
    designee = expected.expectation.designee
    if designee is None:
        return {}
    kept = records_of(expected.replica(designee))
    held = set[tuple[int, int]]().union(
        *(records_of(replica) for replica in expected.replicas if replica.readable)
    )
    counted = {"kept": len(kept), "rescued": len(held - kept)}
    return {fate: records for fate, records in counted.items() if records}


def records_of(replica: ReplicaTruth) -> set[tuple[int, int]]:
    """Epoch and offset of each record of *replica*, as its segments have them."""
    return {
        (epoch.epoch, offset)
        for epoch in replica.epochs
        for offset in range(epoch.start, epoch.end)
    }


def keys_of(expected: PartitionTruth, broker: int) -> set[str]:
    """Keys of the records that *broker* held after the damage."""
    held = expected.replica(broker)
    return {
        key
        for written in expected.written
        for offset, key in enumerate(written.keys, written.start)
        if _holds(held, written.epoch, offset)
    }


def lost_keys(expected: PartitionTruth) -> list[str]:
    """Keys of the records that readable replicas hold and the truth's designee does not."""
    designee = expected.expectation.designee
    if designee is None:
        return []
    chosen = expected.replica(designee)
    others = [
        replica for replica in expected.replicas if replica.readable and replica.broker != designee
    ]
    return sorted(
        key
        for written in expected.written
        for offset, key in enumerate(written.keys, written.start)
        if any(_holds(other, written.epoch, offset) for other in others)
        and not _holds(chosen, written.epoch, offset)
    )


def _holds(replica: ReplicaTruth, epoch: int, offset: int) -> bool:
    return any(span.epoch == epoch and span.start <= offset < span.end for span in replica.epochs)


def _saved_keys(saved: Iterable[Saved]) -> list[str]:
    from breakglass.services.topic_backup.address import partition_of

    return sorted(
        (record.key or b"").decode()
        for place in saved
        for record in partition_of(str(place.path)).records()
    )


def true_loss(expected: PartitionTruth) -> int | None:
    """Readable records that electing the truth's designee loses."""
    designee = expected.expectation.designee
    if designee is None:
        return None
    choice = expected.choice(designee)
    return choice.committed + choice.uncommitted
