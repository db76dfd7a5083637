"""What is saved of each replica: tables, and every record of small logs counted by brute force."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import StorageError
from breakglass.services.model import LogDir, PartitionEvidence, Role, TopicPartition, Unknown
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.ranking import readable
from breakglass.services.recovery.rescue.spans import (
    BYTES_A_RECORD,
    MARGIN,
    RESERVE_BYTES,
    AtRisk,
    Share,
    Span,
    at_risk_of_return,
    estimate,
    newest_within,
    require_reserve,
    shares_of,
    without_room,
)
from tests.unit.recovery.histories import (
    Record,
    SimulatedCluster,
    simulated_clusters,
    with_recent_epochs,
)
from tests.unit.recovery.notation import blocks, incident
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import PLAIN, log, offline, silent

Spans = dict[int, list[tuple[int, int]]]
"""By broker."""


LOSSES = blocks("losses.txt")


def shares(evidence: PartitionEvidence, designee: int) -> tuple[Share, ...]:
    found = shares_of(AtRisk(evidence, designee))
    assert not isinstance(found, Unknown), found.reason
    return found


def spans(evidence: PartitionEvidence, designee: int) -> Spans:
    return {
        share.replica.broker: [(span.start, span.end) for span in share.spans]
        for share in shares(evidence, designee)
    }


@pytest.mark.parametrize(("given", "loss", "saved"), LOSSES.values(), ids=LOSSES)
def test_each_losing_replica_gives_what_the_election_cuts_off(
    given: str, loss: str, saved: str
) -> None:
    found = spans(incident(given).evidence, int(loss.split()[0].removeprefix("b")))
    taken = [f"b{broker} {start}-{end}" for broker in found for start, end in found[broker]]
    assert saved == f"saved: {', '.join(taken) or 'nothing'}"


@pytest.mark.parametrize(
    ("tiered", "expected"), [(True, {}), (Unknown("settings were not read"), {2: [(10, 40)]})]
)
def test_remote_storage_keeps_the_head_of_a_topic_that_is_known_to_be_tiered(
    tiered: bool | Unknown, expected: Spans
) -> None:
    replicas = log(1, (0, 100), start=40), log(2, (0, 100), start=10)
    assert spans(offline(*replicas, settings=replace(PLAIN, tiered=tiered)), 1) == expected


def test_where_the_chosen_log_start_is_unknown_all_before_its_end_may_be_a_head() -> None:
    chosen = replace(log(1, (0, 100), start=40), log_start=Unknown("not told"))
    assert spans(offline(chosen, log(2, (0, 100), start=10)), 1) == {2: [(10, 100)]}


def records_of(cluster: SimulatedCluster, taken: tuple[Share, ...]) -> list[Record]:
    """(epoch, offset) of everything in the spans, read from the disks."""
    disks = {disk.broker: disk for disk in cluster.disks}
    return [
        (disks[share.replica.broker].epochs[offset], offset)
        for share in taken
        for span in share.spans
        for offset in range(span.start, span.end)
    ]


@given(simulated_clusters())
def test_exactly_what_only_losers_hold_is_taken_and_each_record_once(
    cluster: SimulatedCluster,
) -> None:
    evidence = cluster.evidence()
    for chosen in cluster.disks:
        lost = cluster.lost_without(chosen)
        taken = shares(evidence, chosen.broker)
        found = records_of(cluster, taken)
        assert sum(share.offsets for share in taken) == len(found)
        if isinstance(loss_of(evidence, chosen.broker).total, Unknown):
            assert lost <= set(found)
        else:
            assert sorted(found) == sorted(lost)


@given(simulated_clusters(), st.lists(st.integers(1, 2), min_size=4, max_size=4))
def test_knowing_less_never_saves_less(cluster: SimulatedCluster, counts: list[int]) -> None:
    whole = cluster.evidence()
    partly = replace(whole, replicas=tuple(map(with_recent_epochs, whole.replicas, cycle(counts))))
    for chosen in cluster.disks:
        lost = cluster.lost_without(chosen)
        assert lost <= set(records_of(cluster, shares(partly, chosen.broker)))


@given(partitions())
def test_something_is_taken_wherever_the_loss_is_not_known_to_be_nothing(
    evidence: PartitionEvidence,
) -> None:
    for designee in evidence.state.assignment:
        found = shares_of(AtRisk(evidence, designee))
        loss = loss_of(evidence, designee).total
        if isinstance(loss, int):
            # Its own records past a corrupt batch are lost to consumers, and stay on its disk.
            chosen = evidence.replica(designee)
            own = chosen is not None and readable(chosen) is not chosen
            assert found == () if loss == 0 else found != () or own


ORDERS = TopicPartition("orders", 3)


def tail(topic: str = "orders", *, size: int | Unknown | None = 150_000) -> tuple[Share, ...]:
    """A tail of 50 records on a replica of 100 more, whose log takes *size* bytes."""
    unread = Unknown("not allowed: needs DESCRIBE on CLUSTER")
    told = unread if size is None else LogDir("/kafka", online=True, size=size)
    found = shares_of(
        AtRisk(offline(log(1, (0, 100)), replace(log(2, (0, 150)), log_dir=told), topic=topic), 1)
    )
    assert not isinstance(found, Unknown)
    return found


@pytest.mark.parametrize("size", [None, Unknown("not told")])
def test_a_log_of_unknown_size_has_no_estimate(size: int | Unknown | None) -> None:
    (share,) = tail(size=size)
    assert isinstance(estimate(share), Unknown)


def test_what_does_not_fit_is_refused_with_both_figures_and_the_folder(tmp_path: Path) -> None:
    refused = without_room({ORDERS: tail(size=90 * 10**9)}, tmp_path, lambda _: 10**9)
    assert set(refused) == {ORDERS}
    assert all(part in refused[ORDERS] for part in ("36,001 MB", "933 MB", str(tmp_path)))


def test_a_disk_below_its_reserve_takes_nothing_not_even_of_unknown_size(tmp_path: Path) -> None:
    refused = without_room({ORDERS: tail(size=None)}, tmp_path, lambda _: RESERVE_BYTES - 1)
    assert set(refused) == {ORDERS}


def test_the_reserve_is_kept_while_a_rescue_is_under_way(tmp_path: Path) -> None:
    require_reserve(tmp_path, lambda _: RESERVE_BYTES)
    with pytest.raises(StorageError):
        require_reserve(tmp_path, lambda _: RESERVE_BYTES - 1)


def whole(number: int, end: int, a_record: int = 1_000) -> tuple[Share, ...]:
    """All of a log of *end* records, which an unread leader that returns may cut."""
    size = LogDir("/kafka", online=True, size=end * (a_record - BYTES_A_RECORD))
    held = replace(log(2, (0, end)), log_dir=size)
    risk = at_risk_of_return(offline(silent(1, role=Role.ELR), held, number=number), 1)
    assert risk is not None
    found = shares_of(risk)
    assert not isinstance(found, Unknown)
    return found


def name(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def bytes_of(records: int) -> int:
    return int(records * 1_000 * MARGIN)


def test_r26_the_newest_records_are_saved_first_and_the_rest_is_named() -> None:
    kept, left = newest_within({name(0): whole(0, 100)}, bytes_of(30))
    assert [share.spans for share in kept[name(0)]] == [(Span(70, 100),)]
    (out,) = left[name(0)]
    assert (out.broker, out.spans) == (2, (Span(0, 70),))
    assert str(out) == "offsets 0-69 of b2"


def test_a_large_log_leaves_room_for_the_small_ones() -> None:
    kept, left = newest_within({name(0): whole(0, 10_000), name(1): whole(1, 50)}, bytes_of(150))
    assert [share.spans for share in kept[name(1)]] == [(Span(0, 50),)]
    assert [share.spans for share in kept[name(0)]] == [(Span(9_900, 10_000),)]
    assert list(left) == [name(0)]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=5), st.integers(0, 1_000_000))
def test_what_is_kept_and_what_is_left_out_is_all_and_no_more_than_the_budget(
    ends: list[int], budget: int
) -> None:
    shares = {name(number): whole(number, end) for number, end in enumerate(ends)}
    kept, left = newest_within(shares, budget)
    for partition, held in shares.items():
        saved = sum(share.offsets for share in kept.get(partition, ()))
        rest = sum(span.offsets for out in left.get(partition, ()) for span in out.spans)
        assert saved + rest == held[0].offsets
        assert bool(rest) == (partition in left) or rest == 0
    assert sum(bytes_of(s.offsets) for held in kept.values() for s in held) <= budget + len(ends)
