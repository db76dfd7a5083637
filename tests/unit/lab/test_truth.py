"""The truth is kept as JSON, and comes back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.truth import (
    Condition,
    CountedLoss,
    Expectation,
    PartitionTruth,
    ReplicaTruth,
    TrueVerdict,
    Truth,
    Written,
    from_json,
    save_truth,
    to_json,
)
from breakglass.services.model import EpochRange, TopicPartition
from tests.kit.truth import load_truth

LEDGER = TopicPartition("ledger", 0)


@pytest.fixture
def truth() -> Truth:
    partition = PartitionTruth(
        scenario="diverged",
        expectation=Expectation(LEDGER, TrueVerdict.WAIT, 3, 1, "b3 led last", TrueVerdict.LOSS),
        assignment=(2, 1),
        written=(Written(1, 100, ("r-100", "r-101"), "1", committed=False, broker=2),),
        replicas=(
            ReplicaTruth(2, True, 0, 102, (EpochRange(0, 0, 100), EpochRange(1, 100, 102)), 102),
            ReplicaTruth(1, False, 0, 0, (), 0, disk="replaced"),
        ),
        choices=(CountedLoss(2, committed=0, uncommitted=0, unread=0, acked=0),),
    )
    return Truth(
        cluster_id="cluster",
        kafka_version="4.3.1",
        scenarios=("diverged",),
        brokers={1: Condition.DEAD, 2: Condition.RUNNING},
        partitions=(partition,),
        notes={"fact": "value"},
    )


def test_it_is_kept_in_the_lab_s_folder(truth: Truth, tmp_path: Path) -> None:
    with pytest.raises(LabError):
        load_truth(tmp_path)
    save_truth(truth, tmp_path)
    assert load_truth(tmp_path) == truth


def test_another_release_s_truth_is_refused(truth: Truth) -> None:
    newer = to_json(truth).replace('"schema": 1', '"schema": 2')
    with pytest.raises(LabError):
        from_json(newer)


def test_what_it_does_not_hold_is_an_error(truth: Truth) -> None:
    ledger = truth.partition("ledger", 0)
    assert (ledger.replica(2).last_epoch, ledger.replica(1).last_epoch) == (1, None)
    assert truth.of("diverged") == (ledger,)
    with pytest.raises(LabError):
        truth.partition("ledger", 7)
    with pytest.raises(LabError):
        ledger.choice(1)
