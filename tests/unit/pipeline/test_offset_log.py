"""What a restore announced and confirmed, whatever was killed in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.errors import PipelineError
from breakglass.services.pipeline.restore.offset_map import (
    Announced,
    CommittedRun,
    OffsetLog,
    read_log,
    runs_of,
)

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


def test_a_line_torn_by_a_kill_counts_for_nothing_and_spoils_nothing(
    path: Path, log: OffsetLog
) -> None:
    with path.open("ab") as file:
        file.write(b'{"id": "x", "runs": [{"first')
    assert read_log(path).open == ()
    log.confirm(log.announce([SECOND]))
    assert read_log(path).runs == [FIRST, SECOND]
    assert read_log(path.with_name("none")).runs == []


def test_the_clusters_own_word_settles_the_last_transaction(log: OffsetLog) -> None:
    log.announce([SECOND])
    assert log.settle(10, never) == 10


@pytest.mark.parametrize(("committed", "next_offset"), [(True, 10), (False, 5)])
def test_a_look_at_the_topic_settles_what_the_cluster_may_have_forgotten_of_the_group(
    log: OffsetLog, *, committed: bool, next_offset: int
) -> None:
    """Its coordinator was killed, perhaps between the records' end of a transaction and its own."""
    log.announce([SECOND])
    assert log.settle(5, lambda announced: committed and announced.runs == (SECOND,)) == next_offset


def test_what_was_confirmed_and_can_be_read_stays_though_the_group_has_forgotten_it(
    log: OffsetLog,
) -> None:
    log.confirm(log.announce([SECOND]))
    assert log.settle(5, lambda announced: announced.runs == (SECOND,)) == 10
    with pytest.raises(PipelineError, match="--progress"):
        log.settle(5, lambda _: False)


@pytest.mark.parametrize(("committed", "next_offset"), [(True, 10), (False, 5)])
def test_a_look_at_the_topic_settles_it_where_the_cluster_has_forgotten(
    log: OffsetLog, *, committed: bool, next_offset: int
) -> None:
    log.announce([SECOND])
    assert (
        log.settle(None, lambda announced: committed and announced.runs == (SECOND,)) == next_offset
    )


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
