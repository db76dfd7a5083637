"""H6 to H8 by simulation: every token is in one place after a restore, under either policy."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from breakglass.services.checkpoint.protocol.cut import cut
from breakglass.services.checkpoint.protocol.lineage import (
    Lineage,
    LoweredCut,
    RecordLineage,
    channel_state,
    greatest_cut,
    lowered_offsets,
    needed,
)
from tests.unit.checkpoint.protocol.tokens import PARTITIONS, TOKENS, Ring, ended, places

ONCE = Counter(dict.fromkeys(range(TOKENS), 1))
SEEDS = range(150)
EVERY = range(PARTITIONS)


def ring(seed: int, *, exactly_once: bool = True) -> Ring:
    found = Ring(Random(seed), exactly_once)
    found.fill()
    found.run(80)
    return found


def coordinated(seed: int) -> tuple[Ring, dict[int, int]]:
    """A checkpoint by markers, drained."""
    found = ring(seed)
    for number in EVERY:
        found.mark(number, 1)
        found.run(5)
    found.run(40)
    ends = {}
    for number, log in enumerate(found.logs):
        end = cut(((offset, one.id) for offset, one in enumerate(log)), 1)
        assert end is not None
        ends[number] = end
    found.drain(ends)
    return found, ends


def read_apart(found: Ring) -> dict[int, int]:
    """The ends, partitions read a moment apart."""
    ends = {}
    for number in EVERY:
        ends[number] = len(found.logs[number])
        found.run(3)
    return ends


def verified(
    seed: int, *, exactly_once: bool = True, waits: bool = True
) -> tuple[Ring, LoweredCut]:
    """A checkpoint by lineage: floors, ends, offsets, in that order, while tokens go on.

    For a group that processes at least once, it waits until the offsets have reached the ends.
    """
    found = ring(seed, exactly_once=exactly_once)
    floors, ends = read_apart(found), read_apart(found)
    if waits and not exactly_once:
        found.drain(ends)
    committed = dict(enumerate(found.committed))
    found.run(40)
    return found, greatest_cut(floors, ends, committed, found.lineage(floors))


NOWHERE = dict.fromkeys(EVERY, 0)


def test_h06_with_the_channels_state_every_token_is_in_one_place() -> None:
    for seed in SEEDS:
        found, ends = coordinated(seed)
        channel = channel_state(ends, ends, found.lineage(NOWHERE), found.inside(ends))
        assert places(found, ends, ends, list(channel)) == ONCE, seed


def test_h06_without_the_channels_state_tokens_are_lost() -> None:
    lost = 0
    for seed in SEEDS:
        found, ends = coordinated(seed)
        lost += TOKENS - places(found, ends, ends, []).total()
    assert lost > 0


def test_h07_from_lowered_offsets_every_token_is_written_again() -> None:
    for seed in SEEDS:
        found, ends = coordinated(seed)
        offsets = lowered_offsets(ends, ends, found.lineage(NOWHERE), found.inside(ends))
        assert ended(found, ends, offsets) == ONCE, seed


def test_h07_both_policies_together_double_tokens() -> None:
    doubled = 0
    for seed in SEEDS:
        found, ends = coordinated(seed)
        records, inside = found.lineage(NOWHERE), found.inside(ends)
        channel = channel_state(ends, ends, records, inside)
        offsets = lowered_offsets(ends, ends, records, inside)
        again = ended(found, ends, offsets)
        both = again + Counter(
            found.logs[lineage.partition][lineage.offset].token for lineage in channel
        )
        doubled += both.total() - TOKENS
    assert doubled > 0


def test_h08_vectors_are_lowered_to_a_cut_in_which_every_token_is_in_one_place() -> None:
    for seed in SEEDS:
        found, lowered = verified(seed)
        records = found.lineage(NOWHERE)
        inside = found.inside(lowered.positions)
        channel = channel_state(lowered.positions, lowered.offsets, records, inside)
        tokens = places(found, lowered.positions, lowered.offsets, list(channel))
        assert tokens == ONCE, seed
        assert lowered.rounds <= PARTITIONS + 1


def test_h09_vectors_that_are_not_lowered_lose_and_double_tokens() -> None:
    wrong = 0
    for seed in SEEDS:
        found = ring(seed)
        ends = read_apart(found)
        committed = {number: min(found.committed[number], ends[number]) for number in EVERY}
        channel = channel_state(ends, committed, found.lineage(NOWHERE), found.inside(ends))
        wrong += places(found, ends, committed, list(channel)) != ONCE
    assert wrong > 0


@pytest.mark.parametrize("waits", [True, False])
def test_h08_groups_that_process_at_least_once_have_to_commit_what_was_read(waits: bool) -> None:
    wrong = 0
    for seed in SEEDS:
        found, lowered = verified(seed, exactly_once=False, waits=waits)
        positions, inside = lowered.positions, found.inside(lowered.positions)
        records = found.lineage(NOWHERE)
        offsets = lowered_offsets(positions, lowered.offsets, records, inside)
        wrong += ended(found, positions, offsets) != ONCE
    assert (wrong == 0) == waits


def test_h08_no_log_is_lowered_below_its_floor() -> None:
    records = [Lineage(0, offset, RecordLineage(1, 8)) for offset in (3, 4, 6)]
    assert greatest_cut({0: 5, 1: 5}, {0: 9, 1: 5}, {0: 9, 1: 5}, records).positions[0] == 6


@pytest.mark.parametrize(
    ("origin", "end"), [(RecordLineage(1, 4), 9), (RecordLineage(1, 5), 7), (None, 9)], ids=str
)
def test_h08_a_record_whose_cause_is_outside_ends_the_cut(
    origin: RecordLineage | None, end: int
) -> None:
    found = greatest_cut({0: 5, 1: 5}, {0: 9, 1: 5}, {0: 9, 1: 6}, [Lineage(0, 7, origin)])
    assert found.positions == {0: end, 1: 5}
    assert found.rolled_back == {0: 9 - end, 1: 0}
    assert found.offsets == {0: end, 1: 5}


def test_h08_what_does_not_count_changes_no_cut_and_nothing_in_transit() -> None:
    left_out = 0
    for seed in SEEDS:
        found = ring(seed)
        floors, ends = read_apart(found), read_apart(found)
        committed = dict(enumerate(found.committed))
        found.run(40)
        every = found.lineage(floors)
        within = {one: min(offset, ends[one]) for one, offset in committed.items()}
        some = [lineage for lineage in every if needed(lineage, ends, within)]
        lowered = greatest_cut(floors, ends, committed, every)
        assert greatest_cut(floors, ends, committed, some) == lowered
        at = (lowered.positions, lowered.offsets)
        assert channel_state(*at, some) == channel_state(*at, every)
        assert lowered_offsets(*at, some) == lowered_offsets(*at, every)
        left_out += len(every) - len(some)
    assert left_out > 0


def test_h08_lowering_one_log_lowers_another() -> None:
    records = [Lineage(0, 7, RecordLineage(1, 6)), Lineage(1, 4, RecordLineage(0, 8))]
    found = greatest_cut({0: 5, 1: 4}, {0: 9, 1: 6}, {0: 9, 1: 6}, records)
    assert (found.positions, found.rounds) == ({0: 7, 1: 4}, 3)


def test_h06_what_was_written_twice_is_in_transit_once_and_not_if_the_cut_has_it() -> None:
    written = [
        Lineage(0, 9, RecordLineage(1, 3)),
        Lineage(0, 8, RecordLineage(1, 2)),
        Lineage(0, 10, RecordLineage(1, 2)),
        Lineage(0, 11, RecordLineage(1, 3, index=1)),
        Lineage(0, 12, RecordLineage(1, 7)),
        Lineage(0, 13, None),
        Lineage(0, 4, RecordLineage(1, 1)),
    ]
    found = channel_state({0: 8}, {1: 6}, written, inside={RecordLineage(1, 3)})
    assert [lineage.offset for lineage in found] == [8, 11]
    assert lowered_offsets({0: 8}, {1: 6}, written, inside={RecordLineage(1, 3)}) == {1: 2}
