"""`bad-unclean-before`: the highest epoch is on an almost empty replica (R9)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.lab.segments import high_watermark_on_disk
from breakglass.services.lab.truth import CountedLoss, TrueVerdict
from breakglass.services.model import EpochRange, Role, TopicPartition
from tests.lab.scenarios.damaged import Damaged, damaged, ends_told

pytestmark = pytest.mark.slow

BALANCES = TopicPartition("balances", 0)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "bad-unclean-before") as lab:
        yield lab


def test_nobody_is_waited_for(lab: Damaged) -> None:
    state = lab.state(BALANCES)
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (None, (), (), ())
    assert {state.role(broker) for broker in state.assignment} == {Role.STALE}


def test_the_highest_epoch_is_on_the_shortest_log(lab: Damaged) -> None:
    truth = lab.truth_of(BALANCES)
    assert truth.replica(1).epochs == (EpochRange(0, 0, 100),)
    assert truth.replica(2).epochs == (EpochRange(0, 0, 10), EpochRange(2, 10, 13))
    assert truth.replica(3).epochs[-1] == EpochRange(3, 13, 15)
    assert ends_told(lab) == {BALANCES: {1: 100, 2: 13}}


def test_r09_committed_records_are_on_both_sides(lab: Damaged) -> None:
    truth = lab.truth_of(BALANCES)
    assert truth.choice(2) == CountedLoss(2, committed=90, uncommitted=0, unread=2, acked=92)
    assert truth.choice(1) == CountedLoss(1, committed=3, uncommitted=0, unread=2, acked=5)
    assert (truth.expectation.if_gone, truth.expectation.designee) == (TrueVerdict.FORK, None)


def test_the_high_watermark_that_proves_it_outlived_the_kill(lab: Damaged) -> None:
    folder = lab.cluster.broker(1).partition_folder("balances", 0)
    assert folder is not None
    assert high_watermark_on_disk(folder) == 100
