"""The demo's comparison of the ledger with the truth: what is wrong is named, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from breakglass.console.truth import wrong_ledger
from breakglass.services.lab.truth import (
    Expectation,
    PartitionTruth,
    ReplicaTruth,
    TrueVerdict,
    Truth,
)
from breakglass.services.model import EpochRange
from breakglass.services.recovery.ledger.entries import Fate, FateSum, IncidentLedger
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.ledger.incidents import LEDGER


def replica(broker: int, *epochs: tuple[int, int, int], readable: bool = True) -> ReplicaTruth:
    ranges = tuple(EpochRange(*epoch) for epoch in epochs)
    end = ranges[-1].end
    return ReplicaTruth(broker, readable, 0, end, ranges, end)


TRUTH = Truth(
    "prod-eu-1",
    "4.3.1",
    ("diverged",),
    {},
    (
        PartitionTruth(
            "diverged",
            Expectation(LEDGER, TrueVerdict.LOSS, 1, 1, ""),
            (1, 2, 3),
            (),
            (
                replica(1, (0, 0, 100), (2, 100, 125)),
                replica(2, (0, 0, 100), (1, 100, 150)),
                replica(3, (0, 0, 100), (3, 100, 170), readable=False),
            ),
            (),
        ),
    ),
)


def with_sums(ledger: IncidentLedger, **records: int) -> IncidentLedger:
    """*ledger* with other figures of ledger-3."""
    sums = {Fate[name.upper()]: FateSum(committed=number) for name, number in records.items()}
    partitions = tuple(
        replace(partition, sums=sums) if partition.partition == LEDGER else partition
        for partition in ledger.partitions
    )
    return replace(ledger, partitions=partitions)


def test_a_ledger_that_is_true_passes_and_one_without_the_partition_does_not(
    tmp_path: Path,
) -> None:
    ledger = incidents.shown_ledger(tmp_path)
    assert list(wrong_ledger(ledger, TRUTH)) == []
    assert len(list(wrong_ledger(replace(ledger, partitions=()), TRUTH))) == 1


def test_a_ledger_with_another_figure_is_named(tmp_path: Path) -> None:
    ledger = with_sums(incidents.shown_ledger(tmp_path), kept=125, rescued=40, lost=10)
    (wrong,) = wrong_ledger(ledger, TRUTH)
    assert wrong.startswith(f"{LEDGER}:")


def test_sums_that_do_not_add_up_are_named(tmp_path: Path) -> None:
    ledger = incidents.shown_ledger(tmp_path)
    first = replace(ledger.partitions[0], differences=("b2 held more",))
    ledger = replace(ledger, partitions=(first, *ledger.partitions[1:]))
    assert list(wrong_ledger(ledger, TRUTH)) == [f"{first.partition}: b2 held more"]
