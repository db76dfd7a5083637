"""Elections that cost records: who is told of, how many records, and who still has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.incident.election_words import alarm_lines
from breakglass.services.incident.elections_seen import (
    ElectionSeen,
    LogFate,
    ReplicaAhead,
    as_elected,
    election_seen,
    followed,
    witnessed,
)
from breakglass.services.model import PartitionEvidence, ReplicaLog, Role, TopicPartition
from tests.unit.recovery.replicas import ANOTHER_TOPIC_ID, log, offline, silent

SEEN_AT_MS = 82_971_000
"""23:02:51Z."""
LAST = Role.LAST_KNOWN_ELR


def seen(
    before: PartitionEvidence, leader: ReplicaLog, *earlier: ReplicaLog
) -> ElectionSeen | None:
    """What is seen where *leader* leads what was offline *before*."""
    now = replace(before.state, leader=leader.broker, leader_epoch=before.state.leader_epoch + 1)
    return election_seen(witnessed(before, earlier), now, leader, SEEN_AT_MS)


def told(one: ElectionSeen | None, *logs: ReplicaLog, down: tuple[int, ...] = ()) -> str:
    """The sentence, once the holders were read again."""
    assert one is not None
    read: dict[int, ReplicaLog | None] = {replica.broker: replica for replica in logs}
    read.update(dict.fromkeys(down))
    (line,) = alarm_lines([followed(one, read)])
    return line


EMPTY = offline(log(1, role=LAST), log(2, (0, 103), hw=100), log(3, (0, 100), hw=100))
SHORTER = offline(log(1, (0, 103), hw=70), log(2, (0, 70), hw=70), silent(3, role=LAST))
ELECTED = EMPTY.state.leader_epoch + 1


class TestWhatIsSeen:
    def test_r02_an_empty_leader_is_told_with_all_that_held_a_log(self) -> None:
        found = seen(EMPTY, log(1, role=LAST))
        assert found is not None
        assert (found.empty, found.log_end, found.best, found.best_end) == (True, 0, 2, 103)
        assert [holder.broker for holder in found.holders] == [2, 3]

    def test_a_shorter_leader_is_told_with_the_records_it_lacks(self) -> None:
        found = seen(SHORTER, log(2, (0, 70)))
        assert found is not None
        assert (found.log_end, found.best, found.missing) == (70, 1, 33)

    def test_a_leader_that_has_parted_lacks_what_lies_past_the_parting(self) -> None:
        before = offline(log(1, (0, 100), (3, 110)), log(2, (0, 90), (1, 150), hw=90))
        found = seen(before, log(2, (0, 90), (1, 150)))
        assert found is not None
        assert (found.log_end, found.missing) == (150, 20)

    def test_the_best_log_as_leader_is_no_alarm(self) -> None:
        assert seen(SHORTER, log(1, (0, 103))) is None

    def test_a_longer_log_that_was_never_read_is_no_alarm(self) -> None:
        assert seen(SHORTER, log(3, (0, 120), role=LAST)) is None

    def test_what_the_leader_has_written_since_hides_nothing(self) -> None:
        found = seen(SHORTER, log(2, (0, 70), (ELECTED, 500)))
        assert found is not None
        assert (found.log_end, found.missing) == (70, 33)

    def test_a_log_that_was_read_once_counts_though_its_broker_went_down(self) -> None:
        later = offline(silent(1), log(2, (0, 70), hw=70))
        assert seen(later, log(2, (0, 70))) is None
        found = seen(later, log(2, (0, 70)), log(1, (0, 103), hw=70))
        assert found is not None
        assert (found.best, found.missing) == (1, 33)

    @pytest.mark.parametrize("role", [Role.ISR, Role.ELR])
    def test_a_clean_election_that_cuts_an_uncommitted_tail_is_no_alarm(self, role: Role) -> None:
        before = offline(log(1, (0, 103), hw=70), log(2, (0, 70), role=role))
        assert seen(before, log(2, (0, 70), role=role)) is None

    def test_committed_records_are_missed_whoever_was_elected(self) -> None:
        before = offline(log(1, (0, 103), hw=90), log(2, (0, 70), role=Role.ISR))
        assert seen(before, log(2, (0, 70), role=Role.ISR)) is not None

    def test_r09_the_best_ranked_log_as_leader_may_lack_committed_records(self) -> None:
        before = offline(log(1, (0, 10), (5, 12), role=LAST), log(2, (0, 1000), hw=1000))
        found = seen(before, log(1, (0, 10), (5, 12), role=LAST))
        assert found is not None
        assert (found.best, found.missing) == (2, 990)

    def test_a_topic_made_anew_is_another_one(self) -> None:
        now = replace(SHORTER.state, topic_id=ANOTHER_TOPIC_ID, leader=2, leader_epoch=ELECTED)
        assert election_seen(witnessed(SHORTER), now, log(2, (0, 70)), SEEN_AT_MS) is None


class TestWhatBecomesOfTheRecords:
    def test_a_replica_that_was_truncated_and_follows_again_is_truncated(self) -> None:
        holder = ReplicaAhead(1, 103, 0)
        one = replace(_seen(), holders=(holder,))
        again = followed(one, {1: log(1, (0, 70), (ELECTED, 500))})
        assert [holder.kept for holder in again.holders] == [LogFate.TRUNCATED]

    def test_a_replica_that_is_as_it_was_still_runs_with_them(self) -> None:
        again = followed(_seen(), {1: log(1, (0, 103))})
        assert [holder.kept for holder in again.holders] == [LogFate.RUNNING]

    def test_what_was_truncated_stays_truncated_though_its_broker_goes_down(self) -> None:
        cut = followed(_seen(), {1: log(1, (0, 70))})
        assert [holder.kept for holder in followed(cut, {1: None}).holders] == [LogFate.TRUNCATED]


def _seen() -> ElectionSeen:
    found = seen(SHORTER, log(2, (0, 70)))
    assert found is not None
    return found


class TestWords:
    def test_r02_brokers_that_still_hold_a_log_are_to_be_stopped(self) -> None:
        line = told(seen(EMPTY, log(1, role=LAST)), log(2, (0, 103)), log(3, (0, 100)))
        assert line == (
            "b1 was elected EMPTY, seen at 23:02:51Z: orders-3 went from 103 to 0; stop the "
            "brokers that still hold a log: b2, b3"
        )

    def test_r02_it_says_so_when_all_were_truncated(self) -> None:
        line = told(seen(EMPTY, log(1, role=LAST)), log(2), log(3))
        assert line.endswith("went from 103 to 0; b2 and b3 have been truncated")

    def test_one_that_is_down_is_not_to_be_started(self) -> None:
        line = told(seen(SHORTER, log(2, (0, 70))), down=(1,))
        assert line == (
            "orders-3 was elected by somebody else, seen at 23:02:51Z: b2 leads with 70 records, "
            "b1 had 103; 33 records are only on b1, not truncated yet; do not start b1 before its "
            "log folder is copied: it holds them"
        )

    def test_one_that_runs_is_to_be_stopped(self) -> None:
        line = told(seen(SHORTER, log(2, (0, 70))), log(1, (0, 103)))
        assert line.endswith(
            "33 records are only on b1, not truncated yet; stop the brokers that still hold them: "
            "b1"
        )

    def test_partitions_that_fared_alike_are_one_sentence(self) -> None:
        found = seen(EMPTY, log(1, role=LAST))
        assert found is not None
        many = [replace(found, partition=TopicPartition("carts", number)) for number in range(3)]
        other = [replace(found, partition=TopicPartition("users", 7), best_end=9)]
        (line,) = alarm_lines([*many, *other])
        assert "carts-0..2 went from 103 to 0, users-7 went from 9 to 0; do not start" in line

    def test_an_empty_leader_comes_first(self) -> None:
        empty = seen(EMPTY, log(1, role=LAST))
        assert empty is not None
        assert "EMPTY" in alarm_lines([_seen(), empty])[0]


def test_a_log_is_taken_as_it_was_when_it_was_elected() -> None:
    leader = as_elected(log(2, (0, 70), (9, 80)), offline_epoch=8)
    assert (leader.log_end, leader.last_written_epoch) == (70, 0)
