"""A replica that was unread at consent is asked again before each batch of elections."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.guard.act import Front, GuardedRun
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.elect import Elect
from breakglass.services.recovery.execution.steps import stock_route
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, frozen
from tests.lab.asking import list_offset
from tests.lab.recover.session import judged, judgement, watched
from tests.lab.scenarios.damaged import Damaged

READING_SECONDS = 10.0
"""Long enough for the broker that is well; the other one hangs."""


def elected_after_its_answer(
    lab: Damaged, folder: Path, partition: TopicPartition, designee: int, silent: int
) -> PartitionOutcome:
    """The election of *designee*, agreed to while *silent* hangs, which answers by its batch."""
    with watched(lab.cluster) as behind, behind.connection.reading() as client:
        behind.proxies[silent].hang()
        found = judged(client, partition.topic, seconds=READING_SECONDS, gone=[3])
        wanted = (frozen(judgement(found, partition).evidence, designee, [3]),)
        subject = ElectionSubject(lab.truth.cluster_id, wanted)
        act = Elect(lambda _: subject, stock_route, RescueChoice(without=True))
        armed = behind.connection.armed()
        run = GuardedRun(act, Front(armed.access(), state_folder=folder))
        agreed = run.freeze()
        (outcome,) = run.carry_out(
            armed.power("a test"),
            agreed,
            [asked.phrase for asked in agreed.asked],
            begin=lambda _: behind.proxies[silent].heal(),
        ).value
    assert isinstance(outcome, PartitionOutcome)
    return outcome


def test_r25_an_election_that_would_cut_what_answers_by_now_is_refused(
    lab: Damaged, unused: Iterator[TopicPartition], tmp_path: Path
) -> None:
    """b1 holds a record more than b2."""
    partition = next(unused)
    outcome = elected_after_its_answer(lab, tmp_path, partition, designee=2, silent=1)
    assert outcome.result is RecoveryResult.REFUSED, outcome.reason
    assert lab.state(partition).leader is None
    held = lab.truth_of(partition).replica(1).log_end
    assert list_offset(lab.cluster, 1, partition).offset == held


@pytest.mark.parametrize("order", [0, 1])
def test_r25_an_election_that_cuts_nothing_of_what_answers_by_now_goes_on(
    lab: Damaged, unused: Iterator[TopicPartition], tmp_path: Path, order: int
) -> None:
    """What b2 holds, b1 holds too; every second partition has b2 before b1."""
    del order
    outcome = elected_after_its_answer(lab, tmp_path, next(unused), designee=1, silent=2)
    assert outcome.result is RecoveryResult.ELECTED, outcome.reason
