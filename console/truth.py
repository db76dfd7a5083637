"""Showing the lab's scenarios, and the truth about a damaged lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from breakglass.console.output import Column, print_json, print_table

if TYPE_CHECKING:
    from breakglass.services.lab.scenarios.scenario import Scenario
    from breakglass.services.lab.truth import PartitionTruth, ReplicaTruth, Truth

SCENARIO_COLUMNS = (Column("Scenario"), Column("Options"), Column("What happens"))
TRUTH_COLUMNS = (
    Column("Partition"),
    Column("Verdict"),
    Column("Best"),
    Column("Broker", right=True),
    Column("Start", right=True),
    Column("LEO", right=True),
    Column("Epochs"),
    Column("Committed", right=True),
    Column("Uncommitted", right=True),
    Column("Unread", right=True),
    Column("Acked", right=True),
)
"""The last four: records lost by electing that replica."""
MOST_PARTITIONS = 20


def print_scenarios(scenarios: Sequence[Scenario], *, as_json: bool) -> None:
    """List what can happen to a lab."""
    if as_json:
        print_json(
            [
                {"name": one.name, "summary": one.summary, "options": dict(one.options)}
                for one in scenarios
            ]
        )
        return
    print_table(SCENARIO_COLUMNS, [[one.name, _options(one), one.summary] for one in scenarios])


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


def _options(scenario: Scenario) -> str:
    return " ".join(f"{key}={value}" for key, value in scenario.options.items())


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
        yield [*first, *_replica(replica), *price]


def _replica(replica: ReplicaTruth) -> tuple[object, ...]:
    epochs = " ".join(str(one.epoch) for one in replica.epochs)
    return replica.broker, replica.log_start, replica.log_end, epochs
