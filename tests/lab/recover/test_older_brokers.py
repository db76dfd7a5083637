"""The demo's scenarios on Kafka 3.9.2, which has no ELR and does not tell who is fenced."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.console.truth import wrong_leaders
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.judgement.assessment import summarize
from breakglass.services.recovery.triage import Triage
from tests.lab.asking import consume
from tests.lab.recover.session import Watched, judged, judgement, recommendations, targets, watched
from tests.lab.recover.truths import differences, differences_without
from tests.lab.scenarios.damaged import Damaged, damaged

pytestmark = pytest.mark.main

CARTS, LEDGER = TopicPartition("carts", 0), TopicPartition("ledger", 0)
SCENARIOS = ("stale-replicas", "diverged", "replaced-disk")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), *SCENARIOS, kafka_version="3.9.2") as lab:
        yield lab


@pytest.fixture(scope="module")
def behind(lab: Damaged) -> Iterator[Watched]:
    with watched(lab.cluster) as behind:
        yield behind


@pytest.fixture(scope="module")
def client(behind: Watched) -> Iterator[ReadClient]:
    with behind.connection.reading() as client:
        yield client


@pytest.fixture(scope="module")
def found(client: ReadClient) -> Triage:
    return judged(client)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_triage_says_the_truth(lab: Damaged, found: Triage, scenario: str) -> None:
    assert differences(found, lab.truth, lab.truth.of(scenario)) == []


def test_r01_an_empty_member_of_the_isr_that_is_live_bars_the_reorder(
    lab: Damaged, found: Triage, client: ReadClient, behind: Watched, tmp_path: Path
) -> None:
    assert lab.state(CARTS).isr == (4,)
    (outcome,) = behind.recover(client, targets(found, {CARTS: 1}), tmp_path)
    assert outcome.result is RecoveryResult.REFUSED
    assert outcome.reason == (
        "b4 would be elected instead of b1: stop broker 4, wait until it is fenced, read again"
    )
    assert behind.changes == []


def test_r02_it_is_an_alarm_here_too(found: Triage) -> None:
    assert summarize(found.assessments).alarm == "FIRST stop b4 NOW: BOMB on 3."


def test_r08_written_epochs_are_read_and_rank_here_too(found: Triage) -> None:
    said = judgement(found, LEDGER)
    ranked = [
        (candidate.broker, candidate.replica.last_written_epoch)
        for candidate in said.ranking.candidates[:2]
    ]
    assert ranked == [(1, 2), (2, 1)]


def test_recovery_makes_the_best_replicas_lead_and_nothing_that_was_left_is_lost(
    lab: Damaged, found: Triage, client: ReadClient, behind: Watched, tmp_path: Path
) -> None:
    lab.cluster.broker(4).kill()
    lab.cluster.wait_fenced(4)
    found = judged(client, gone=[3, 4])
    assert differences_without(found, lab.truth.partitions) == []
    outcomes = behind.recover(client, recommendations(found), tmp_path)
    assert list(wrong_leaders(outcomes, lab.truth)) == []
    for truth in lab.truth.of("replaced-disk"):
        assert len(consume(lab.cluster, truth.partition)) == truth.replica(1).records == 125
