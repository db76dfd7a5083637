"""What a choice costs: tables for R9, R10, R11, and a count of every record by brute force."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import EpochHistory, TopicSettings, Unknown
from breakglass.services.recovery.judgement.lineage import NO_RECORDS, Count, RecordCounts
from breakglass.services.recovery.judgement.loss import Loss, loss_of, unread_bound
from tests.unit.recovery.histories import (
    Disk,
    Record,
    SimulatedCluster,
    simulated_clusters,
    with_recent_epochs,
)
from tests.unit.recovery.notation import MARK_LOST, blocks, incident
from tests.unit.recovery.replicas import PLAIN, log, offline

LOSSES = blocks("losses.txt")


def counted(loss: Loss) -> tuple[Count, Count, Count]:
    return loss.records.total, loss.records.committed, loss.records.unproven


def said(count: Count) -> str:
    return "?" if isinstance(count, Unknown) else str(count)


@pytest.mark.parametrize(("given", "loss"), [rows[:2] for rows in LOSSES.values()], ids=LOSSES)
def test_r09_loss_counts_the_distinct_records_that_only_others_hold(given: str, loss: str) -> None:
    """Their number, then how many of them are committed."""
    evidence = incident(given).evidence
    found = loss_of(evidence, int(loss.split()[0].removeprefix("b")))
    total, committed, unproven = counted(found)
    assert loss == f"b{found.candidate} loses {said(total)}, {said(committed)} of them committed"
    if isinstance(total, int) and isinstance(committed, int):
        assert unproven == total - committed
        in_others_tails = found.tail.committed != 0 and found.against != ()
        assert (found.committed_elsewhere is True) is in_others_tails


def test_r09_an_unknown_high_watermark_leaves_the_total_known_and_the_split_unknown() -> None:
    loss = loss_of(incident("b1 0:100 2:110, b2 0:100 1:150 hw?").evidence, 1)
    assert counted(loss) == (50, MARK_LOST, MARK_LOST)
    assert loss.committed_elsewhere == MARK_LOST


@pytest.mark.parametrize(
    ("given", "chosen", "head", "tail"),
    [
        pytest.param(
            "b1 0:100 from40, b2 0:110 from10 hw105", 1, (30, 30, 0), (10, 5, 5), id="both"
        ),
        pytest.param(
            "b1 0:100 from60, b2 0:50 from5", 1, (45, 45, 0), (0, 0, 0), id="it ends before"
        ),
        pytest.param(
            "b1 0:100 from60, b2 0:60 from5", 1, (55, 55, 0), (0, 0, 0), id="it ends there"
        ),
        pytest.param(
            "b2 0:120 from20 corrupt40, b3 0:100", 2, (20, 20, 0), (80, 80, 0), id="a corrupt tail"
        ),
    ],
)
def test_r10_the_head_before_the_chosen_log_start_is_lost_too(
    given: str, chosen: int, head: tuple[int, int, int], tail: tuple[int, int, int]
) -> None:
    loss = loss_of(incident(given).evidence, chosen)
    assert (loss.head, loss.tail) == (RecordCounts(*head), RecordCounts(*tail))
    assert loss.total == head[0] + tail[0]


@pytest.mark.parametrize(("end", "whole"), [(50, True), (60, False)])
def test_r10_a_log_that_ends_before_the_chosen_one_starts_is_lost_whole(
    end: int, whole: bool
) -> None:
    """One that ends where it starts fetches on; its records go when it raises its log start."""
    against = loss_of(offline(log(1, (0, 100), start=60), log(2, (0, end), start=5)), 1).of(2)
    assert against is not None
    assert against.whole_log is whole


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
    why = Unknown("not told")
    other = replace(log(2, (0, 110), start=10), log_start=why)
    loss = loss_of(offline(log(1, (0, 100), start=40), other), 1)
    assert (loss.head.total, loss.tail.total, loss.total) == (why, 10, why)


@pytest.mark.parametrize("compacted", [True, Unknown("settings were not read")])
def test_r10_offsets_of_compacted_topics_count_records_only_about(
    compacted: bool | Unknown,
) -> None:
    settings = TopicSettings(1, False, compacted, False)
    logs = log(1, (0, 9)), log(2, (0, 12))
    assert loss_of(offline(*logs, settings=settings), 1).approximate
    assert not loss_of(offline(*logs), 1).approximate
    assert not loss_of(offline(*logs, settings=settings), 2).approximate, "0 is exact"


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        pytest.param("b1 0:100, b2 end90", 1, id="epochs of another were not read"),
        pytest.param("b1 end50, b2 end50", 1, id="no epochs were read"),
        pytest.param("b1 0:9, b2 down", 2, id="the chosen one was not read"),
        pytest.param("b1 0:9, b2 down", 7, id="the chosen one is not assigned"),
    ],
)
def test_what_was_not_read_makes_the_loss_unknown(given: str, chosen: int) -> None:
    assert isinstance(loss_of(incident(given).evidence, chosen).total, Unknown)


def test_a_log_of_records_without_epochs_has_an_unknown_loss() -> None:
    ancient = replace(log(2, (0, 50)), epochs=EpochHistory((), 0))
    assert isinstance(loss_of(offline(log(1, (0, 40)), ancient), 1).total, Unknown)


def test_losers_whose_common_records_are_not_known_are_never_counted_once() -> None:
    """b1, the third, parts from b3 where its own log begins; b2 and b3 parted before."""
    longer = with_recent_epochs(log(2, (0, 1), (1, 2)), 1)
    evidence = offline(log(1, (1, 2), start=1), longer, log(3, (2, 2)), log(4))
    assert isinstance(loss_of(evidence, 1).total, Unknown)
    assert isinstance(loss_of(evidence, 4).total, Unknown)


@pytest.mark.parametrize(
    ("given", "unread", "at_least"),
    [
        pytest.param("b1 0:100, b2 0:90, b3 down | floor 125", (3,), 25, id="a group read on"),
        pytest.param("b1 0:100, b3 hung no-dir | floor 125", (3,), 25, id="on a failed disk"),
        pytest.param("b1 0:100, b2 0:90", (), 0, id="every replica has answered"),
        pytest.param("b1 0:100, b2 0:90 | floor 103", (), 3, id="past all, though all answered"),
    ],
)
def test_r11_unread_replicas_give_a_lower_bound_past_everything_readable(
    given: str, unread: tuple[int, ...], at_least: int
) -> None:
    found = unread_bound(incident(given).evidence)
    assert (found.replicas, found.at_least) == (unread, at_least)


@pytest.mark.parametrize("unread", ["b2 down", "b2 hung no-dir"])
def test_r11_without_any_known_offset_the_bound_is_unknown_not_zero(unread: str) -> None:
    found = unread_bound(incident(f"b1 0:100, {unread}").evidence)
    assert isinstance(found.at_least, Unknown)


def test_r11_the_bound_is_never_part_of_the_loss() -> None:
    evidence = incident("b1 0:100, b2 down | floor 125").evidence
    assert loss_of(evidence, 1).records == NO_RECORDS


def committed_records(cluster: SimulatedCluster, chosen: Disk) -> set[Record]:
    others = [disk for disk in cluster.disks if disk is not chosen]
    below = [{record for record in disk.records if record[1] < disk.hw} for disk in others]
    return cluster.lost_without(chosen) & set().union(*below)


@given(simulated_clusters())
def test_loss_agrees_with_counting_every_record(cluster: SimulatedCluster) -> None:
    evidence = cluster.evidence()
    for chosen in cluster.disks:
        lost = cluster.lost_without(chosen)
        committed = committed_records(cluster, chosen)
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
    partly = replace(whole, replicas=tuple(map(with_recent_epochs, whole.replicas, counts)))
    for chosen in cluster.disks:
        total = loss_of(partly, chosen.broker).total
        if isinstance(total, int):
            assert total == len(cluster.lost_without(chosen))


def out_of_order(disks: list[Disk]) -> bool:
    """Two logs without a common offset, the lower one of a later epoch: no log can hold both."""
    held = [disk for disk in disks if disk.records]
    return any(
        low.end <= high.start and low.epochs[low.end - 1] > high.epochs[high.start]
        for low in held
        for high in held
    )
