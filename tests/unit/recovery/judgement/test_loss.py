"""What a choice costs: tables for R9, R10, R11, and a count of every record by brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import (
    EpochHistory,
    PartitionEvidence,
    ReplicaLog,
    TopicSettings,
    Unknown,
)
from breakglass.services.recovery.judgement.loss import Loss, loss_of, unread_bound
from breakglass.services.recovery.judgement.records import NO_RECORDS, RecordCounts
from tests.unit.recovery.histories import (
    Disk,
    Record,
    SimulatedCluster,
    simulated_clusters,
    with_recent_epochs,
)
from tests.unit.recovery.replicas import PLAIN, log, offline, silent, without_epochs


def counted(loss: Loss) -> tuple[object, object, object]:
    return loss.records.total, loss.records.committed, loss.records.uncommitted


@pytest.mark.parametrize(
    ("replicas", "chosen", "expected"),
    [
        pytest.param([log(1, (0, 100)), log(2, (0, 100))], 1, (0, 0, 0), id="nothing"),
        pytest.param([log(1, (0, 100)), log(2, (0, 150), hw=120)], 1, (50, 20, 30), id="a tail"),
        pytest.param(
            [log(1, (0, 100), (2, 125)), log(2, (0, 100), (1, 150), hw=100)],
            1,
            (50, 0, 50),
            id="a fork, uncommitted",
        ),
        pytest.param(
            [log(1, (0, 100)), log(2, (0, 150), hw=100), log(3, (0, 130), hw=110)],
            1,
            (50, 10, 40),
            id="two losers share their tail: counted once, committed by either",
        ),
        pytest.param(
            [log(1, (0, 9), (5, 12)), log(2, (0, 9), (1, 20)), log(3, (0, 9), (2, 30))],
            1,
            (32, 32, 0),
            id="two losers of different lineages: both counted",
        ),
        pytest.param(
            [log(1), log(2, (1, 10)), log(3, (1, 4), (2, 6), start=2), log(4, (1, 10))],
            1,
            (12, 12, 0),
            id="three losers, one overlap within another",
        ),
        pytest.param([log(1), log(2, (0, 80)), log(3, (0, 60))], 1, (80, 80, 0), id="an EMPTY one"),
        pytest.param([log(1, (0, 80)), log(2), silent(3)], 1, (0, 0, 0), id="EMPTY losers"),
    ],
)
def test_loss_counts_the_distinct_records_that_only_others_hold(
    replicas: list[ReplicaLog], chosen: int, expected: tuple[int, int, int]
) -> None:
    assert counted(loss_of(offline(*replicas), chosen)) == expected


def test_r09_loss_is_split_at_the_losers_high_watermark() -> None:
    loss = loss_of(offline(log(1, (5, 3)), log(2, (0, 1000), hw=900)), 1)
    assert counted(loss) == (1000, 900, 100)
    assert loss.committed_elsewhere is True


def test_r09_an_unknown_high_watermark_leaves_the_total_known_and_the_split_unknown() -> None:
    why = Unknown("b2 came back from kill -9 with high watermark 0")
    loss = loss_of(offline(log(1, (0, 100), (2, 110)), log(2, (0, 100), (1, 150), hw=why)), 1)
    assert counted(loss) == (50, why, why)
    assert loss.committed_elsewhere == why


def test_r09_another_holder_settles_what_an_unknown_high_watermark_leaves_open() -> None:
    why = Unknown("high watermark 0 after kill -9")
    loss = loss_of(offline(log(1, (0, 9)), log(2, (0, 20), hw=why), log(3, (0, 20), hw=20)), 1)
    assert counted(loss) == (11, 11, 0)


def test_r10_the_head_before_the_chosen_log_start_is_lost_too() -> None:
    loss = loss_of(offline(log(1, (0, 100), start=40), log(2, (0, 110), start=10, hw=105)), 1)
    assert loss.tail == RecordCounts(10, 5, 5)
    assert loss.head == RecordCounts(30, 30, 0)
    assert loss.total == 40


def test_r10_a_log_that_ends_before_the_chosen_one_starts_is_lost_whole() -> None:
    loss = loss_of(offline(log(1, (0, 100), start=60), log(2, (0, 50), start=5)), 1)
    against = loss.of(2)
    assert against is not None
    assert against.whole_log
    assert (loss.head.total, loss.tail.total) == (45, 0)


def test_r10_a_log_that_ends_where_the_chosen_one_starts_is_within_its_range() -> None:
    """The follower fetches on from there; its records go when it raises its log start."""
    loss = loss_of(offline(log(1, (0, 100), start=60), log(2, (0, 60), start=5)), 1)
    against = loss.of(2)
    assert against is not None
    assert not against.whole_log
    assert loss.head.total == 55


def test_a_tail_begins_no_earlier_than_the_losing_log() -> None:
    assert loss_of(offline(log(1, (0, 40)), log(2, (0, 110), start=60)), 1).total == 50


def test_r10_the_head_needs_no_epochs_where_one_replica_holds_it() -> None:
    longer = with_recent_epochs(log(2, (0, 50), (3, 90), start=10), 1)
    loss = loss_of(offline(log(1, (0, 50), (3, 90), start=30), longer), 1)
    assert loss.total == 20


def test_r10_remote_storage_keeps_the_head_of_a_tiered_topic() -> None:
    replicas = log(1, (0, 100), start=40), log(2, (0, 100), start=10)
    assert loss_of(offline(*replicas, settings=replace(PLAIN, tiered=True)), 1).total == 0
    untold = replace(PLAIN, tiered=Unknown("not read"))
    assert loss_of(offline(*replicas, settings=untold), 1).total == Unknown("not read")


def test_r10_an_unknown_log_start_makes_the_head_unknown_and_not_the_tail() -> None:
    why = Unknown("b2 did not tell its log start")
    loss = loss_of(
        offline(log(1, (0, 100), start=40), replace(log(2, (0, 110), start=10), log_start=why)), 1
    )
    assert loss.head.total == why
    assert loss.tail.total == 10
    assert loss.total == why


@pytest.mark.parametrize("compacted", [True, Unknown("settings were not read")])
def test_r10_offsets_of_compacted_topics_count_records_only_about(
    compacted: bool | Unknown,
) -> None:
    settings = TopicSettings(1, False, compacted, False)
    assert loss_of(offline(log(1, (0, 9)), settings=settings), 1).approximate
    assert not loss_of(offline(log(1, (0, 9))), 1).approximate


def test_unknown_epochs_make_the_loss_unknown_with_the_reason() -> None:
    loss = loss_of(offline(log(1, (0, 100)), without_epochs(2, 90)), 1)
    assert loss.total == Unknown("b2: READ on the topic is missing")


def test_choosing_an_unread_or_unassigned_replica_has_an_unknown_loss() -> None:
    evidence = offline(log(1, (0, 9)), silent(2))
    assert loss_of(evidence, 2).total == Unknown("b2 does not answer (connection refused)")
    assert loss_of(evidence, 7).total == Unknown("b7 is not assigned")


def test_each_other_replica_has_its_own_column_in_the_order_of_the_assignment() -> None:
    evidence = offline(log(2, (0, 100), (1, 150), hw=100), log(1, (0, 100), (2, 125)), silent(3))
    (only,) = loss_of(evidence, 1).against
    assert (only.broker, only.divergence, only.tail, only.both_sides) == (2, 100, 50, True)


def test_r11_unread_replicas_give_a_lower_bound_past_everything_readable() -> None:
    unread = unread_bound(offline(log(1, (0, 100)), log(2, (0, 90)), silent(3), floor=125))
    assert (unread.replicas, unread.at_least, unread.source) == ((3,), 25, "group billing")


def test_r11_records_on_a_failed_disk_are_unread() -> None:
    failed = silent(3, fenced=False, log_dir_online=False)
    unread = unread_bound(offline(log(1, (0, 100)), failed, floor=125))
    assert (unread.replicas, unread.at_least) == ((3,), 25)
    assert isinstance(unread_bound(offline(log(1, (0, 100)), failed)).at_least, Unknown)


def test_r11_the_bound_is_never_part_of_the_loss() -> None:
    evidence = offline(log(1, (0, 100)), silent(2), floor=125)
    assert loss_of(evidence, 1).records == NO_RECORDS


def test_r11_without_any_known_offset_the_bound_is_unknown_not_zero() -> None:
    unread = unread_bound(offline(log(1, (0, 100)), silent(2)))
    assert unread.at_least == Unknown("consumer groups were not read")


def test_r11_nothing_is_unread_when_every_replica_has_answered() -> None:
    assert unread_bound(offline(log(1, (0, 100)), log(2, (0, 90)))).at_least == 0


def test_r11_offsets_committed_past_every_replica_are_told_even_if_all_have_answered() -> None:
    unread = unread_bound(offline(log(1, (0, 100)), log(2, (0, 90)), floor=103))
    assert (unread.replicas, unread.at_least) == ((), 3)


def lost_records(disks: list[Disk], chosen: Disk) -> set[Record]:
    others = (disk.records for disk in disks if disk is not chosen)
    return set().union(*others) - chosen.records


def committed_records(disks: list[Disk], chosen: Disk) -> set[Record]:
    below = [
        {(epoch, offset) for epoch, offset in disk.records if offset < disk.hw}
        for disk in disks
        if disk is not chosen
    ]
    return lost_records(disks, chosen) & set().union(*below)


@given(simulated_clusters())
def test_loss_agrees_with_counting_every_record(cluster: SimulatedCluster) -> None:
    evidence = cluster.evidence()
    for chosen in cluster.disks:
        lost = lost_records(cluster.disks, chosen)
        committed = committed_records(cluster.disks, chosen)
        loss = loss_of(evidence, chosen.broker)
        if isinstance(loss.total, Unknown):
            assert out_of_order(cluster.disks)
            continue
        assert counted(loss) == (len(lost), len(committed), len(lost) - len(committed))
        assert loss.head.total == sum(offset < chosen.start for _, offset in lost)


@given(simulated_clusters(), st.lists(st.integers(1, 2), min_size=4, max_size=4))
def test_shorter_histories_never_give_a_wrong_loss(
    cluster: SimulatedCluster, counts: list[int]
) -> None:
    whole = cluster.evidence()
    partly = replace(
        whole,
        replicas=tuple(map(with_recent_epochs, whole.replicas, counts)),
    )
    for chosen in cluster.disks:
        total = loss_of(partly, chosen.broker).total
        if isinstance(total, int):
            assert total == len(lost_records(cluster.disks, chosen))


@given(simulated_clusters(), st.permutations([0, 1, 2, 3]))
def test_the_order_of_replicas_does_not_change_a_loss(
    cluster: SimulatedCluster, order: list[int]
) -> None:
    evidence = cluster.evidence()
    shuffled = offline(*(evidence.replicas[place] for place in order))
    for chosen in cluster.disks:
        whole, turned = loss_of(evidence, chosen.broker), loss_of(shuffled, chosen.broker)
        assert known_counts(turned) == known_counts(whole)


def known_counts(loss: Loss) -> list[int | None]:
    """None for Unknown: of several reasons, the order of replicas may choose the one given."""
    records = loss.records
    counts = (records.total, records.committed, records.uncommitted)
    return [count if isinstance(count, int) else None for count in counts]


def out_of_order(disks: list[Disk]) -> bool:
    """Two logs without a common offset, the lower one of a later epoch: no log can hold both."""
    held = [disk for disk in disks if disk.records]
    return any(
        low.end <= high.start and low.epochs[low.end - 1] > high.epochs[high.start]
        for low in held
        for high in held
    )


def test_evidence_of_one_replica_loses_nothing() -> None:
    assert loss_of(offline(log(1, (0, 9))), 1).against == ()


def test_losers_whose_common_records_are_not_known_are_never_counted_once() -> None:
    """b1, the third, parts from b3 where its own log begins; b2 and b3 parted before."""
    longer = with_recent_epochs(log(2, (0, 1), (1, 2)), 1)
    evidence = offline(log(1, (1, 2), start=1), longer, log(3, (2, 2)), log(4))
    assert isinstance(loss_of(evidence, 1).total, Unknown)
    assert isinstance(loss_of(evidence, 4).total, Unknown)


def test_histories_unread_on_all_sides_leave_equal_ends_unforked_but_the_loss_unknown() -> None:
    evidence: PartitionEvidence = offline(without_epochs(1, 50), without_epochs(2, 50))
    loss = loss_of(evidence, 1)
    assert isinstance(loss.total, Unknown)
    assert loss.committed_elsewhere is False


def test_a_log_of_records_without_epochs_has_an_unknown_loss() -> None:
    ancient = replace(log(2, (0, 50)), epochs=EpochHistory((), 0))
    assert isinstance(loss_of(offline(log(1, (0, 40)), ancient), 1).total, Unknown)
