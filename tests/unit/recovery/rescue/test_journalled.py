"""Rescue in the journal: announced before it begins, told with its place when it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from breakglass.services.errors import ConnectFailed
from breakglass.services.guard.journal import Journal, read
from breakglass.services.guard.journal_view import JournalStep
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.rate_limit import RateLimit
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.execution.record import target_of_item
from breakglass.services.recovery.execution.target import ElectionTarget, target_of
from breakglass.services.recovery.rescue.rescue import STEP, JournalledRescue, Rescuer
from breakglass.services.recovery.rescue.results import RescuedPartition
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.kafka.replicas.held_log import HeldLog
from tests.unit.recovery.replicas import log, offline
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run

ORDERS, SAFE = TopicPartition("orders", 3), TopicPartition("safe", 0)

EVIDENCE = {
    ORDERS: offline(log(1, (0, 100)), log(2, (0, 110))),
    SAFE: offline(log(1, (0, 100)), log(2, (0, 100)), topic="safe", number=0),
}


@dataclass
class Bench:
    """b2 holds ten records that electing b1 cuts off orders-3; safe-0 loses nothing."""

    cluster: FakeCluster
    journal: Journal
    to: Path
    reachable: bool = True
    told: list[RescuedPartition] = field(default_factory=list)
    seen: list[list[str]] = field(default_factory=list)
    """Steps in the journal whenever a connection was opened."""

    @contextmanager
    def connect(self) -> Iterator[ReadClient]:
        self.seen.append([step.name for step in self.steps])
        if not self.reachable:
            raise ConnectFailed("no broker can be spoken to: check the bootstrap servers")
        client = self.cluster.client()
        try:
            yield client
        finally:
            client.close()

    @property
    def rescue(self) -> JournalledRescue:
        rescuer = Rescuer(CLUSTER_ID, self.connect, RateLimit(None))
        return JournalledRescue(rescuer, EVIDENCE, self.to, self.told.extend)

    def targets(self, *partitions: TopicPartition) -> list[ElectionTarget]:
        found: Sequence[PartitionEvidence] = [EVIDENCE[partition] for partition in partitions]
        return [target_of(evidence, 1) for evidence in found]

    @property
    def steps(self) -> tuple[JournalStep, ...]:
        return read(self.journal.path).steps


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with FakeCluster(2) as cluster, Journal.open(CLUSTER_ID, tmp_path / "state") as journal:
        HeldLog(ORDERS, [batch(run(0, 100), epoch=0), batch(run(100, 110), epoch=0)]).serve(
            cluster.brokers[2]
        )
        yield Bench(cluster, journal, tmp_path / "rescue")


def test_what_is_needed_is_known_without_asking_anybody(bench: Bench) -> None:
    orders, safe = bench.targets(ORDERS, SAFE)
    assert (bench.rescue.needed(orders), bench.rescue.needed(safe)) == (True, False)
    assert bench.seen == []


def test_the_request_is_on_disk_before_a_broker_is_asked(bench: Bench) -> None:
    assert bench.rescue.save(bench.targets(ORDERS, SAFE), bench.journal) == {}
    assert bench.seen == [[STEP]]


def test_the_request_says_what_is_to_be_saved_where_and_all_it_takes_to_go_on(
    bench: Bench,
) -> None:
    (target,) = bench.targets(ORDERS)
    bench.rescue.save([target], bench.journal)
    (step,) = bench.steps
    assert step.items[ORDERS]["rescue"] == [{"broker": 2, "start": 100, "end": 110}]
    assert Path(step.request.payload["to"]).is_relative_to(bench.to)
    assert target_of_item(ORDERS, step.items[ORDERS]) == target


def test_the_outcome_says_where_it_is(bench: Bench) -> None:
    bench.rescue.save(bench.targets(ORDERS), bench.journal)
    (step,) = bench.steps
    outcome = step.outcomes[ORDERS]
    (place,) = outcome.details["saved"]
    assert (outcome.result, place["broker"], place["records"]) == ("saved", 2, 10)
    assert place["path"] == str(Path(step.request.payload["to"]) / "b2" / "orders" / "3")
    assert step.unsettled == ()
    assert [partition.records for partition in bench.told] == [10]


def test_a_partition_that_loses_nothing_is_in_no_step(bench: Bench) -> None:
    assert bench.rescue.save(bench.targets(SAFE), bench.journal) == {}
    assert (bench.steps, bench.seen, bench.told) == ((), [], [])


def test_what_was_not_saved_is_held_with_the_reason_in_the_journal_too(bench: Bench) -> None:
    bench.reachable = False
    held = bench.rescue.save(bench.targets(ORDERS, SAFE), bench.journal)
    assert set(held) == {ORDERS}
    assert "no broker can be spoken to" in held[ORDERS]
    (step,) = bench.steps
    assert step.outcomes[ORDERS].result == "not saved"
    assert step.outcomes[ORDERS].details["reason"] == held[ORDERS]
