"""Rescues over real sockets and real files: what is saved, what is held back, what is not asked."""

import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from kafka.protocol.consumer import FetchRequest

from breakglass.services import patience
from breakglass.services.errors import ConnectFailed
from breakglass.services.guard.journal import Journal, JournalStep, read
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.limits import RateLimit
from breakglass.services.model import PartitionEvidence, TopicPartition, TopicSettings, Unknown
from breakglass.services.record_batches import Record
from breakglass.services.recovery.execution.steps import RESCUE, target_of_item
from breakglass.services.recovery.execution.target import ElectionTarget, target_of
from breakglass.services.recovery.rescue.rescue import JournalledRescue, Rescuer, new_folder
from breakglass.services.recovery.rescue.saver import PARTITIONS_AT_ONCE, Saver
from breakglass.services.recovery.rescue.spans import (
    RESERVE_BYTES,
    AtRisk,
    FreeBytes,
    RescuedPartition,
    Saved,
    Share,
    Span,
    free_bytes,
)
from breakglass.services.topic_backup.address import partition_of
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.folder import LocalAppendFile, LocalFolder, storage_errors
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.partition_writer import PartitionWriter
from breakglass.services.topic_backup.summary import EpochStart, Gap, GapReason
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.kafka.replicas.held_log import HeldLog, serve_logs
from tests.unit.recovery.replicas import PLAIN, TOPIC_ID, log, offline
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.shapes import run

COMMIT, ABORT = 1, 0
UNHURRIED = DEADLINE_SECONDS
"""Ends a hang: no broker that answers at all is this slow."""
ORDERS, BILLS = TopicPartition("orders", 3), TopicPartition("bills", 0)


@dataclass
class Bench:
    """Three brokers, and a rescuer of what b2 and b3 hold past b1's 100 records."""

    cluster: FakeCluster
    to: Path
    free: FreeBytes = free_bytes
    limit: RateLimit = field(default_factory=lambda: RateLimit(None))
    stopped: bool = False
    opened: int = 0

    @contextmanager
    def connect(self) -> Iterator[ReadClient]:
        self.opened += 1
        client = self.cluster.client()
        try:
            yield client
        finally:
            client.close()

    def hold(self, broker: int, *logs: HeldLog) -> None:
        serve_logs(self.cluster.brokers[broker], logs)

    def rescue(self, *evidence: PartitionEvidence) -> tuple[RescuedPartition, ...]:
        """Rescue before b1 is elected everywhere."""
        rescuer = Rescuer(CLUSTER_ID, self.connect, self.limit, lambda: self.stopped, self.free)
        return rescuer.rescue([AtRisk(one, 1) for one in evidence], self.to)

    def one(self, evidence: PartitionEvidence) -> RescuedPartition:
        (result,) = self.rescue(evidence)
        return result

    def manifest(self, broker: int, topic: str) -> TopicManifest:
        found = read_manifest(LocalFolder(self.to / f"b{broker}" / topic))
        assert found is not None
        return found


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(patience, "CHUNK", UNHURRIED)
    with FakeCluster(3) as cluster:
        yield Bench(cluster, tmp_path / "rescue")


def forked(
    partition: TopicPartition = ORDERS, end: int = 150, settings: TopicSettings = PLAIN
) -> PartitionEvidence:
    """b2 holds an epoch of its own from 100 to *end*."""
    replicas = log(1, (0, 100), (2, 125)), log(2, (0, 100), (1, end))
    return offline(*replicas, topic=partition.topic, number=partition.partition, settings=settings)


def batches(start: int, end: int, epoch: int) -> list[bytes]:
    """Ten records each."""
    return [batch(run(first, first + 10), epoch=epoch) for first in range(start, end, 10)]


def transactional(records: Sequence[Record], more: int = 0) -> bytes:
    return batch(records, epoch=1, flags=TRANSACTIONAL | more, producer=(1_001, 2, 0))


def b2_holds(partition: TopicPartition = ORDERS, end: int = 150) -> HeldLog:
    return HeldLog(partition, batches(0, 100, 0) + batches(100, end, 1))


def saved_of(result: RescuedPartition) -> Saved:
    (saved,) = result.saved
    return saved


def records_in(saved: Saved) -> Sequence[Record]:
    return list(partition_of(str(saved.path)).records())


def states_in(bench: Bench, broker: int, partition: TopicPartition) -> list[BatchState]:
    """The batch log of what was saved."""
    committed = bench.manifest(broker, partition.topic).partition(partition.partition)
    assert committed is not None
    assert committed.batch_log is not None
    folder = LocalFolder(bench.to / f"b{broker}" / partition.topic)
    return list(read_batch_log(folder, partition.partition, committed.batch_log))


class TestWhatIsSaved:
    def test_the_tail_reads_back_record_by_record_for_this_user_alone(self, bench: Bench) -> None:
        bench.hold(2, b2_holds())
        result = bench.one(forked())
        saved = saved_of(result)
        assert result.whole
        assert (saved.broker, saved.records, saved.spans) == (2, 50, (Span(100, 150),))
        assert saved.path == bench.to / "b2" / "orders" / "3"
        assert records_in(saved) == run(100, 150)
        assert stat.S_IMODE(bench.to.stat().st_mode) == 0o700
        manifest = bench.manifest(2, "orders")
        assert (manifest.identity.cluster_id, manifest.identity.topic_id) == (CLUSTER_ID, TOPIC_ID)
        assert manifest.identity.origin == {"rescued from broker": "2"}
        (partition,) = manifest.partitions
        (segment,) = partition.segments
        assert (partition.partition, partition.next_offset) == (3, 150)
        assert (segment.epochs, segment.gaps) == ((EpochStart(1, 100),), ())

    def test_head_and_tail_lie_in_one_backup_with_the_middle_as_not_taken(
        self, bench: Bench
    ) -> None:
        bench.hold(2, b2_holds(end=120))
        result = bench.one(
            offline(log(1, (0, 100), start=45), log(2, (0, 100), (1, 120), start=10))
        )
        assert saved_of(result).spans == (Span(10, 45), Span(100, 120))
        assert records_in(saved_of(result)) == [*run(10, 45), *run(100, 120)]
        (segment,) = bench.manifest(2, "orders").partitions[0].segments
        assert segment.gaps == (Gap(45, 100, GapReason.NOT_TAKEN),)
        assert segment.epochs == (EpochStart(0, 10), EpochStart(1, 100))

    def test_every_losing_replica_has_a_backup_of_its_own(self, bench: Bench) -> None:
        bench.hold(2, b2_holds())
        bench.hold(3, HeldLog(ORDERS, batches(0, 100, 0) + batches(100, 120, 3)))
        evidence = offline(
            log(1, (0, 100), (4, 125)), log(2, (0, 100), (1, 150)), log(3, (0, 100), (3, 120))
        )
        result = bench.one(evidence)
        assert {saved.broker: len(records_in(saved)) for saved in result.saved} == {2: 50, 3: 20}

    def test_transactions_keep_their_state(self, bench: Bench) -> None:
        tail = [
            transactional(run(100, 110)),
            transactional([control_record(110, ABORT)], CONTROL),
            transactional(run(111, 120)),
            transactional([control_record(120, COMMIT)], CONTROL),
            transactional(run(121, 130)),
        ]
        bench.hold(2, HeldLog(ORDERS, batches(0, 100, 0) + tail))
        result = bench.one(forked(end=130))
        assert saved_of(result).records == 28
        offsets = [record.offset for record in records_in(saved_of(result))]
        assert offsets == [*range(100, 110), *range(111, 120), *range(121, 130)]
        states = states_in(bench, 2, ORDERS)
        markers = {state.base_offset: state.marker for state in states}
        assert markers == {100: None, 110: "abort", 111: None, 120: "commit", 121: None}
        assert {(state.producer_id, state.producer_epoch) for state in states} == {(1_001, 2)}
        assert all(state.transactional for state in states)
        (segment,) = bench.manifest(2, "orders").partitions[0].segments
        assert segment.missing == {GapReason.CONTROL: 2}

    def test_what_compaction_removed_is_a_gap_that_says_so(self, bench: Bench) -> None:
        held = [*batches(0, 110, 1), *batches(130, 140, 1)]
        bench.hold(2, HeldLog(ORDERS, held, end=150))
        evidence = forked(settings=replace(PLAIN, compacted=True))
        result = bench.one(evidence)
        assert result.whole
        offsets = [record.offset for record in records_in(saved_of(result))]
        assert offsets == [*range(100, 110), *range(130, 140)]
        partition = bench.manifest(2, "orders").partitions[0]
        assert partition.next_offset == 150
        assert sum(partition.segments[0].missing.values()) == 30


def damaged() -> HeldLog:
    """A bit of the batch from 120 on is wrong."""
    held = b2_holds()
    broken = bytearray(held.batches[12])
    broken[-1] ^= 1
    held.batches[12] = bytes(broken)
    return held


def cut_at_its_start() -> HeldLog:
    held = b2_holds()
    held.start = 120
    return held


def held(*of: list[bytes]) -> HeldLog:
    return HeldLog(ORDERS, [one for some in of for one in some], end=150)


@pytest.mark.parametrize(
    ("log_of_b2", "kept"),
    [
        pytest.param(damaged(), range(100, 120), id="a batch is damaged"),
        pytest.param(cut_at_its_start(), (), id="it begins later by now"),
        pytest.param(
            held(batches(0, 110, 1), batches(130, 150, 1)), range(100, 110), id="it has a hole"
        ),
        pytest.param(held(batches(0, 110, 1)), range(100, 110), id="its end is not given"),
        pytest.param(held(), (), id="nothing of it is given"),
        pytest.param(
            held(batches(0, 100, 0), batches(100, 150, 7)), (), id="it was written anew since"
        ),
    ],
)
def test_a_log_that_is_not_what_was_reported_is_saved_up_to_there_and_the_others_go_on(
    bench: Bench, log_of_b2: HeldLog, kept: Sequence[int]
) -> None:
    bench.hold(2, log_of_b2, b2_holds(BILLS))
    orders, bills = bench.rescue(forked(), forked(BILLS))
    assert (orders.whole, bool(orders.reason), bills.whole) == (False, True, True)
    saved = [record.offset for one in orders.saved for record in records_in(one)]
    assert saved == list(kept)
    assert records_in(saved_of(bills)) == run(100, 150)


def test_a_log_that_does_not_tell_its_start_is_held(bench: Bench) -> None:
    why = Unknown("b2 did not tell its log start")
    unread = replace(log(2, (0, 150)), log_start=why, epochs=why)
    result = bench.one(offline(log(1, (0, 100)), unread))
    assert (result.reason, bench.opened) == (why.reason, 0)


def test_a_broker_that_is_gone_is_waited_for_once_and_not_by_each_partition(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "CHUNK", 0.5)
    waited_for: list[Span] = []

    def counted(saver: Saver, to: PartitionWriter, share: Share, span: Span) -> Iterator[int]:
        waited_for.append(span)
        return copy(saver, to, share, span)

    copy = Saver._copy
    monkeypatch.setattr(Saver, "_copy", counted)
    bench.cluster.brokers[2].stop()
    results = bench.rescue(*(forked(TopicPartition("orders", n)) for n in range(50)))
    assert len(waited_for) <= PARTITIONS_AT_ONCE
    assert all(result.reason and not result.whole for result in results)


class TestTheDisk:
    def test_a_folder_that_is_a_file_holds_what_loses_and_not_the_others(
        self, bench: Bench
    ) -> None:
        bench.hold(2, b2_holds())
        bench.to.write_text("a file")
        safe = offline(log(1, (0, 100)), log(2, (0, 90)), topic="bills", number=0)
        orders, bills = bench.rescue(forked(), safe)
        assert str(bench.to) in orders.reason
        assert bills.whole
        assert bench.cluster.brokers[2].requests(FetchRequest) == []

    def test_too_little_space_is_refused_before_anything_is_read_or_written(
        self, bench: Bench
    ) -> None:
        bench.hold(2, b2_holds())
        bench.free = lambda _: RESERVE_BYTES + 10
        result = bench.one(forked())
        assert not result.whole
        assert (bench.opened, bench.to.exists()) == (0, False)

    def test_space_that_runs_out_meanwhile_keeps_the_reserve_and_names_what_is_missing(
        self, bench: Bench
    ) -> None:
        bench.hold(2, b2_holds(BILLS), b2_holds())
        answers = iter([10**12, 10**12])
        bench.free = lambda _: next(answers, RESERVE_BYTES - 1)
        bills, orders = bench.rescue(forked(BILLS), forked(ORDERS))
        assert (bills.whole, orders.whole) == (True, False)
        assert records_in(saved_of(bills)) == run(100, 150)

    def test_a_disk_that_takes_no_more_leaves_nothing_half_written(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = LocalAppendFile.write

        def full_for_bills(file: LocalAppendFile, data: bytes) -> None:
            if "/bills/" in str(file._path):
                with storage_errors(str(file._path)):
                    raise OSError(28, "No space left on device")
            write(file, data)

        monkeypatch.setattr(LocalAppendFile, "write", full_for_bills)
        bench.hold(2, b2_holds(BILLS), b2_holds())
        bills, orders = bench.rescue(forked(BILLS), forked(ORDERS))
        assert not bills.whole
        assert list((bench.to / "b2" / "bills").iterdir()) == []
        assert records_in(saved_of(orders)) == run(100, 150)


def test_a_rescue_that_is_to_stop_holds_what_it_has_not_saved(bench: Bench) -> None:
    bench.hold(2, b2_holds())
    bench.limit = RateLimit(1)
    bench.stopped = True
    assert not bench.one(forked()).whole


def test_each_rescue_has_a_folder_of_its_own_whatever_the_cluster_is_called(tmp_path: Path) -> None:
    folders = {new_folder(tmp_path, "../../etc") for _ in range(3)}
    assert {folder.parent.parent for folder in folders} == {tmp_path}


EVIDENCE = {
    ORDERS: offline(log(1, (0, 100)), log(2, (0, 110))),
    BILLS: offline(log(1, (0, 100)), log(2, (0, 100)), topic="bills", number=0),
}


def targets(*partitions: TopicPartition) -> list[ElectionTarget]:
    return [target_of(EVIDENCE[partition], 1) for partition in partitions]


@dataclass
class Journalled(Bench):
    """b2 holds ten records that electing b1 cuts off orders-3; bills-0 loses nothing."""

    journal: Journal = field(kw_only=True)
    reachable: bool = True
    told: list[RescuedPartition] = field(default_factory=list)
    seen: list[list[str]] = field(default_factory=list)
    """Steps in the journal whenever a connection was opened."""

    @contextmanager
    def connect(self) -> Iterator[ReadClient]:
        self.seen.append([step.name for step in self.steps])
        if not self.reachable:
            raise ConnectFailed("no broker can be spoken to: check the bootstrap servers")
        with super().connect() as client:
            yield client

    @property
    def act(self) -> JournalledRescue:
        rescuer = Rescuer(CLUSTER_ID, self.connect, RateLimit(None))
        return JournalledRescue(rescuer, EVIDENCE, self.to, self.told.extend)

    def save(self, *partitions: TopicPartition) -> Mapping[TopicPartition, str]:
        return self.act.save(targets(*partitions), self.journal)

    @property
    def steps(self) -> tuple[JournalStep, ...]:
        return read(self.journal.path).steps


@pytest.fixture
def journalled(tmp_path: Path) -> Iterator[Journalled]:
    with FakeCluster(2) as cluster, Journal.open(CLUSTER_ID, tmp_path / "state") as journal:
        bench = Journalled(cluster, tmp_path / "rescue", journal=journal)
        bench.hold(2, HeldLog(ORDERS, batches(0, 110, 0)))
        yield bench


def test_the_request_is_on_disk_before_a_broker_is_asked_and_says_all_it_takes_to_go_on(
    journalled: Journalled,
) -> None:
    assert journalled.save(ORDERS, BILLS) == {}
    assert journalled.seen == [[RESCUE]]
    (step,) = journalled.steps
    assert step.items[ORDERS]["rescue"] == [{"broker": 2, "start": 100, "end": 110}]
    assert Path(step.request.payload["to"]).is_relative_to(journalled.to)
    assert [target_of_item(ORDERS, step.items[ORDERS])] == targets(ORDERS)


def test_a_partition_that_loses_nothing_is_in_no_step(journalled: Journalled) -> None:
    assert journalled.save(BILLS) == {}
    assert (journalled.steps, journalled.seen, journalled.told) == ((), [], [])


def test_what_was_not_saved_is_held_with_the_reason_in_the_journal_too(
    journalled: Journalled,
) -> None:
    journalled.reachable = False
    held = journalled.save(ORDERS, BILLS)
    assert set(held) == {ORDERS}
    (step,) = journalled.steps
    assert step.outcomes[ORDERS].result == "not saved"
    assert step.outcomes[ORDERS].details["reason"] == held[ORDERS]
