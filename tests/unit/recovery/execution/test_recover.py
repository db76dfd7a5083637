"""A whole recovery: who waits for a rescue, who is held by one, and what a halt stops."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal
from breakglass.services.guard.journal_reserve import Reserve
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.record import ExecutionJournal
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from tests.kit.fake_controller import after, failing
from tests.unit.recovery.execution.conftest import Bench

INVALID_REQUEST = 42


@dataclass
class ScriptedRescue:
    """Says what it was told to, and notes who was online when it was asked to save."""

    losing: Callable[[ElectionTarget], bool] = lambda _: True
    fails: Mapping[TopicPartition, str] = field(default_factory=dict)
    leader: Callable[[ElectionTarget], int | None] = lambda _: None
    unwritable: str = ""
    """Why the journal takes no rescue."""
    saved: list[list[TopicPartition]] = field(default_factory=list)
    online: list[set[TopicPartition]] = field(default_factory=list)
    watched: Sequence[ElectionTarget] = ()

    def needed(self, target: ElectionTarget) -> bool:
        return self.losing(target)

    def save(
        self, targets: Sequence[ElectionTarget], journal: ExecutionJournal
    ) -> Mapping[TopicPartition, str]:
        assert isinstance(journal, Journal)
        self.saved.append([target.partition for target in targets if self.losing(target)])
        if self.unwritable and self.saved[-1]:
            raise StorageError(self.unwritable)
        self.online.append(
            {target.partition for target in self.watched if self.leader(target) is not None}
        )
        return {name: why for name, why in self.fails.items() if name in self.saved[-1]}


def recover(
    bench: Bench, targets: Sequence[ElectionTarget], rescue: ScriptedRescue | None
) -> dict[TopicPartition, PartitionOutcome]:
    if rescue is not None:
        rescue.watched, rescue.leader = targets, bench.leader
    recovery = Recovery(bench.elect, bench.journal, bench.choose_route, rescue, bench.limits)
    return {outcome.partition: outcome for batch in recovery.run(targets) for outcome in batch}


def test_what_loses_is_rescued_before_it_is_elected(bench: Bench) -> None:
    targets = bench.offline(count=2)
    rescue = ScriptedRescue()
    ended = recover(bench, targets, rescue)
    assert {outcome.result for outcome in ended.values()} == {RecoveryResult.ELECTED}
    assert (rescue.saved, rescue.online) == ([[target.partition for target in targets]], [set()])


def test_what_a_stop_left_unsaved_was_not_attempted_and_can_be_resumed(bench: Bench) -> None:
    held, free = bench.offline(count=2)
    rescue = ScriptedRescue(fails={held.partition: "stopped on request before it was saved"})
    rescue.watched, rescue.leader = (held, free), bench.leader
    recovery = Recovery(
        bench.elect, bench.journal, bench.choose_route, rescue, bench.limits, stop=lambda: True
    )
    ended = {
        outcome.partition: outcome for batch in recovery.run([held, free]) for outcome in batch
    }
    assert {outcome.result for outcome in ended.values()} == {RecoveryResult.NOT_ATTEMPTED}
    assert "stopped on request before it was saved" in ended[held.partition].reason


def test_a_failed_rescue_holds_that_election_and_no_other(bench: Bench) -> None:
    held, free = bench.offline(count=2)
    rescue = ScriptedRescue(fails={held.partition: "the disk is full"})
    ended = recover(bench, [held, free], rescue)
    assert ended[held.partition].result is RecoveryResult.REFUSED
    assert "not rescued: the disk is full" in ended[held.partition].reason
    assert "--without-rescue" in ended[held.partition].reason
    assert (bench.leader(held), bench.leader(free)) == (None, 1)


def test_what_loses_nothing_does_not_wait_for_the_rescue_of_the_others(bench: Bench) -> None:
    losing, safe = bench.offline(count=2)
    rescue = ScriptedRescue(lambda target: target is losing)
    recover(bench, [losing, safe], rescue)
    assert rescue.saved == [[], [losing.partition]]
    assert rescue.online == [set(), {safe.partition}]


def test_r17_an_internal_topic_that_loses_is_rescued_and_elected_before_all_others(
    bench: Bench,
) -> None:
    (orders,) = bench.offline()
    (offsets,) = bench.offline("__consumer_offsets")
    rescue = ScriptedRescue(lambda target: target is offsets)
    recover(bench, [orders, offsets], rescue)
    assert rescue.saved == [[offsets.partition]]
    first = bench.cluster.brokers[1].requests(AlterPartitionReassignmentsRequest)[0]
    assert first.topics[0].name == "__consumer_offsets"


def test_r04_a_mismatch_among_those_that_lose_nothing_leaves_the_others_untouched(
    bench: Bench,
) -> None:
    safe, losing = bench.offline(count=2)
    rescue = ScriptedRescue(lambda target: target is losing)
    fenced = after(lambda: bench.cluster.story.fenced.add(1))
    bench.controller.next(ElectLeadersRequest, fenced)
    ended = recover(bench, [safe, losing], rescue)
    assert ended[safe.partition].result is RecoveryResult.ELECTED_ANOTHER
    assert ended[losing.partition].result is RecoveryResult.NOT_ATTEMPTED
    assert "elected b2, not b1" in ended[losing.partition].reason
    assert rescue.saved == [[]]


def test_a_failure_among_those_that_lose_nothing_does_not_keep_those_that_lose(
    bench: Bench,
) -> None:
    safe, losing = bench.offline(count=2)
    rescue = ScriptedRescue(lambda target: target is losing)
    bench.controller.next(AlterPartitionReassignmentsRequest, failing(INVALID_REQUEST))
    ended = recover(bench, [safe, losing], rescue)
    assert ended[safe.partition].result is RecoveryResult.FAILED
    assert ended[losing.partition].result is RecoveryResult.ELECTED


def test_a_journal_that_cannot_announce_a_rescue_stops_the_run_and_names_all_that_is_left(
    bench: Bench,
) -> None:
    safe, losing, other = bench.offline(count=3)
    rescue = ScriptedRescue(lambda target: target is not safe, unwritable="the journal is full")
    ended = recover(bench, [safe, losing, other], rescue)
    assert ended.pop(safe.partition).result is RecoveryResult.ELECTED
    assert {outcome.result for outcome in ended.values()} == {RecoveryResult.NOT_ATTEMPTED}
    assert all("the journal is full" in outcome.reason for outcome in ended.values())


def test_without_a_rescue_nothing_is_saved_and_all_are_elected(bench: Bench) -> None:
    targets = bench.offline(count=2)
    ended = recover(bench, targets, None)
    assert {outcome.result for outcome in ended.values()} == {RecoveryResult.ELECTED}


def test_without_room_for_the_journal_nothing_is_saved_and_nothing_is_sent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Reserve, "take", full)
    rescue = ScriptedRescue()
    with pytest.raises(StorageError, match=r"needs [0-9,]+ bytes in .*, so nothing was sent"):
        recover(bench, bench.offline(count=2), rescue)
    assert (rescue.saved, bench.controller.steps) == ([], [])
