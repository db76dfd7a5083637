"""Elections that cost records: who is told of, how many records, and who still has them."""

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.incident.elections_seen import (
    ElectionSeen,
    LogFate,
    Observations,
    ReplicaAhead,
    alarm_lines,
    election_seen,
    followed,
    unacknowledged,
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


EMPTY = offline(log(1, role=LAST), log(2, (0, 103), hw=100), log(3, (0, 100), hw=100))
SHORTER = offline(log(1, (0, 103), hw=70), log(2, (0, 70), hw=70), silent(3, role=LAST))
ELECTED = EMPTY.state.leader_epoch + 1
BEHIND = (log(1, (0, 103), hw=90), log(2, (0, 70), role=Role.ISR))
PARTED = (log(1, (0, 100), (3, 110)), log(2, (0, 90), (1, 150), hw=90))
RANKED = (log(1, (0, 10), (5, 12), role=LAST), log(2, (0, 1000), hw=1000))


@pytest.mark.parametrize(
    ("before", "leader", "best", "log_end", "missing"),
    [
        (SHORTER, log(2, (0, 70)), 1, 70, 33),
        (SHORTER, log(2, (0, 70), (ELECTED, 500)), 1, 70, 33),
        (offline(*PARTED), PARTED[1], 1, 150, 20),
        (offline(*BEHIND), BEHIND[1], 1, 70, 33),
        (offline(*RANKED), RANKED[0], 2, 12, 990),
    ],
    ids=[
        "it is shorter",
        "it has written since",
        "it has parted",
        "it lacks committed records, though it was in the ISR",
        "R09: it ranked first and lacks committed records",
    ],
)
def test_a_leader_is_seen_that_lacks_records_of_a_log_that_was_read(
    before: PartitionEvidence, leader: ReplicaLog, best: int, log_end: int, missing: int
) -> None:
    found = seen(before, leader)
    assert found is not None
    assert (found.best, found.log_end, found.missing) == (best, log_end, missing)


def in_sync(role: Role) -> PartitionEvidence:
    return offline(log(1, (0, 103), hw=70), log(2, (0, 70), role=role))


@pytest.mark.parametrize(
    ("before", "leader"),
    [
        (SHORTER, log(1, (0, 103))),
        (SHORTER, log(3, (0, 120), role=LAST)),
        (in_sync(Role.ISR), log(2, (0, 70), role=Role.ISR)),
        (in_sync(Role.ELR), log(2, (0, 70), role=Role.ELR)),
    ],
    ids=[
        "the best log",
        "a longer log that was never read",
        "clean, of the ISR: the tail was uncommitted",
        "clean, of the ELR: the tail was uncommitted",
    ],
)
def test_another_leader_is_no_alarm(before: PartitionEvidence, leader: ReplicaLog) -> None:
    assert seen(before, leader) is None


def test_a_log_that_was_read_once_counts_though_its_broker_went_down() -> None:
    later = offline(silent(1), log(2, (0, 70), hw=70))
    assert seen(later, log(2, (0, 70))) is None
    found = seen(later, log(2, (0, 70)), log(1, (0, 103), hw=70))
    assert found is not None
    assert (found.best, found.missing) == (1, 33)


def test_a_topic_made_anew_is_another_one() -> None:
    now = replace(SHORTER.state, topic_id=ANOTHER_TOPIC_ID, leader=2, leader_epoch=ELECTED)
    assert election_seen(witnessed(SHORTER), now, log(2, (0, 70)), SEEN_AT_MS) is None


def shorter_elected() -> ElectionSeen:
    found = seen(SHORTER, log(2, (0, 70)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("again", "fate"),
    [
        (log(1, (0, 70), (ELECTED, 500)), LogFate.TRUNCATED),
        (log(1, (0, 70)), LogFate.TRUNCATED),
        (log(1, (0, 103)), LogFate.RUNNING),
    ],
)
def test_a_holder_that_is_read_again_runs_with_the_records_or_was_truncated(
    again: ReplicaLog, fate: LogFate
) -> None:
    one = followed(shorter_elected(), {1: again})
    assert [holder.kept for holder in one.holders] == [fate]
    if fate is LogFate.TRUNCATED:
        assert [holder.kept for holder in followed(one, {1: None}).holders] == [fate]


def test_r02_the_alarm_says_who_leads_what_is_missing_and_who_still_holds_it() -> None:
    empty = seen(EMPTY, log(1, role=LAST))
    assert empty is not None
    short = shorter_elected()
    lines = [
        alarm_lines([followed(empty, {2: log(2, (0, 103)), 3: log(3, (0, 100))})])[0],
        alarm_lines([followed(empty, {2: log(2), 3: log(3)})])[0],
        alarm_lines([followed(short, {1: None})])[0],
        alarm_lines([followed(short, {1: log(1, (0, 103))})])[0],
    ]
    assert lines == [
        "b1 was elected EMPTY, seen at 23:02:51Z: orders-3 went from 103 to 0; stop the "
        "brokers that still hold a log: b2, b3",
        "b1 was elected EMPTY, seen at 23:02:51Z: orders-3 went from 103 to 0; b2 and b3 have "
        "been truncated",
        "orders-3 was elected by somebody else, seen at 23:02:51Z: b2 leads with 70 records, "
        "b1 had 103; 33 records are only on b1, not truncated yet; do not start b1 before its "
        "log folders are saved: it holds them",
        "orders-3 was elected by somebody else, seen at 23:02:51Z: b2 leads with 70 records, "
        "b1 had 103; 33 records are only on b1, not truncated yet; stop the brokers that still "
        "hold them: b1",
    ]


CLUSTER = "Kx/3=="
SEEN = ElectionSeen(
    TopicPartition("orders", 3), "an-id", 2, 6, 5_000, 70, False, 1, 103, 33, False,
    (ReplicaAhead(1, 103, 0, LogFate.DOWN),),
)  # fmt: skip
CUT = replace(SEEN, seen_at_ms=9_000, holders=(ReplicaAhead(1, 103, 0, LogFate.TRUNCATED),))


@pytest.fixture
def store(tmp_path: Path) -> Observations:
    return Observations(CLUSTER, tmp_path)


def test_one_election_counts_once_from_when_it_was_first_seen(store: Observations) -> None:
    store.add([SEEN])
    store.add([CUT])
    (one,) = store.load()
    assert (one.seen.seen_at_ms, one.seen.holders) == (5_000, CUT.holders)


def test_an_acknowledgement_counts_for_what_was_seen_and_is_kept(store: Observations) -> None:
    later = replace(SEEN, leader_epoch=8)
    store.add([SEEN])
    store.acknowledge([SEEN.key])
    store.add([CUT, later])
    assert list(unacknowledged(store.load())) == [later]


def test_lines_that_cannot_be_read_are_passed_over(store: Observations) -> None:
    store.add([SEEN])
    with store.path.open("ab") as file:
        file.write(b'{"schema": 99, "kind": "observed"}\n[]\n{"schema": 1, "ki')
    later = replace(SEEN, leader_epoch=8, seen_at_ms=8_000)
    store.add([later])
    assert [observation.seen for observation in store.load()] == [later, SEEN]
