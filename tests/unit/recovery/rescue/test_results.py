"""Free space, asked before anything is written: refused where it does not fit, the rest goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.model import LogDir, TopicPartition, Unknown
from breakglass.services.recovery.rescue.results import (
    BYTES_A_RECORD,
    MARGIN,
    RESERVE_BYTES,
    estimate,
    free_bytes,
    require_reserve,
    without_room,
)
from breakglass.services.recovery.rescue.spans import AtRisk, Share, shares_of
from tests.unit.recovery.replicas import log, offline

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


def room_for(*sizes: float) -> int:
    return RESERVE_BYTES + int(sum(sizes) * MARGIN)


def test_a_tail_is_estimated_by_its_part_of_the_log_and_what_the_format_adds() -> None:
    (share,) = tail()
    assert estimate(share) == 50_000 + 50 * BYTES_A_RECORD


@pytest.mark.parametrize("size", [None, Unknown("not told")])
def test_a_log_of_unknown_size_has_no_estimate(size: int | Unknown | None) -> None:
    (share,) = tail(size=size)
    assert isinstance(estimate(share), Unknown)


def test_what_fits_is_not_refused(tmp_path: Path) -> None:
    free = room_for(50_000 + 50 * BYTES_A_RECORD)
    assert without_room({ORDERS: tail()}, tmp_path, lambda _: free) == {}


def test_what_does_not_fit_is_refused_with_both_figures_and_the_folder(tmp_path: Path) -> None:
    refused = without_room({ORDERS: tail(size=90 * 10**9)}, tmp_path, lambda _: 10**9)
    assert set(refused) == {ORDERS}
    assert all(part in refused[ORDERS] for part in ("36,001 MB", "933 MB", str(tmp_path)))


def test_the_others_go_on_in_their_order(tmp_path: Path) -> None:
    small, large, late = (TopicPartition(name, 3) for name in ("small", "large", "late"))
    shares = {small: tail("small"), large: tail("large", size=9 * 10**9), late: tail("late")}
    free = room_for(*2 * [50_000 + 50 * BYTES_A_RECORD])
    assert set(without_room(shares, tmp_path, lambda _: free)) == {large}


def test_a_disk_below_its_reserve_takes_nothing_not_even_of_unknown_size(tmp_path: Path) -> None:
    refused = without_room({ORDERS: tail(size=None)}, tmp_path, lambda _: RESERVE_BYTES - 1)
    assert set(refused) == {ORDERS}


def test_the_reserve_is_kept_while_a_rescue_is_under_way(tmp_path: Path) -> None:
    require_reserve(tmp_path, lambda _: RESERVE_BYTES)
    with pytest.raises(StorageError):
        require_reserve(tmp_path, lambda _: RESERVE_BYTES - 1)


def test_a_folder_that_is_not_there_yet_is_asked_by_its_nearest_parent(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "new" / "deeper") > 0
