"""What an unread replica reported earlier: a bound, a contradiction, or an age; never a proof."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.model import Forfeited, PartitionEvidence, ReplicaLog, Role, Unknown
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.remembered.heard import HeardLog, heard_in
from breakglass.services.recovery.remembered.recall import recalled
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent

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


def test_the_logs_that_a_leader_would_destroy_may_be_unread_by_now_too() -> None:
    now = offline(silent(4, role=LAST), silent(1), log(2))
    found = recalled(now, heard(log(4, role=LAST), log(1, (0, 100))))
    assert isinstance(end(found, 4), Forfeited)
    assert not isinstance(end(found, 1), Forfeited)


@pytest.mark.parametrize("role", [Role.ISR, Role.ELR, LAST])
def test_a_replica_that_caught_up_since_is_not_judged_by_what_it_was(role: Role) -> None:
    now = offline(silent(4, role=role), log(1, (0, 100)), leader_epoch=11)
    found = recalled(now, heard(log(4)))
    assert not isinstance(end(found, 4), Forfeited)
    assert assess(found, HEALTHY).restorers == (4,)


def test_a_stale_replica_stays_empty_for_as_long_as_nobody_read_more_of_it() -> None:
    now = offline(silent(4), log(1, (0, 100)), leader_epoch=11)
    assert isinstance(end(recalled(now, heard(log(4))), 4), Forfeited)


def test_a_partition_that_nobody_wrote_to_has_no_empty_replica_to_keep_down() -> None:
    now = offline(silent(4), log(1))
    assert not isinstance(end(recalled(now, heard(log(4))), 4), Forfeited)


def test_what_was_heard_since_the_partition_has_no_leader_bounds_the_log() -> None:
    now = offline(silent(2), log(1, (0, 100)))
    found = recalled(now, heard(log(2, (0, 60))))
    replica = found.replica(2)
    assert replica is not None
    assert replica.last_heard is not None
    assert assess(found, HEALTHY).verdict is Verdict.SAFE


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


def test_what_was_heard_is_named_with_its_end_its_damage_and_its_age() -> None:
    now = offline(silent(2, role=LAST), log(1, (0, 100)))
    silence = end(now, 2)
    found = end(recalled(now, heard(log(2, (0, 100), role=LAST))), 2)
    assert isinstance(silence, Unknown)
    assert isinstance(found, Unknown)
    assert found.reason.startswith(silence.reason)
    assert "ended at 100" in found.reason
    assert "1970-01-01 00:00:05Z" in found.reason


def test_what_is_read_now_is_left_as_it_is() -> None:
    now = offline(log(4, (0, 50)), log(1, (0, 100)))
    assert recalled(now, heard(log(4))) is now


def test_r26_what_was_heard_proves_nothing_about_the_disk() -> None:
    now = offline(silent(1, role=LAST), log(2, (0, 100)))
    found = assess(recalled(now, heard(log(1, (0, 100), role=LAST))), HEALTHY)
    assert found.unproved == (1,)
    assert found.cut_by_return is not None
    assert found.cut_by_return.holders == (2,)


def test_only_logs_that_were_read_are_heard() -> None:
    evidence = offline(silent(4), log(1, (0, 100)))
    assert list(heard_in(evidence)) == [1]
    led = replace(evidence, state=replace(evidence.state, leader=1))
    assert [one.offline for one in heard_in(led).values()] == [False]
