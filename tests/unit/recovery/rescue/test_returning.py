"""What a log would lose by following its leader, and when that is known to be rescued."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from syrupy.assertion import SnapshotAssertion

from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.source import Reading
from breakglass.services.errors import DamagedBackup
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.record_batches import Record, RecordBatch
from breakglass.services.recovery.remembered.store import HeardLog, key_of
from breakglass.services.recovery.rescue.broker_folder import (
    EPOCHS,
    META,
    PARTITION_METADATA,
    BrokerFolder,
    ReplicaFolder,
    RescuedPartitionFolder,
    Rescues,
    read_broker_folder,
)
from breakglass.services.recovery.rescue.past_leader import LeaderReach
from breakglass.services.recovery.rescue.return_check import (
    MOST_APART_MS,
    ReturnCheck,
    ends_in,
    heard_longer,
    may_lead,
    older_copies,
)
from breakglass.services.recovery.rescue.returning import (
    ReturnFate,
    ReturningReplica,
    absent,
    returning,
)
from breakglass.services.recovery.rescue.spans import Span
from breakglass.services.topic_backup.batch_log import BatchState
from tests.unit.damage import flipped
from tests.unit.divergence.test_log_source import tens, write
from tests.unit.recovery.notation import incident
from tests.unit.recovery.replicas import PLAIN
from tests.unit.recovery.rescue.test_saver import TOPIC_ID_TEXT
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record

ORDERS = TopicPartition("orders", 0)
TOPIC_ID, OTHER_ID = UUID(int=1), UUID(int=2)


def state(*, leader: int | None = 1, isr: tuple[int, ...] = (1,)) -> PartitionState:
    return PartitionState(ORDERS, TOPIC_ID, leader, 4, (1, 2, 3), isr, (), ())


@pytest.fixture
def log(tmp_path: Path) -> ReplicaFolder:
    """Offsets 0 to 100 of b3."""
    folder = tmp_path / "orders-0"
    write(folder, 0, tens(0, 100, epoch=7))
    return ReplicaFolder(folder, ORDERS, TOPIC_ID, compacted=False)


def fate(
    log: ReplicaFolder,
    *,
    parts: int | None = 80,
    begins: int = 0,
    of: PartitionState | None = None,
    rescues: Rescues | None = None,
) -> ReturningReplica:
    reach = LeaderReach(ORDERS, parts, "", parts, begins)
    return returning(3, log, of or state(), reach, rescues or {})


class Held(RescuedPartitionFolder):
    """A rescue in memory, with transaction markers or without."""

    def __init__(self, records: Sequence[Record], marked: Sequence[BatchState] = ()) -> None:
        super().__init__(Path("rescue"), ORDERS)
        object.__setattr__(self, "held", tuple(records))
        object.__setattr__(self, "marked", tuple(marked))

    held: tuple[Record, ...]
    marked: tuple[BatchState, ...]

    def records(self, start: int, end: int | None = None) -> Iterator[Record]:
        assert end is not None
        yield from (record for record in self.held if start <= record.offset < end)

    def states(self, start: int) -> Iterator[BatchState]:
        yield from (state for state in self.marked if state.last_offset >= start)

    def markers(self, start: int, end: int) -> Iterator[BatchState]:
        yield from (state for state in self.marked if start <= state.base_offset < end)


class Broken(Held):
    def records(self, start: int, end: int | None = None) -> Iterator[Record]:
        raise DamagedBackup("rescue", 0, "its bytes changed")


class Flipped(Held):
    """A line about its batches has changed."""

    def states(self, start: int) -> Iterator[BatchState]:
        yield from self.marked
        raise DamagedBackup("rescue", 0, "its lines are not those that were committed")


def records(log: ReplicaFolder, start: int, end: int) -> list[Record]:
    batches = open_log("log", log.path).whole_batches(start, Reading())
    whole = [batch for batch in batches if isinstance(batch, RecordBatch)]
    return [record for batch in whole for record in batch.records if start <= record.offset < end]


def test_what_the_leader_holds_is_kept(log: ReplicaFolder) -> None:
    found = fate(log, parts=100)
    assert (found.fate, found.dropped) == (ReturnFate.KEPT, ())


def test_a_tail_and_a_head_are_counted_and_the_first_offset_is_named(log: ReplicaFolder) -> None:
    found = fate(log, begins=20)
    assert found.fate is ReturnFate.LOST
    assert found.dropped == (Span(0, 20), Span(80, 100))
    assert (found.records, found.lost, found.first_lost) == (40, 40, 0)


def test_only_what_is_the_same_to_the_byte_counts_as_rescued(log: ReplicaFolder) -> None:
    held = records(log, 80, 100)
    whole = fate(log, rescues={ORDERS: [Held(held[:10]), Held(held[10:])]})
    assert (whole.fate, whole.rescued, whole.lost) == (ReturnFate.RESCUED, 20, 0)
    flipped = fate(log, rescues={ORDERS: [Flipped(held)]})
    assert (flipped.fate, flipped.rescued) == (ReturnFate.UNKNOWN, 0)
    changed = [
        record._replace(value=b"another") if record.offset == 90 else record for record in held
    ]
    part = fate(log, rescues={ORDERS: [Held(changed)]})
    assert (part.fate, part.lost, part.first_lost) == (ReturnFate.LOST, 1, 90)


COMMIT, LEADER_CHANGE = 1, 2


@pytest.fixture
def ended(tmp_path: Path) -> ReplicaFolder:
    """Offsets 0 to 9 of b3, the commit marker of a transaction at 10, a leader change at 11."""
    folder = tmp_path / "ended" / "orders-0"
    marker = batch([control_record(10, COMMIT)], flags=CONTROL | TRANSACTIONAL)
    other = batch([control_record(11, LEADER_CHANGE)], flags=CONTROL)
    write(folder, 0, [*tens(0, 10), marker, other])
    return ReplicaFolder(folder, ORDERS, TOPIC_ID, compacted=False)


def test_r18_a_marker_that_no_rescue_has_is_a_loss_though_no_record_is(
    ended: ReplicaFolder,
) -> None:
    alone = fate(ended, parts=10)
    assert (alone.fate, alone.records, alone.lost) == (ReturnFate.LOST, 0, 0)
    assert (alone.markers, alone.lost_markers, alone.first_lost) == (1, 1, 10)
    log = open_log("log", ended.path).whole_batches(10, Reading())
    states = [BatchState.of(item) for item in log if isinstance(item, RecordBatch)]
    saved = fate(ended, parts=10, rescues={ORDERS: [Held((), states)]})
    assert (saved.fate, saved.lost_markers) == (ReturnFate.RESCUED, 0)
    another = [replace(state, marker="abort") for state in states]
    assert fate(ended, parts=10, rescues={ORDERS: [Held((), another)]}).lost_markers == 1


def test_control_records_that_end_no_transaction_may_be_dropped(ended: ReplicaFolder) -> None:
    assert fate(ended, parts=11).fate is ReturnFate.KEPT


def test_damage_among_what_is_dropped_is_never_safe(log: ReplicaFolder) -> None:
    (segment,) = log.path.glob("*.log")
    held = records(log, 80, 90)
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    found = fate(log, rescues={ORDERS: [Held(held)]})
    assert found.fate is ReturnFate.UNKNOWN
    assert [(range_.start, range_.end) for range_ in found.unreadable] == [(90, 100)]
    assert not found.fate.safe


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"parts": None}, id="where the leader's log parts is unknown"),
        pytest.param({"of": state(leader=3)}, id="it leads"),
        pytest.param({"of": state(leader=None, isr=(3,))}, id="no other replica was read"),
        pytest.param({"rescues": {ORDERS: [Broken(())]}}, id="a rescue is damaged"),
    ],
)
def test_what_is_not_known_is_never_safe(log: ReplicaFolder, given: dict[str, Any]) -> None:
    assert fate(log, **given).fate is ReturnFate.UNKNOWN


def test_r48_a_log_that_is_rescued_from_end_to_end_loses_nothing_wherever_the_leaders_parts(
    log: ReplicaFolder,
) -> None:
    some, whole = (Held(records(log, start, 100)) for start in (10, 0))
    for begins in (0, 120):
        missing = fate(log, parts=None, begins=begins, rescues={ORDERS: [some]})
        assert (missing.fate, missing.lost, missing.first_lost) == (ReturnFate.UNKNOWN, 10, 0)
        saved_whole = fate(log, parts=None, begins=begins, rescues={ORDERS: [whole]})
        assert saved_whole.fate is ReturnFate.RESCUED


def test_what_was_deleted_of_a_log_is_not_lost_by_its_start(log: ReplicaFolder) -> None:
    found = fate(replace(log, log_start=70), parts=None)
    assert (found.start, found.lost, found.first_lost) == (70, 30, 70)
    assert fate(replace(log, log_start=100), parts=None).fate is ReturnFate.KEPT


def test_r48_a_folder_that_was_written_before_its_broker_was_heard_is_an_older_copy(
    log: ReplicaFolder,
) -> None:
    (log.path.parent / META).write_text("cluster.id=a\nnode.id=3\n")
    folder = read_broker_folder(log.path.parent)
    for heard_ms, is_older in ((0, False), (folder.written_ms + MOST_APART_MS + 1, True)):
        older = tuple(older_copies([folder], {3: heard_ms}.__getitem__))
        check = ReturnCheck(3, "a", (folder,), (fate(log, parts=100),), older=older)
        assert check.safe is not is_older
        assert ("is safe to start if" in "".join(check.sentences)) is not is_older


def test_r48_a_log_that_was_longer_when_it_was_heard_may_be_an_older_copy(
    log: ReplicaFolder,
) -> None:
    (log.path.parent / META).write_text("cluster.id=a\nnode.id=3\n")
    (log.path / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {TOPIC_ID_TEXT}\n")
    folder = read_broker_folder(log.path.parent)
    topic_id = folder.replicas[0].topic_id
    assert topic_id is not None
    offline = replace(OFFLINE, topic_id=topic_id)
    for end, is_older in ((100, False), (101, True)):
        (replica,) = incident(f"b3 isr 7:{end}").evidence.replicas
        heard = {3: HeardLog(replica, 4, offline=False)}
        logs = ends_in(folder, {ORDERS: offline})
        older = tuple(heard_longer(logs, {key_of(offline): heard}.__getitem__))
        assert bool(older) is is_older
        check = ReturnCheck(3, "a", (folder,), (fate(log, parts=100),), older=older)
        assert check.safe is not is_older


OFFLINE = state(leader=None, isr=(3,))


def leading(
    log: ReplicaFolder,
    others: str,
    rescue: Sequence[BatchState] = (),
    *,
    isr: bool = True,
    gone: Sequence[int] = (),
    held: type[Held] = Held,
) -> ReturningReplica:
    """b3 led last in epoch 7 if *isr*; *others* as `incident` reads them, *rescue* has batches."""
    (log.path / EPOCHS).write_text("0\n1\n7 0\n")
    evidence = incident(f"b3 {'isr ' * isr}down, {others}").evidence
    there = replace(evidence.state, partition=ORDERS, topic_id=TOPIC_ID)
    rescues = {ORDERS: [held((), rescue)]} if rescue else {}
    return returning(
        3, log, there, None, rescues, evidence=replace(evidence, state=there), gone=gone
    )


def saved(start: int, end: int, *, epoch: int = 7) -> list[BatchState]:
    """The batches of ten that a rescue has of ``[start, end)``."""
    return [
        BatchState(at, at + 9, epoch, 10, 0, 0, -1, -1, -1, False, None, None)
        for at in range(start, end, 10)
    ]


def test_r26_a_log_that_leads_at_once_is_safe_only_if_what_it_truncates_is_rescued(
    log: ReplicaFolder,
) -> None:
    cut = leading(log, "b1 7:120")
    assert (cut.fate, cut.leads) == (ReturnFate.LOST, True)
    assert (cut.dropped, cut.lost, cut.first_lost) == ((Span(100, 120),), 20, 100)
    part = leading(log, "b1 7:120", saved(110, 120))
    assert (part.fate, part.lost, part.first_lost) == (ReturnFate.LOST, 10, 100)
    whole = leading(log, "b1 7:120", saved(100, 120))
    assert (whole.fate, whole.records, whole.lost) == (ReturnFate.RESCUED, 20, 0)
    for damaged in (Broken, Flipped):
        found = leading(log, "b1 7:120", saved(100, 120), held=damaged)
        assert found.fate is ReturnFate.UNKNOWN
    earlier = leading(log, "b1 7:120", saved(100, 120, epoch=6))
    assert (earlier.fate, earlier.lost) == (ReturnFate.LOST, 20)


def test_a_rescue_of_a_compacted_log_has_no_batch_where_the_log_has_none(
    log: ReplicaFolder,
) -> None:
    batches = [*saved(100, 110), BatchState(119, 119, 7, 1, 0, 0, -1, -1, -1, False, None, None)]
    assert leading(log, "b1 7:120 | compacted", batches).fate is ReturnFate.RESCUED
    assert leading(log, "b1 7:120", batches).lost == 9


def test_a_log_that_leads_at_once_and_of_which_the_others_hold_no_more_is_kept(
    log: ReplicaFolder,
) -> None:
    kept = leading(log, "b1 7:90, b2 down")
    assert (kept.fate, kept.unread) == (ReturnFate.KEPT, (2,))


def test_r51_a_log_that_lost_its_tail_leads_safely_only_if_every_other_was_read(
    log: ReplicaFolder,
) -> None:
    cut = replace(log, reached=101)
    assert leading(cut, "b1 7:90, b2 down").fate is ReturnFate.UNKNOWN
    assert leading(cut, "b1 7:90, b2 7:90").fate is ReturnFate.KEPT


def test_a_stale_log_that_may_be_elected_uncleanly_as_it_starts_is_not_safe(
    log: ReplicaFolder,
) -> None:
    assert leading(log, "b1 isr down", isr=False).fate is ReturnFate.KEPT
    for setting in ("unclean", "unclean?"):
        assert leading(log, f"b1 isr down | {setting}", isr=False).fate is ReturnFate.UNKNOWN
    alike = [replace(PLAIN, unclean_election=one) for one in (False, True, Unknown("not read"))]
    stale = state(leader=None, isr=(1,))
    assert [may_lead(stale, 3, one) for one in (*alike, None)] == [False, True, True, True]


def test_r26_damage_in_a_log_that_leads_at_once_is_never_safe(log: ReplicaFolder) -> None:
    (segment,) = log.path.glob("*.log")
    flipped(segment, segment)
    found = leading(log, "b1 7:100")
    assert (found.fate, found.leads, len(found.unreadable)) == (ReturnFate.UNKNOWN, True, 1)


def test_r52_a_log_with_a_hole_that_no_cleaner_made_is_not_safe_to_lead(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    write(folder, 0, [*tens(0, 50, epoch=7), *tens(60, 100, epoch=7)])
    holed = ReplicaFolder(folder, ORDERS, TOPIC_ID, compacted=False)
    (damage,) = leading(holed, "b1 7:100").unreadable
    assert (damage.start, damage.end) == (50, 60)
    cleaned = replace(holed, compacted=True)
    kept = leading(cleaned, "b1 7:100")
    assert kept.fate is ReturnFate.KEPT
    check = ReturnCheck(3, "a", (BrokerFolder(folder, "a", 3, (cleaned,), ()),), (kept,))
    assert "the log cleaner made the gaps" in next(check.sentences)


def test_a_stale_log_without_a_leader_stays_as_it_is_and_an_empty_last_leader_is_not_to_start(
    log: ReplicaFolder, tmp_path: Path
) -> None:
    offline = OFFLINE
    stale = fate(log, of=state(leader=None, isr=(1,)))
    assert (stale.fate, stale.leads) == (ReturnFate.KEPT, False)
    empty = tmp_path / "empty" / "orders-0"
    write(empty, 0, [])
    there = ReplicaFolder(empty, ORDERS, TOPIC_ID, compacted=False)
    assert fate(there, of=offline).fate is ReturnFate.UNKNOWN
    assert leading(there, "b1 7:120").fate is ReturnFate.UNKNOWN
    assert leading(there, "b1 empty, b2 down").fate is ReturnFate.UNKNOWN
    assert "--gone 2" in leading(there, "b1 empty, b2 down").why
    assert "--gone 2" not in leading(there, "b1 7:120, b2 down").why
    assert leading(there, "b1 empty, b2 down", gone=[2]).fate is ReturnFate.KEPT
    assert leading(there, "b1 7:120, b2 down", gone=[1, 2]).fate is ReturnFate.UNKNOWN
    assert leading(there, "b1 empty, b2 empty").fate is ReturnFate.KEPT
    assert fate(there, of=replace(offline, assignment=(3,))).fate is ReturnFate.KEPT
    assert absent(3, offline).fate is absent(3, state()).fate is ReturnFate.UNKNOWN


def test_a_log_of_another_topic_is_set_aside(log: ReplicaFolder) -> None:
    other = ReplicaFolder(log.path, ORDERS, OTHER_ID, compacted=False)
    assert fate(other).fate is returning(3, log, None, None, {}).fate is ReturnFate.KEPT


def test_r22_a_topic_that_is_not_shown_may_be_there(log: ReplicaFolder) -> None:
    found = returning(3, log, None, None, {}, hidden="DESCRIBE is missing")
    assert (found.fate, found.why) == (ReturnFate.UNKNOWN, "DESCRIBE is missing")


def test_what_an_operator_reads_of_a_return(
    log: ReplicaFolder, ended: ReplicaFolder, snapshot: SnapshotAssertion
) -> None:
    told = {
        "the leader holds it": fate(log, parts=100),
        "a tail is in no rescue": fate(log),
        "records and a marker are in no rescue": fate(ended, parts=5),
        "the tail is rescued": fate(log, rescues={ORDERS: [Held(records(log, 80, 100))]}),
        "a rescue is damaged": fate(log, rescues={ORDERS: [Broken(())]}),
        "it would lead and truncate": leading(log, "b1 7:120"),
        "it would lead, and the rest is rescued": leading(log, "b1 7:120", saved(100, 120)),
        "it would lead and truncate nothing": leading(log, "b2 down"),
        "it would lead without its log": absent(3, OFFLINE),
        "its log is another topic's": fate(replace(log, topic_id=OTHER_ID)),
    }
    assert "\n".join(f"{what}: {found.why}" for what, found in told.items()) == snapshot


def test_a_broker_is_safe_to_start_only_if_every_log_is_and_what_that_rests_on_is_named(
    log: ReplicaFolder,
) -> None:
    def check(*found: ReturningReplica) -> ReturnCheck:
        return ReturnCheck(3, "a", (), found)

    kept, lost, unknown = fate(log, parts=100), fate(log), absent(3, OFFLINE)
    checks = (check(kept), check(kept, lost), check(kept, unknown), check(lost, unknown))
    assert [one.safe for one in checks] == [True, False, False, False]
    verdicts = [" ".join(one.sentences) for one in checks]
    assert ["what would be lost is unknown" in said for said in verdicts] == [0, 0, 1, 0]
    assert ["20 records would be lost" in said for said in verdicts] == [0, 1, 0, 1]
    assert "unread logs of b2" in next(check(leading(log, "b2 down")).sentences)
