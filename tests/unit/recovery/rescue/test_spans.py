"""What is saved of each replica: tables, and every record of small logs counted by brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.ranking import readable
from breakglass.services.recovery.rescue.spans import AtRisk, Share, shares_of
from tests.unit.recovery.histories import (
    Record,
    SimulatedCluster,
    simulated_clusters,
    with_recent_epochs,
)
from tests.unit.recovery.notation import incident
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import PLAIN, log, offline, without_epochs

Spans = dict[int, list[tuple[int, int]]]
"""By broker."""


def shares(evidence: PartitionEvidence, designee: int) -> tuple[Share, ...]:
    found = shares_of(AtRisk(evidence, designee))
    assert not isinstance(found, Unknown), found.reason
    return found


def spans(evidence: PartitionEvidence, designee: int) -> Spans:
    return {
        share.replica.broker: [(span.start, span.end) for span in share.spans]
        for share in shares(evidence, designee)
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("b1 0:100, b2 0:100", {}, id="nothing is cut off"),
        pytest.param("b1 0:100, b2 0:150", {2: [(100, 150)]}, id="a tail"),
        pytest.param(
            "b1 0:100 2:125, b2 0:100 1:150, b3 down",
            {2: [(100, 150)]},
            id="the tail past the divergence, though the log is longer by less",
        ),
        pytest.param("b1 0:100 from40, b2 0:100 from10", {2: [(10, 40)]}, id="a head"),
        pytest.param(
            "b1 0:100 from40, b2 0:120 from10", {2: [(10, 40), (100, 120)]}, id="head and tail"
        ),
        pytest.param(
            "b1 0:100 from60, b2 0:50 from5",
            {2: [(5, 50)]},
            id="a log that ends before the chosen one starts",
        ),
        pytest.param("b1 empty, b2 0:80, b3 0:60", {2: [(0, 80)]}, id="the chosen is EMPTY"),
        pytest.param(
            "b1 0:100, b2 0:130, b3 0:150",
            {3: [(100, 150)]},
            id="what a longer replica holds too is taken once",
        ),
        pytest.param(
            "b1 0:9 5:12, b2 0:9 1:20, b3 0:9 2:30",
            {2: [(9, 20)], 3: [(9, 30)]},
            id="tails of different lineages are both taken",
        ),
        pytest.param(
            "b1 0:9, b2 0:20 1:30, b3 0:20 2:40",
            {2: [(20, 30)], 3: [(9, 40)]},
            id="the common part of two tails once, then each its own",
        ),
        pytest.param("b1 hung, b2 0:9", {2: [(0, 9)]}, id="the chosen is unread"),
        pytest.param("b1 0:9, b2 down", {}, id="an unread replica has no share"),
        pytest.param(
            "b1 0:9, b2 0:20, b3 0:30 | compacted",
            {2: [(9, 20)], 3: [(9, 30)]},
            id="replicas of a compacted topic clean for themselves, so each is taken",
        ),
        pytest.param(
            "b1 0:100, b2 end90", {2: [(0, 90)]}, id="the whole log where it parts unknown"
        ),
        pytest.param(
            "b1 0:120 corrupt40, b3 0:100", {3: [(40, 100)]}, id="what a corrupt one cannot serve"
        ),
    ],
)
def test_each_losing_replica_gives_what_the_election_of_b1_cuts_off(
    given: str, expected: Spans
) -> None:
    assert spans(incident(given).evidence, 1) == expected


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


def test_a_log_that_does_not_tell_its_start_cannot_be_taken_and_says_why() -> None:
    why = Unknown("b2 did not tell its log start")
    evidence = offline(log(1, (0, 100)), replace(without_epochs(2, 90), log_start=why))
    assert shares_of(AtRisk(evidence, 1)) == why


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
def test_spans_lie_within_their_logs_rise_and_do_not_touch(evidence: PartitionEvidence) -> None:
    for designee in evidence.state.assignment:
        found = shares_of(AtRisk(evidence, designee))
        for share in () if isinstance(found, Unknown) else found:
            bounds = [bound for span in share.spans for bound in (span.start, span.end)]
            assert bounds == sorted(set(bounds))
            assert share.replica.broker != designee
            assert share.replica.log_start <= bounds[0]  # type: ignore[operator]
            assert bounds[-1] <= share.replica.log_end  # type: ignore[operator]


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
