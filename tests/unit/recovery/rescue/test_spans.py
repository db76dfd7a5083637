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
from tests.unit.recovery.notation import blocks, incident
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import PLAIN, log, offline, without_epochs

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
