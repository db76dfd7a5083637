"""Fates of records by offset: tables of small integers, and every record counted by brute force."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import Unknown
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.ledger.entries import (
    CopiedSpan,
    Fate,
    Holdings,
    PartitionCase,
    SettledLogs,
    holdings_of,
    total_of,
)
from breakglass.services.recovery.ledger.settle import settled
from breakglass.services.recovery.rescue.spans import AtRisk, shares_of
from tests.unit.recovery.histories import (
    Disk,
    Record,
    SimulatedCluster,
    simulated_clusters,
    with_recent_epochs,
)
from tests.unit.recovery.notation import incident
from tests.unit.recovery.random_histories import BROKERS, Life, offline_lives, silences
from tests.unit.recovery.replicas import log

KEPT, BACK, RESCUED, LOST = Fate.KEPT, Fate.PUT_BACK, Fate.RESCUED, Fate.LOST
WAITING, UNKNOWN = Fate.WAITING, Fate.UNKNOWN


def case(given: str, leader: int | None = 1, **more: Any) -> PartitionCase:
    return replace(PartitionCase(Holdings(incident(given).evidence.replicas), leader), **more)


def figures(found: SettledLogs) -> Mapping[Fate, int]:
    return {fate: one.total for fate, one in found.sums.items()}


def fates(found: SettledLogs, broker: int) -> list[tuple[int, int, Fate]]:
    (replica,) = (replica for replica in found.replicas if replica.broker == broker)
    joined: list[tuple[int, int, Fate]] = []
    for entry in replica.entries:
        if joined and joined[-1][1:] == (entry.start, entry.fate):
            joined[-1] = (joined[-1][0], entry.end, entry.fate)
        else:
            joined.append((entry.start, entry.end, entry.fate))
    return joined


FORK = "b1 0:100 2:125 hw100, b2 0:100 1:150 hw100"
"""b2's 50 records past 100 are cut off."""
TAIL = CopiedSpan(2, 100, 150)


HEAD, PART, REST = CopiedSpan(2, 0, 15), CopiedSpan(2, 100, 130), CopiedSpan(2, 120, 130)
TIERED = Holdings((log(1, (0, 30), start=20), log(2, (0, 30))), tiered=True)
CASES: dict[str, tuple[PartitionCase, Mapping[Fate, int]]] = {
    "nothing is cut off": (case("b1 0:9, b2 0:9"), {KEPT: 9}),
    "a fork, without rescue": (case(FORK), {KEPT: 125, LOST: 50}),
    "a fork, rescued": (case(FORK, rescued=(TAIL,)), {KEPT: 125, RESCUED: 50}),
    "a rescue that was cut short": (
        case(FORK, rescued=(PART,)),
        {KEPT: 125, RESCUED: 30, LOST: 20},
    ),
    "some put back": (
        case(FORK, rescued=(TAIL,), put_back=(CopiedSpan(2, 100, 110), REST)),
        {KEPT: 125, BACK: 20, RESCUED: 30},
    ),
    "a rescue that is not there any more": (
        case(FORK, doubtful=(replace(TAIL, says="the folder is not there"),)),
        {KEPT: 125, UNKNOWN: 50},
    ),
    "a record of two replicas counts once, and one copy of it is enough": (
        case("b1 0:10, b2 0:10 1:20, b3 0:10 1:15", rescued=(CopiedSpan(2, 10, 20),)),
        {KEPT: 10, RESCUED: 10},
    ),
    "a head before the leader's log start": (
        case("b1 0:30 from20, b2 0:30", rescued=(HEAD,)),
        {KEPT: 10, RESCUED: 15, LOST: 5},
    ),
    "none was elected: nothing is cut off": (
        case(FORK, leader=None, elected=False, rescued=(TAIL,)),
        {WAITING: 175},
    ),
    "it is unknown whether one was elected: copies are there all the same": (
        case(FORK, leader=None, elected=Unknown("no answer"), rescued=(PART,)),
        {RESCUED: 30, UNKNOWN: 145},
    ),
    "the leader was not read": (case(FORK, leader=3), {UNKNOWN: 175}),
    "an empty leader": (case("b1 empty, b2 0:5"), {LOST: 5}),
    "a corrupt batch of the leader ends what is kept": (
        case("b1 0:10 corrupt6, b2 0:8", rescued=(CopiedSpan(2, 6, 8),)),
        {KEPT: 6, RESCUED: 2, LOST: 2},
    ),
    "an unread replica is in no sum": (case("b1 0:9, b3 down"), {KEPT: 9}),
    "remote storage keeps what is before the leader's log": (PartitionCase(TIERED, 1), {KEPT: 30}),
    "a leader that was not read is asked now": (
        case(f"{FORK}, b3 down", leader=3, now=log(3, (0, 100), (1, 140), (5, 150))),
        {KEPT: 140, LOST: 35},
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_each_record_has_one_fate(what: str) -> None:
    given, expected = CASES[what]
    found = settled(given)
    assert figures(found) == expected
    assert found.held == sum(expected.values())
    assert not found.differences


def test_each_offset_of_each_replica_is_accounted_for() -> None:
    found = settled(
        case(
            "b1 0:30 3:40 from20, b2 0:30 2:50 from5, b4 0:12",
            rescued=(CopiedSpan(2, 5, 20), CopiedSpan(2, 35, 50)),
        )
    )
    assert fates(found, 1) == [(20, 40, KEPT)]
    assert fates(found, 2) == [(5, 20, RESCUED), (20, 30, KEPT), (30, 35, LOST), (35, 50, RESCUED)]
    assert fates(found, 4) == [(0, 5, LOST), (5, 12, RESCUED)]


def test_records_whose_identity_is_not_known_are_in_no_sum_and_are_named() -> None:
    found = settled(case("b1 0:10, b2 end30"))
    assert figures(found) == {KEPT: 10}
    assert isinstance(found.held, Unknown)
    assert [one.partition(":")[0] for one in found.uncounted] == ["b2"]
    assert fates(found, 2) == [(0, 10, UNKNOWN), (10, 30, LOST)]


@pytest.mark.parametrize(("mark", "waiting"), [(0, 125), (31, 94), (110, 15), (125, 0), (200, 0)])
def test_r30_kept_records_above_the_leaders_high_watermark_are_not_readable_yet(
    mark: int, waiting: int
) -> None:
    """Each counts once, whoever else has it; those of other fates do not."""
    led = log(1, (0, 100), (2, 125), hw=mark)
    found = settled(case(FORK, rescued=(TAIL,), now=led))
    assert figures(found) == {KEPT: 125, RESCUED: 50}
    assert found.not_yet_readable == waiting


def test_r30_how_many_are_readable_is_unknown_without_the_leaders_word() -> None:
    assert settled(case(FORK)).not_yet_readable is None
    silent = settled(case(FORK, now=Unknown("b1 does not answer")))
    lost = settled(case(FORK, now=log(1, (0, 125), hw=Unknown("lost"))))
    assert isinstance(silent.not_yet_readable, Unknown)
    assert isinstance(lost.not_yet_readable, Unknown)


# Against a count of every record.


def brute(universe: set[Record], *layers: tuple[Fate, set[Record]]) -> Counter[Fate]:
    counted: Counter[Fate] = Counter()
    for record in universe:
        counted[next((fate for fate, held in layers if record in held), LOST)] += 1
    return counted


def copied(disks: Iterable[Disk], spans: Iterable[CopiedSpan]) -> set[Record]:
    by_broker = {disk.broker: disk for disk in disks}
    return {
        record
        for span in spans
        for record in by_broker[span.broker].records
        if span.start <= record[1] < span.end
    }


def shares(cluster: SimulatedCluster, leader: int) -> list[CopiedSpan]:
    """What the product rescues before that election."""
    found = shares_of(AtRisk(cluster.evidence(), leader))
    assert not isinstance(found, Unknown)
    return [
        CopiedSpan(share.replica.broker, span.start, span.end)
        for share in found
        for span in share.spans
    ]


@st.composite
def some_of(draw: st.DrawFn, spans: list[CopiedSpan]) -> list[CopiedSpan]:
    """A part of each of *spans*."""
    parts = []
    for span in spans:
        low = draw(st.integers(span.start, span.end))
        parts.append(replace(span, start=low, end=draw(st.integers(low, span.end))))
    return parts


@given(simulated_clusters(), st.integers(1, 4), st.data())
def test_r10_sums_are_those_of_every_record_counted(
    cluster: SimulatedCluster, leader: int, data: st.DataObject
) -> None:
    wanted = shares(cluster, leader)
    saved = data.draw(some_of(wanted))
    back = data.draw(some_of(saved))
    found = settled(
        PartitionCase(
            holdings_of(cluster.evidence()), leader, rescued=tuple(saved), put_back=tuple(back)
        )
    )
    universe = cluster.records
    assert found.held == len(universe)
    assert not found.differences
    expected = brute(
        universe,
        (KEPT, cluster.disks[leader - 1].records),
        (BACK, copied(cluster.disks, back)),
        (RESCUED, copied(cluster.disks, saved)),
    )
    assert {fate: number for fate, number in figures(found).items() if number} == expected
    loss = loss_of(cluster.evidence(), leader).total
    assert found.cut_off == loss or isinstance(loss, Unknown)
    committed = {record for disk in cluster.disks for record in disk.records if record[1] < disk.hw}
    together = total_of(found.sums)
    assert (together.committed, together.unproven) == (len(committed), len(universe - committed))
    held = holdings_of(cluster.evidence())
    whole = settled(PartitionCase(held, leader, rescued=tuple(wanted)))
    assert not {LOST, UNKNOWN} & whole.sums.keys(), "a whole rescue loses nothing"
    kept = cluster.disks[leader - 1].records
    for disk, replica in zip(
        cluster.disks, settled(PartitionCase(held, leader)).replicas, strict=True
    ):
        said = {at: entry.fate for entry in replica.entries for at in range(entry.start, entry.end)}
        assert said == {at: KEPT if (epoch, at) in kept else LOST for epoch, at in disk.records}


@given(simulated_clusters(), st.integers(1, 4), st.integers(0, 5), st.integers(0, 5))
def test_the_leader_of_now_settles_what_is_still_there(
    cluster: SimulatedCluster, leader: int, written: int, expired: int
) -> None:
    held = holdings_of(cluster.evidence())
    universe = cluster.records
    kept_then = cluster.disks[leader - 1].records
    cluster.elect(leader - 1)
    cluster.append(written)
    cluster.commit(1000)
    cluster.expire(leader - 1, expired)
    led = cluster.disks[leader - 1]
    found = settled(PartitionCase(held, leader, now=led.replica()))
    assert found.held == len(universe)
    assert not found.differences
    if not found.unconfirmed:
        assert figures(found).get(KEPT, 0) == len(universe & led.records)
        assert found.gone == len(kept_then - led.records)


@given(simulated_clusters(), st.integers(1, 4), st.integers(1, 3))
def test_histories_that_were_read_in_part_never_say_kept_of_what_is_not(
    cluster: SimulatedCluster, leader: int, depth: int
) -> None:
    replicas = tuple(with_recent_epochs(disk.replica(), depth) for disk in cluster.disks)
    found = settled(PartitionCase(Holdings(replicas), leader))
    kept = cluster.disks[leader - 1].records
    for disk, replica in zip(cluster.disks, found.replicas, strict=True):
        held = {at: (epoch, at) for epoch, at in disk.records}
        for entry in replica.entries:
            for at in range(entry.start, entry.end):
                if entry.fate is KEPT:
                    assert held[at] in kept
                if entry.fate is LOST:
                    assert held[at] not in kept


@given(offline_lives(), silences(), st.sampled_from(BROKERS))
def test_sums_add_up_whatever_was_read_and_whoever_leads(
    life: Life, unheard: frozenset[int], leader: int
) -> None:
    evidence = life.evidence(unheard)
    found = settled(PartitionCase(holdings_of(evidence), leader))
    read = [replica.broker for replica in evidence.replicas if isinstance(replica.log_end, int)]
    universe = set[Record]().union(*(life.disks[broker].records for broker in read))
    assert not found.differences
    if not found.uncounted:
        assert found.held == total_of(found.sums).total == len(universe)
    if leader in read and not found.uncounted:
        assert figures(found).get(KEPT, 0) == len(life.disks[leader].records)
    elif leader not in read:
        assert set(found.sums) <= {UNKNOWN}
