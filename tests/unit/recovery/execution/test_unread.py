"""Replicas that were unread at consent, asked again before each batch of elections."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka.protocol.admin import DescribeClusterRequest

from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    target_of,
)
from breakglass.services.recovery.execution.unread import HeardNow, ask_unread
from breakglass.services.recovery.triage import triage
from tests.kit.deadlines import HOUR
from tests.unit.recovery.execution.conftest import Bench
from tests.unit.recovery.execution.test_run import asked_so_far


class Agreed:
    """Elections of one designee that were agreed to while the replicas of *silent* were unread."""

    def __init__(self, bench: Bench, designee: int, silent: int, count: int = 1) -> None:
        partitions = [wanted.partition for wanted in bench.offline(count=count)]
        self._bench, replicas = bench, bench.cluster.replicas
        held = {partition: replicas.pop((silent, partition), None) for partition in partitions}
        *_, found = triage(bench.read, HOUR)
        self.evidence: dict[TopicPartition, PartitionEvidence] = {
            evidence.partition: evidence for evidence in found.evidence.partitions
        }
        self.targets = [target_of(self.evidence[one], designee) for one in partitions]
        for partition, replica in held.items():
            if replica is not None:
                replicas[silent, partition] = replica

    def heard(self, *targets: ElectionTarget) -> list[HeardNow]:
        found = ask_unread(self._bench.read, self.evidence, targets or self.targets)
        return [found[target.partition] for target in self.targets if target.partition in found]

    def run(self) -> list[PartitionOutcome]:
        recovery = replace(self._bench.recovery(), evidence=self.evidence)
        recovery.observer = self._bench.recovery().observer
        return [outcome for batch in recovery.run(self.targets) for outcome in batch]


def test_a_log_that_has_more_changes_what_was_agreed_to(bench: Bench) -> None:
    (heard,) = Agreed(bench, designee=2, silent=1).heard()
    assert heard.brokers == {1}
    assert "lose 0" in heard.change
    assert "lose 30" in heard.change


def test_a_log_that_the_designee_has_whole_changes_nothing(bench: Bench) -> None:
    assert Agreed(bench, designee=1, silent=2).heard() == [HeardNow(frozenset({2}))]


def test_who_still_reports_nothing_is_not_heard(bench: Bench) -> None:
    assert Agreed(bench, designee=1, silent=3).heard() == []


def test_a_designee_that_was_unread_is_elected_as_it_was_agreed_to(bench: Bench) -> None:
    assert Agreed(bench, designee=2, silent=2).heard() == []


def test_where_every_replica_was_read_nobody_is_asked(bench: Bench) -> None:
    agreed = Agreed(bench, designee=1, silent=3)
    read = replace(
        agreed.targets[0], partition=TopicPartition("elsewhere", 0)
    )  # Agreed to without any evidence.
    before = asked_so_far(bench)
    assert agreed.heard(read) == []
    assert (
        asked_so_far(bench)[DescribeClusterRequest.API_KEY]
        == (before[DescribeClusterRequest.API_KEY])
    )


@pytest.mark.parametrize("fenced", [True, False])
def test_r25_a_replica_with_more_that_answers_by_now_is_not_cut(bench: Bench, fenced: bool) -> None:
    agreed = Agreed(bench, designee=2, silent=1, count=3)
    bench.cluster.story.fenced = {1, 3} if fenced else {3}
    assert {outcome.result for outcome in agreed.run()} == {RecoveryResult.REFUSED}
    assert bench.controller.steps == []


def test_r25_a_replica_that_came_back_with_no_more_keeps_nobody(bench: Bench) -> None:
    """It was fenced when the price was counted, and is heard now."""
    bench.cluster.story.fenced = {2, 3}
    agreed = Agreed(bench, designee=1, silent=2)
    assert agreed.targets[0].live == ()
    bench.cluster.story.fenced = {3}
    assert [outcome.result for outcome in agreed.run()] == [RecoveryResult.ELECTED]
