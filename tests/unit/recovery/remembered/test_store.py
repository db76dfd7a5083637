"""What was heard of replicas is on disk for every later process, and a hostile file is named."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.model import Forfeited, PartitionEvidence, ReplicaLog, Role
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.remembered import store
from breakglass.services.recovery.remembered.store import (
    HeardLog,
    ReplicaMemory,
    key_of,
    newest_lines,
    recalled,
)
from tests.unit.recovery.replicas import ANOTHER_TOPIC_ID, HEALTHY, log, offline, silent

CLUSTER = "Kx/3=="
READ = offline(log(4), log(1, (0, 100), (3, 120)), silent(2))


@pytest.fixture
def memory(tmp_path: Path) -> ReplicaMemory:
    return ReplicaMemory(CLUSTER, tmp_path)


def ends(memory: ReplicaMemory, evidence: PartitionEvidence = READ) -> dict[int, object]:
    heard = memory.heard(key_of(evidence.state))
    return {broker: one.log.log_end for broker, one in heard.items()}


def again(memory: ReplicaMemory) -> ReplicaMemory:
    """The memory of another process."""
    return ReplicaMemory(CLUSTER, memory.path.parents[1])


def test_what_is_noted_is_heard_in_another_process(memory: ReplicaMemory) -> None:
    memory.note([READ])
    later = again(memory)
    heard = later.heard(key_of(READ.state))
    assert ends(later) == {4: 0, 1: 120}
    assert heard[1].log.epochs == log(1, (0, 100), (3, 120)).epochs
    assert (heard[1].leader_epoch, heard[1].offline, heard[1].at_ms) == (9, True, 5_000)
    assert later.last_heard(1) == 5_000
    assert later.last_heard(2) == 0
    assert later.trouble == ""


def test_a_log_whose_records_were_deleted_is_not_remembered_as_emptied(
    memory: ReplicaMemory,
) -> None:
    deleted = replace(log(4, (0, 120)), log_start=120)
    for other, emptied in ((deleted, {}), (log(4), {4: 5_000})):
        memory.note([offline(other, log(1, (0, 100), (3, 120)))])
        assert dict(again(memory).emptied().get(key_of(READ.state), {})) == emptied


def test_a_topic_created_again_is_another_one(memory: ReplicaMemory) -> None:
    memory.note([READ])
    recreated = replace(READ, state=replace(READ.state, topic_id=ANOTHER_TOPIC_ID))
    assert ends(memory, recreated) == {}


def test_a_folder_of_rescues_is_found_by_later_commands_and_outlives_a_shorter_file(
    memory: ReplicaMemory, tmp_path: Path
) -> None:
    for folder in (tmp_path / "one", tmp_path / "two", tmp_path / "one"):
        memory.note_rescue(folder)
    memory.note([READ])
    assert again(memory).rescues() == (tmp_path / "one", tmp_path / "two")
    memory.path.write_bytes(newest_lines(memory.path.read_bytes()))
    assert again(memory).rescues() == (tmp_path / "one", tmp_path / "two")
    assert ends(again(memory)) == {4: 0, 1: 120}


DAMAGES: list[Callable[[dict[str, object]], object]] = [
    lambda line: line | {"schema": 99},
    lambda line: line | {"kind": "else"},
    lambda line: line | {"at_ms": "now"},
    lambda line: line | {"at_ms": -1},
    lambda line: line | {"topic": 7},
    lambda line: line | {"partition": True},
    lambda line: line | {"topic_id": None},
    lambda line: line | {"replicas": {}},
    lambda line: line | {"replicas": [1]},
    lambda line: line | {"replicas": [{"broker": 4, "end": -1}]},
    lambda line: line | {"replicas": [{"broker": 4, "end": 0, "start": 0, "at_ms": 1}]},
    lambda line: [line],
    lambda _: "[" * 100_000,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_line_that_cannot_be_read_is_counted_and_never_believed(
    memory: ReplicaMemory, damage: Callable[[dict[str, object]], object]
) -> None:
    memory.note([READ])
    line = json.loads(memory.path.read_text())
    damaged = damage(line)
    text = damaged if isinstance(damaged, str) else json.dumps(damaged)
    memory.path.write_text(text + "\n")
    later = again(memory)
    assert ends(later) == {}
    assert "1 line cannot be read" in later.trouble
    later.note([READ])
    assert ends(again(later)) == {4: 0, 1: 120}


def test_a_torn_line_is_waited_for(memory: ReplicaMemory) -> None:
    memory.note([READ])
    whole = memory.path.read_bytes()
    memory.path.write_bytes(whole[:-10])
    later = again(memory)
    assert ends(later) == {}
    assert later.trouble == ""


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_a_file_of_another_kind_keeps_nobody_waiting_and_is_named(
    memory: ReplicaMemory, make: Callable[[Path], None]
) -> None:
    memory.path.parent.mkdir(parents=True)
    make(memory.path)
    assert ends(memory) == {}
    assert str(memory.path) in memory.trouble


def test_a_folder_that_cannot_be_written_is_named_and_forgets_nothing(tmp_path: Path) -> None:
    (tmp_path / "heard").touch()
    memory = ReplicaMemory(CLUSTER, tmp_path)
    memory.note([READ])
    assert "heard" in memory.trouble
    assert ends(memory) == {4: 0, 1: 120}


def test_it_stays_within_its_size_by_its_newest_lines(
    memory: ReplicaMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", 10_000)
    for number in range(60):
        memory.note([offline(log(1, (0, 100 + number)), number=number % 40)])
    assert memory.path.stat().st_size <= 12_000
    newest, oldest = offline(log(1), number=19), offline(log(1), number=20)
    assert ends(again(memory), newest) == {1: 159}
    assert ends(again(memory), oldest) == {}


def test_of_very_many_partitions_those_are_remembered_that_may_be_elected_without_us(
    memory: ReplicaMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_PARTITIONS", 1)
    stale = offline(log(1, (0, 100)), number=2)
    leads = offline(log(1, (0, 100), role=Role.LAST_KNOWN_ELR), number=1)
    memory.note([READ, stale, leads])
    assert [bool(ends(memory, one)) for one in (READ, stale, leads)] == [True, False, True]
    assert "1 partitions" in memory.trouble
    memory.note([offline(log(4), log(1, (0, 100), (3, 130)), silent(2))])
    assert ends(again(memory))[1] == 130


def test_the_newest_line_of_each_kind_and_partition_is_kept(memory: ReplicaMemory) -> None:
    memory.note([READ])
    memory.note_checked(1, "leaders")
    memory.note_checked(1, "leaders")
    memory.note([offline(log(4), log(1, (0, 100), (3, 121)), silent(2))])
    kept = newest_lines(memory.path.read_bytes()).splitlines()
    assert [json.loads(line)["kind"] for line in kept] == ["checked", "heard"]


LAST = Role.LAST_KNOWN_ELR


def heard(*logs: ReplicaLog, epoch: int = 9, led: bool = False) -> dict[int, HeardLog]:
    return {one.broker: HeardLog(one, epoch, offline=not led) for one in logs}


def end(evidence: PartitionEvidence, broker: int) -> object:
    replica = evidence.replica(broker)
    assert replica is not None
    return replica.log_end


def test_r02_an_empty_leader_that_was_stopped_is_no_restorer_for_another_process() -> None:
    now = offline(silent(4, role=LAST), log(1, (0, 100)), log(2, (0, 90)))
    assert assess(now, HEALTHY).restorers == (4,)
    found = recalled(now, heard(log(4, role=LAST)))
    assert isinstance(end(found, 4), Forfeited)
    assert assess(found, HEALTHY).restorers == ()
    assert assess(found, HEALTHY).verdict is Verdict.SAFE


def test_a_last_leader_below_the_others_is_no_restorer_either() -> None:
    now = offline(silent(4, role=LAST), log(1, (0, 100)))
    found = recalled(now, heard(log(4, (0, 40), role=LAST)))
    assert isinstance(end(found, 4), Forfeited)


@pytest.mark.parametrize("role", [Role.ISR, Role.ELR, LAST])
def test_a_replica_that_caught_up_since_is_not_judged_by_what_it_was(role: Role) -> None:
    now = offline(silent(4, role=role), log(1, (0, 100)), leader_epoch=11)
    found = recalled(now, heard(log(4)))
    assert not isinstance(end(found, 4), Forfeited)
    assert assess(found, HEALTHY).restorers == (4,)


@pytest.mark.parametrize(
    ("epoch", "led"), [(8, False), (9, True)], ids=["another epoch", "a leader"]
)
def test_what_was_heard_under_another_leader_bounds_nothing(epoch: int, led: bool) -> None:
    now = offline(silent(2), log(1, (0, 100)))
    found = recalled(now, heard(log(2, (0, 60)), epoch=epoch, led=led))
    replica = found.replica(2)
    assert replica is not None
    assert replica.last_heard is None
    assert assess(found, HEALTHY).unheard == (2,)


def test_r26_what_was_heard_proves_nothing_about_the_disk() -> None:
    now = offline(silent(1, role=LAST), log(2, (0, 100)))
    found = assess(recalled(now, heard(log(1, (0, 100), role=LAST))), HEALTHY)
    assert found.unproved == (1,)
    assert found.cut_by_return is not None
    assert found.cut_by_return.holders == (2,)
