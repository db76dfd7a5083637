"""What a worker does about a copy, over all that may be there already."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.protocol.values import Copy, CopyId, PartitionBackup, Status
from breakglass.services.checkpoint.protocol.worker import Begin, begin, unfinished

OWN, OTHER = CopyId(1, 2, 0), CopyId(1, 2, 1)
D, O, C, F = (  # noqa: E741 - a table of them follows
    Status.DOES_NOT_EXIST,
    Status.ONGOING,
    Status.COMPLETED,
    Status.FAILED,
)


def copies(**statuses: Status) -> PartitionBackup:
    ids = {"own": OWN, "other": OTHER}
    found = (
        Copy(ids[name], status, digest="aa" if status is C else None)
        for name, status in statuses.items()
        if status is not D
    )
    return PartitionBackup(2, tuple(found))


@pytest.mark.parametrize(
    ("own", "other", "decided"),
    [
        (D, D, Begin.COPY),
        (D, O, Begin.COPY),
        (D, C, Begin.COPY),
        (D, F, Begin.REFUSE),
        (O, D, Begin.COPY_ANEW),
        (O, O, Begin.COPY_ANEW),
        (O, C, Begin.COPY_ANEW),
        (O, F, Begin.REFUSE),
        (C, D, Begin.SKIP),
        (C, O, Begin.SKIP),
        (C, C, Begin.SKIP),
        (C, F, Begin.SKIP),
        (F, D, Begin.REFUSE),
        (F, O, Begin.REFUSE),
        (F, C, Begin.REFUSE),
        (F, F, Begin.REFUSE),
    ],
)
def test_what_a_worker_does_about_a_copy(own: Status, other: Status, decided: Begin) -> None:
    assert begin(copies(own=own, other=other), OWN) is decided


def test_a_partition_that_has_failed_is_not_copied() -> None:
    assert begin(PartitionBackup(2, failure="its owner changed"), OWN) is Begin.REFUSE


@pytest.mark.parametrize(
    ("own", "is_failed"), [(D, True), (O, True), (F, True), (C, False)], ids=str
)
def test_a_new_owner_fails_what_is_not_completed(own: Status, is_failed: bool) -> None:
    assert unfinished([(1, copies(own=own))], 1) == ((1,) if is_failed else ())
    assert unfinished([(1, copies(own=own))], 2) == ((1, 2) if is_failed else (2,))


def test_a_new_owner_decides_nothing_twice_and_nothing_later() -> None:
    decided = PartitionBackup(2, failure="its owner changed")
    assert unfinished([(1, decided), (3, copies())], 1) == ()
