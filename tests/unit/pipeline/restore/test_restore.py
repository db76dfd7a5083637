"""What a restore keeps, declares, puts back and proves, and where it goes on."""

from collections import Counter
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest

from breakglass.services.errors import PipelineError, Refused
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.pipeline.restore.offset_map import (
    Announced,
    CommittedRun,
    OffsetLog,
    OffsetMap,
    read_log,
    runs_of,
)
from breakglass.services.pipeline.restore.options import (
    BELOW,
    OPEN,
    afterwards,
    during,
    expired_at_once,
)
from breakglass.services.pipeline.restore.producing import Producing
from breakglass.services.pipeline.restore.proof import unowned_spans
from breakglass.services.pipeline.restore.state import RestoreState, own_settings, require_alone
from breakglass.services.pipeline.restore.tail_plan import (
    ABORTED,
    RECREATED,
    THERE,
    TWICE,
    UNDECIDED,
    ElectedLog,
    Fates,
    TailChoice,
    TailOptions,
    TailRecord,
    _TopicTail,
    content,
    epochs_of,
    fates_of,
    tail_sources,
)
from breakglass.services.pipeline.restore.task import (
    LOG_APPEND_TIME,
    WITHOUT_TIMESTAMP,
    PartitionTask,
    as_restored,
    declared_of,
)
from breakglass.services.pipeline.source import TopicSource
from breakglass.services.pipeline.stored_segments import (
    Longs,
    RecordRun,
    StoredSegment,
    stored_segments,
)
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.topic_backup.batch_log import BatchState
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.summary import (
    EpochStart,
    PartitionSummary,
    SegmentSummary,
    Unproved,
)
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run


def test_settings_are_opened_and_put_back() -> None:
    saved = {"retention.ms": "1000", "segment.bytes": "5", "message.format.version": "2.0"}
    assert during(saved) == {"segment.bytes": "5", **OPEN}
    back, defaults = afterwards(saved)
    assert back == {"retention.ms": "1000"}
    assert set(defaults) == OPEN.keys() - {"retention.ms"}


def segment(max_timestamp: int) -> SegmentSummary:
    return SegmentSummary("s", 0, 100, "", count=3, max_timestamp=max_timestamp)


@pytest.mark.parametrize(
    ("settings", "expired"),
    [
        ({"retention.ms": "400"}, 6),
        ({"retention.ms": "-1"}, 0),
        ({"retention.ms": "400", "cleanup.policy": "compact"}, 0),
        ({"retention.ms": "-1", "retention.bytes": "100"}, 9),
        ({"retention.ms": "-1", "retention.bytes": "150"}, 6),
        ({"retention.ms": "700", "retention.bytes": "250"}, 3),
    ],
)
def test_records_too_old_or_too_many_expire_at_once(settings: dict[str, str], expired: int) -> None:
    """From the oldest on: what lies behind a segment that stays, stays."""
    segments = [segment(at) for at in (10, 500, 900, 100)]
    assert expired_at_once(settings, segments, 1000) == expired


FIRST, SECOND = CommittedRun(0, 5, 10, 3), CommittedRun(5, 10, 14, 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "partition-0.jsonl"


@pytest.fixture
def log(path: Path) -> OffsetLog:
    """One transaction of it was confirmed."""
    log = OffsetLog(path)
    log.confirm(log.announce([FIRST]))
    return log


def never(_: Announced) -> bool:
    raise AssertionError("the topic needs no look")


def test_only_what_was_confirmed_counts(path: Path, log: OffsetLog) -> None:
    log.announce([SECOND])
    told = read_log(path)
    assert told.runs == [FIRST]
    assert [announced.runs for announced in told.open] == [(SECOND,)]
    assert log.settle(10, never) == 10, "the cluster's own word settles the last one"


def test_a_line_torn_by_a_kill_counts_for_nothing_and_spoils_nothing(
    path: Path, log: OffsetLog
) -> None:
    with path.open("ab") as file:
        file.write(b'{"id": "x", "runs": [{"first')
    assert read_log(path).open == ()
    log.confirm(log.announce([SECOND]))
    assert read_log(path).runs == [FIRST, SECOND]
    assert read_log(path.with_name("none")).runs == []


@pytest.mark.parametrize("told", [5, None])
@pytest.mark.parametrize(("committed", "next_offset"), [(True, 10), (False, 5)])
def test_a_look_at_the_topic_settles_what_the_cluster_may_have_forgotten_of_the_group(
    log: OffsetLog, *, told: int | None, committed: bool, next_offset: int
) -> None:
    """Its coordinator was killed, perhaps between the records' end of a transaction and its own."""
    log.announce([SECOND])
    assert (
        log.settle(told, lambda announced: committed and announced.runs == (SECOND,)) == next_offset
    )


def test_what_was_confirmed_and_can_be_read_stays_though_the_group_has_forgotten_it(
    log: OffsetLog,
) -> None:
    log.confirm(log.announce([SECOND]))
    assert log.settle(5, lambda announced: announced.runs == (SECOND,)) == 10
    with pytest.raises(PipelineError, match="--progress"):
        log.settle(5, lambda _: False)


def test_of_two_attempts_at_the_same_records_the_topic_tells_the_true_one(
    path: Path, log: OffsetLog
) -> None:
    """An attempt that was fenced may still announce what it never commits."""
    fenced, true = CommittedRun(5, 10, 14, 2), CommittedRun(5, 10, 17, 2)
    log.announce([true])
    log.announce([fenced])
    assert log.settle(10, lambda announced: announced.runs == (true,)) == 10
    assert read_log(path).runs == [FIRST, true]
    assert read_log(path).open == ()


@pytest.mark.parametrize("reached", [7, 12])
def test_a_log_that_contradicts_the_cluster_is_an_error(log: OffsetLog, reached: int) -> None:
    with pytest.raises(PipelineError, match="--progress"):
        log.settle(reached, never)


def test_records_between_those_of_others_are_told_as_they_lie() -> None:
    assert runs_of([0, 1, 4, 5], [10, 11, 13, 14]) == [
        CommittedRun(0, 2, 10, 2),
        CommittedRun(4, 6, 13, 2),
    ]
    assert runs_of([7], [3]) == [CommittedRun(7, 8, 3, 1)]
    with pytest.raises(ValueError, match="11 follows 12"):
        runs_of([0, 1], [12, 11])


RUNS = [CommittedRun(0, 5, 10, 3), CommittedRun(5, 10, 14, 2)]
"""Three records became 10 to 12, a marker took 13, two became 14 and 15."""


@pytest.fixture
def stored(tmp_path: Path) -> list[StoredSegment]:
    with TopicWriter(tmp_path, TopicIdentity("t"), max_segment_bytes=60) as writer:
        for offset in (0, 1, 4, 5, 9):
            record = Record(offset, TimestampType.CREATE, 0, b"k", b"v")
            writer.partition(0).append(record)
        manifest = writer.commit()
    return stored_segments(LocalFolder(tmp_path / "t"), manifest.partitions[0].segments)


@pytest.mark.parametrize(
    ("old", "new"),
    [(0, 10), (1, 11), (2, 12), (4, 12), (5, 14), (6, 15), (9, 15), (10, 16), (99, 16)],
)
def test_a_group_goes_on_at_the_first_record_from_its_offset_on(
    stored: list[StoredSegment], old: int, new: int
) -> None:
    assert OffsetMap(RUNS, stored).new_of(old) == new
    assert OffsetMap((), (), (), 7).new_of(old) == 7, "a partition without records"
    assert OffsetMap([], stored).new_of(old) == 0, "nothing was restored"


class Counted:
    """A topic that takes every record, and counts transactions."""

    def __init__(self) -> None:
        self.begun = 0
        self.commits: list[int] = []
        self.offsets: list[int] = []

    def begin(self) -> None:
        self.begun = len(self.offsets)

    def send(self, run: RecordRun) -> Longs:
        self.offsets += run.offsets.tolist()
        assert [len(run.data), *np.diff(run.bounds)] == [run.bounds[-1], *[SIZE] * len(run.offsets)]
        return np.zeros(len(run.offsets), np.int64)

    def flush(self) -> Longs:
        return np.arange(self.begun, len(self.offsets)) + len(self.commits)

    def commit(self, next_offset: int) -> None:
        self.commits.append(next_offset)

    def reached(self) -> None:
        """Nothing was restored before."""

    def readable(self, announced: Announced) -> bool:
        raise AssertionError(announced)


SIZE = len(encode(Record(0, TimestampType.CREATE, 0, b"k", b"v")))


@pytest.mark.parametrize(("limit", "commits"), [(100, [10]), (2, [5, 10]), (1, [1, 5, 10])])
def test_scattered_records_share_a_transaction_and_lead_back(
    stored: list[StoredSegment], limit: int, commits: list[int], path: Path
) -> None:
    spans = ((0, 1), (4, 5), (9, 10))
    task = PartitionTask("t", 0, spans, stored, "id", str(path), limit, True, True)
    topic: Any = Counted()
    assert Producing(task, topic, topic).run().records == 3
    assert (topic.offsets, topic.commits) == ([0, 4, 9], commits)
    offsets = OffsetMap(read_log(path).runs, stored, spans)
    news = [offsets.new_of(old) for old in (0, 1, 4, 5, 9)]
    assert offsets.old_of(np.array(sorted({*news}))).tolist() == [0, 4, 9]


WRITTEN = [CommittedRun(0, 3, 0, 3), CommittedRun(3, 5, 4, 2)]
"""Offsets 0 to 2 and 4 to 5; the markers are at 3 and 6."""
SHIFTED = [CommittedRun(0, 3, 2, 3), CommittedRun(3, 5, 9, 2)]
"""Offsets 2 to 4 and 9 to 10."""


@pytest.mark.parametrize(
    ("runs", "start", "end", "expected"),
    [
        ([], 0, 0, []),
        ([], 5, 5, []),
        ([], 0, 4, [(0, 4)]),
        (WRITTEN, 0, 7, []),
        (WRITTEN, 0, 8, [(6, 8)]),
        (SHIFTED, 0, 12, [(0, 2), (5, 9)]),
        (SHIFTED, 6, 12, [(6, 9)]),
        (list(reversed(SHIFTED)), 0, 12, [(0, 2), (5, 9)]),
    ],
)
def test_one_offset_behind_a_transaction_is_its_marker(
    runs: list[CommittedRun], start: int, end: int, expected: list[tuple[int, int]]
) -> None:
    assert list(unowned_spans(runs, start, end, transactional=True)) == expected


def test_without_transactions_or_before_the_first_record_there_are_no_markers() -> None:
    assert list(unowned_spans(WRITTEN, 0, 7, transactional=False)) == [(3, 4), (6, 7)]
    first = [CommittedRun(0, 3, 1, 3)]
    assert list(unowned_spans(first, 0, 5, transactional=True)) == [(0, 1)]


PLAIN = Record(
    3, TimestampType.CREATE, 5, b"k", None, ((b"", b""), (b"a\x00", None), (b"\xff", b"1"))
)
NULL_STAMP = PLAIN._replace(timestamp_type=TimestampType.CREATE_NULL, timestamp=None)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (PLAIN, {}),
        (PLAIN._replace(timestamp=-5), {}),
        (PLAIN._replace(timestamp_type=TimestampType.NONE, timestamp=None), {WITHOUT_TIMESTAMP: 1}),
        (NULL_STAMP, {WITHOUT_TIMESTAMP: 1}),
        (PLAIN._replace(timestamp_type=TimestampType.LOG_APPEND), {LOG_APPEND_TIME: 1}),
    ],
)
def test_b9_what_cannot_be_kept_is_declared_and_nothing_else(
    record: Record, what: dict[str, int]
) -> None:
    assert declared_of(np.array([record.timestamp_type])) == what
    assert (as_restored(record) == record) == (what == {})


ELECTED = EpochHistory((EpochRange(0, 0, 10), EpochRange(2, 10, 30)), 0)
"""Cut at 10 by an election: what epoch 1 wrote from there on is gone."""


def lacking(log: ElectedLog, offsets: list[int], epochs: list[int]) -> list[int]:
    found = log.lacks(np.array(offsets), np.array(epochs), range(5))
    return [offsets[int(number)] for number in found]


def test_a_record_of_another_epoch_is_not_in_the_log() -> None:
    offsets, epochs = [3, 8, 9, 10, 12, 40], [0, 0, 0, 1, 2, 2]
    assert lacking(ElectedLog(5, ELECTED), offsets, epochs) == [10, 40]
    unknown = ElectedLog(5, Unknown("no answer"))
    assert lacking(ElectedLog(5, ELECTED), [3, 8, 12], [-1] * 3) == [8, 12], "content has to tell"
    assert lacking(unknown, [3, 8], [0, 0]) == [8]


@pytest.mark.parametrize(
    ("live", "elected", "matched"),
    [
        pytest.param([(2, 50, 90)], None, 0, id="epochs that it no longer has prove nothing"),
        pytest.param([(2, 50, 90)], [(0, 0, 10), (2, 10, 30)], 10, id="the plan has them"),
        pytest.param([(1, 50, 90)], None, 40, id="its first epoch may begin before its start"),
        pytest.param([(1, 0, 15), (2, 15, 90)], None, 15, id="both have it up to the cut"),
        pytest.param(None, None, 0, id="it is unknown"),
    ],
)
def test_b34_what_the_log_had_before_its_start_is_known_by_its_epochs(
    live: list[tuple[int, int, int]] | None,
    elected: list[tuple[int, int, int]] | None,
    matched: int,
) -> None:
    """What is stored was written in epoch 0 up to offset 10, and in epoch 1 up to 40."""
    epochs = EpochStart(0, 0), EpochStart(1, 10)
    part = PartitionSummary(0, 40, (SegmentSummary("a", 0, 1, "", 40, 0, 39, epochs=epochs),))
    histories = [
        Unknown("hidden") if one is None else EpochHistory(tuple(starmap(EpochRange, one)), 0)
        for one in (live, elected)
    ]
    log = ElectedLog(50, *histories)
    assert log.matched(part) == range(matched)
    doubted = replace(part, unproved=(Unproved(0, 5, "joined"),))
    assert log.matched(doubted).start == (5 if matched else 0), "what is before is of another log"
    offsets = np.arange(40)
    below = log.lacks(offsets, epochs_of(part, offsets), log.matched(part))
    if live is not None and len(live) == 1:
        assert below.tolist() == list(range(matched, 40))


@pytest.mark.parametrize(
    ("log_start", "live", "fork"),
    [
        pytest.param(0, [(0, 0, 10), (1, 10, 31), (3, 31, 40)], 31, id="cut in the second epoch"),
        pytest.param(0, [(0, 0, 8), (3, 8, 40)], 8, id="cut in the first"),
        pytest.param(20, [(1, 20, 31), (3, 31, 40)], 31, id="the first epoch is before its start"),
        pytest.param(0, [(0, 0, 10), (1, 10, 40)], 40, id="not cut"),
        pytest.param(7, None, 7, id="unknown"),
    ],
)
def test_b39_what_was_put_back_is_looked_for_from_where_the_logs_part(
    log_start: int, live: list[tuple[int, int, int]] | None, fork: int
) -> None:
    """The stored log ends at 40 with epoch 1 from 10 on; 31 and 32 are transaction markers."""
    epochs = EpochStart(0, 0), EpochStart(1, 10)
    part = PartitionSummary(0, 40, (SegmentSummary("a", 0, 1, "", 38, 0, 39, epochs=epochs),))
    history = Unknown("") if live is None else EpochHistory(tuple(starmap(EpochRange, live)), 0)
    assert ElectedLog(log_start, history).fork(part) == fork


def test_b34_what_is_below_the_logs_start_and_nowhere_in_it_is_left_out_by_name() -> None:
    choice = TailChoice(Counter({b"x": 1}), log_start=7)
    stored = [candidate(4), candidate(5, b"x"), candidate(6), candidate(7)]
    assert choice.choose(stored, Fates(aborted=((6, 7),))) == ((7, 8),)
    assert choice.choose([candidate(4)], Fates()) == ()
    assert choice.left_out == {BELOW: 1, THERE: 1, ABORTED: 1, TWICE: 1}


def test_b34_records_from_before_a_topic_was_created_again_are_left_out_by_name(
    tmp_path: Path,
) -> None:
    for number, folder in ((2, "orders~2"), (1, "orders")):
        identity = TopicIdentity("orders", topic_id=UUID(int=number))
        back_up(tmp_path, run(0, 5), identity=identity).rename(tmp_path / folder)
    now = TopicSource(TopicIdentity("orders", topic_id=UUID(int=2)), (), {})
    plan = Plan(entries=(PlanEntry(topic="orders", number=0, leader=1),))
    unasked = cast("ReadClient", None)
    tail = _TopicTail(unasked, plan, "orders", now, TailOptions(), tmp_path)
    plans = tail.plans(tail_sources(LocalStore(tmp_path)), [TopicPartition("orders", 0)])
    assert [one.left_out for one in plans] == [{RECREATED: 5}, {}]


def test_epochs_are_those_of_each_segment_alone() -> None:
    """A history that does not go back to a segment's start tells nothing of what is before."""
    part = PartitionSummary(
        0,
        30,
        (
            SegmentSummary("a", 0, 1, "", 10, 0, 9, epochs=(EpochStart(0, 0), EpochStart(1, 5))),
            SegmentSummary("b", 10, 1, "", 10, 10, 19),
            SegmentSummary("c", 20, 1, "", 10, 20, 29, epochs=(EpochStart(4, 25),)),
        ),
    )
    offsets = np.array([0, 4, 5, 9, 10, 19, 20, 24, 25, 29, 30])
    assert epochs_of(part, offsets).tolist() == [0, 0, 1, 1, -1, -1, -1, -1, 4, 4, -1]


def test_content_is_the_same_wherever_a_record_is_put_back() -> None:
    appended = Record(1, TimestampType.LOG_APPEND, 5, b"k", b"v", ((b"h", None),))
    back = appended._replace(offset=70, timestamp_type=TimestampType.CREATE)
    assert content(appended) == content(back)
    for other in (
        back._replace(timestamp=6),
        back._replace(key=b""),
        back._replace(value=None),
        back._replace(headers=()),
    ):
        assert content(other) != content(back)


def candidate(offset: int, text: bytes | None = None) -> TailRecord:
    return TailRecord(offset, text or b"%d" % offset)


def test_what_is_there_already_is_put_back_as_often_as_it_lacks() -> None:
    choice = TailChoice(Counter({b"x": 1, b"4": 1}))
    stored = [candidate(0, b"x"), candidate(1, b"x"), *map(candidate, range(2, 6))]
    assert choice.choose(stored, Fates()) == ((1, 4), (5, 6))
    assert choice.left_out == {THERE: 2}


def test_a_record_of_two_replicas_is_put_back_once_and_a_fork_twice() -> None:
    choice = TailChoice(Counter())
    assert choice.choose([candidate(5), candidate(6)], Fates()) == ((5, 7),)
    assert choice.choose([candidate(5), candidate(6, b"fork")], Fates()) == ((6, 7),)
    assert choice.left_out == {TWICE: 1}


def state(base: int, last: int, producer: int = 7, marker: str | None = None) -> BatchState:
    return BatchState(base, last, 0, 1, 0, 0, producer, 0, 0, True, marker, None)


def test_only_committed_transactions_are_put_back() -> None:
    fates = fates_of(
        [
            state(0, 1),
            state(2, 3, producer=8),
            state(4, 4, marker="commit"),
            state(5, 6),
            state(7, 7, marker="abort"),
            state(8, 9),
        ]
    )
    choice = TailChoice(Counter())
    assert choice.choose(map(candidate, range(10)), fates) == ((0, 2), (4, 5), (7, 8))
    assert choice.left_out == {UNDECIDED: 4, ABORTED: 2}
    assert [Fates(((1, 3),), ((5, 7),)).of(offset) for offset in (0, 4, 7)] == [None] * 3


def test_b38_the_settings_that_an_unfinished_restore_gave_a_topic_are_not_taken_for_its_own(
    tmp_path: Path,
) -> None:
    """A put-back from two brokers was killed in the first: the other is planned beside it."""
    own, given = {"retention.ms": "1000"}, {"retention.ms": "-1", "cleanup.policy": "delete"}
    now = TopicSource(TopicIdentity("orders", topic_id=UUID(int=2), config=given), (), {})
    assert own_settings(tmp_path, now) == given
    folder = tmp_path / "orders~tail-b2"
    state = RestoreState("r", "orders", "/rescue/b2", str(folder), own, {}, transactional=True)
    begun = state.begin().bound(UUID(int=2))
    assert own_settings(tmp_path, now) == own
    assert own_settings(tmp_path, replace(now, identity=TopicIdentity("orders"))) != own
    replace(begun, ended=True).keep()
    assert own_settings(tmp_path, now) == given


@pytest.mark.parametrize("place", ["orders", "orders~tail-b2"])
def test_b40_a_restore_into_a_topic_waits_for_the_unfinished_one_of_another_source(
    place: str, tmp_path: Path
) -> None:
    """Each would count what the other is still to write as missing: both write it."""
    now = TopicSource(TopicIdentity("orders", topic_id=UUID(int=2)), (), {})
    folder = tmp_path / place
    state = RestoreState("r", "orders", "/rescue/b2", str(folder), {}, {}, transactional=True)
    begun = state.begin().bound(UUID(int=2))
    with pytest.raises(Refused, match="from /rescue/b2 is unfinished"):
        require_alone(tmp_path, now, [tmp_path / "orders~tail-b1"])
    require_alone(tmp_path, now, [folder])
    replace(begun, failed="its records are gone").keep()
    require_alone(tmp_path, now, [])
