"""Runs of a comparison: what they skip is the same, and counted as if it had been decoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.divergence.align import Comparison, HunkTotals, PairKind, runs
from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.search import next_difference, previous_difference
from breakglass.services.divergence.source import Reading, Same
from breakglass.services.divergence.views import CommittedView
from breakglass.services.topic_backup.record import Record
from tests.unit.divergence.test_log_source import tens, write
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.shapes import run

READING = Reading()
END = 2**40


def logs(folder: Path, left: Sequence[bytes], right: Sequence[bytes]) -> Comparison:
    write(folder / "a-0", 0, left)
    write(folder / "b-0", 0, right)
    return Comparison(open_log("a", folder / "a-0"), open_log("b", folder / "b-0"))


def decoded(comparison: Comparison) -> HunkTotals:
    """Counted pair by pair."""
    totals = HunkTotals()
    for pair in comparison.pairs(0, END, READING):
        totals.add(pair)
    return totals


def by_runs(comparison: Comparison) -> HunkTotals:
    totals = HunkTotals()
    for pair in runs(comparison, 0, END, READING):
        totals.add(pair)
    return totals


def skipped(comparison: Comparison, start: int = 0) -> list[tuple[int, int]]:
    """The stretches that were not decoded, neighbours as one."""
    found: list[tuple[int, int]] = []
    for pair in runs(comparison, start, END, READING):
        if not isinstance(pair, Same):
            continue
        if found and found[-1][1] == pair.start:
            found[-1] = (found[-1][0], pair.end)
        else:
            found.append((pair.start, pair.end))
    return found


def changed(batches: Sequence[bytes], *offsets: int) -> list[bytes]:
    """The same batches of ten with another value at those offsets."""
    found = list(batches)
    for offset in offsets:
        first = offset - offset % 10
        records = [
            record._replace(value=b"other") if record.offset == offset else record
            for record in run(first, first + 10)
        ]
        found[first // 10] = batch(records)
    return found


def test_equal_batches_are_not_decoded_and_the_ones_around_a_change_are(tmp_path: Path) -> None:
    comparison = logs(tmp_path, tens(0, 2_000), changed(tens(0, 2_000), 555))
    assert skipped(comparison) == [(0, 550), (812, 2_000)]
    assert skipped(comparison, 7) == [(7, 550), (812, 2_000)]
    totals = by_runs(comparison)
    assert (totals.kinds, totals.first) == ({PairKind.EQUAL: 1_999, PairKind.DIFFERENT: 1}, 555)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=st.sets(st.integers(0, 1_499), max_size=8), cut=st.integers(1, 150))
def test_what_is_skipped_changes_no_figure(
    tmp_path_factory: pytest.TempPathFactory, edits: set[int], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    comparison = logs(folder, tens(0, 1_500), changed(tens(0, 1_500), *edits)[:cut])
    plain, quick = decoded(comparison), by_runs(comparison)
    assert (quick.kinds, quick.fields, quick.first) == (plain.kinds, plain.fields, plain.first)
    mirrored = by_runs(Comparison(comparison.right, comparison.left))
    assert mirrored.kinds[PairKind.LEFT] == quick.kinds[PairKind.RIGHT]
    assert (
        mirrored.kinds[PairKind.DIFFERENT]
        == quick.kinds[PairKind.DIFFERENT]
        == plain.fields.total()
    )


def test_searches_pass_over_equal_bytes_in_either_direction(tmp_path: Path) -> None:
    comparison = logs(tmp_path, tens(0, 5_000), changed(tens(0, 5_000), 3, 4_321))
    assert next_difference(comparison, 3, READING, lambda _: None) == 4_321
    assert previous_difference(comparison, 4_321, READING, lambda _: None) == 3
    assert previous_difference(comparison, 5_000, READING, lambda _: None) == 4_321


def test_the_same_records_in_other_batches_are_equal_by_decoding(tmp_path: Path) -> None:
    fives = [batch(run(at, at + 5)) for at in range(0, 600, 5)]
    comparison = logs(tmp_path, tens(0, 600), fives)
    assert skipped(comparison) == []
    assert by_runs(comparison).kinds == {PairKind.EQUAL: 600}


def test_equal_batches_of_another_epoch_differ(tmp_path: Path) -> None:
    comparison = logs(tmp_path, tens(0, 100, epoch=5), tens(0, 100, epoch=6))
    assert by_runs(comparison).kinds == {PairKind.DIFFERENT: 100}


def test_damage_that_both_sides_have_alike_is_told_of(tmp_path: Path) -> None:
    batches = tens(0, 100)
    spoilt = bytearray(batches[4])
    spoilt[-3] ^= 1
    batches[4] = bytes(spoilt)
    comparison = logs(tmp_path, batches, batches)
    assert by_runs(comparison).kinds == {PairKind.EQUAL: 90, PairKind.UNREAD: 1}


def test_a_cleaned_range_is_decoded_and_what_is_above_it_is_not(tmp_path: Path) -> None:
    def cleaned(kept: Sequence[Record]) -> list[bytes]:
        return [batch(kept, base_offset=0, last_offset=99), *tens(100, 1_000)]

    first, second = run(0, 100)[::2], run(0, 100)[::3]
    comparison = logs(tmp_path, cleaned(first), cleaned(second))
    assert skipped(comparison)[-1][1] == 1_000
    totals = by_runs(comparison)
    assert totals.kinds == decoded(comparison).kinds
    assert totals.undecoded > 500


def test_where_transactions_come_into_play_committed_records_are_decoded(tmp_path: Path) -> None:
    open_one = batch(run(300, 310), flags=TRANSACTIONAL, producer=(7, 0, 0))
    marker = [control_record(310, 0)]
    abort = batch(marker, flags=CONTROL | TRANSACTIONAL, producer=(7, 0, -1))
    behind = [batch(run(at, at + 10)) for at in range(311, 601, 10)]
    log = [*tens(0, 300), open_one, abort, *behind]
    comparison = logs(tmp_path, log, log)
    assert skipped(comparison) == [(0, 601)]
    views = Comparison(CommittedView(comparison.left), CommittedView(comparison.right))
    assert skipped(views)[0] == (0, 300)
    assert by_runs(views).kinds == decoded(views).kinds == {PairKind.EQUAL: 590}
