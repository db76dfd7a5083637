"""The control topic: what is written is read, the last of each key counts, rubbish does not."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.kafka.control import (
    Control,
    Created,
    LastOf,
    MovedRecords,
    RestoredTopic,
    RetentionHold,
    control_of,
    take_record,
)
from breakglass.services.checkpoint.kafka.stamps import RecordAddress

OLD, NEW = "a" * 32, "b" * 32
CREATED = Created("bank/of x", OLD, 3, 5, 120, b"\x00state")
RESTORED = RestoredTopic(NEW, 6, {3: (MovedRecords(RecordAddress(OLD, 3, 100), 40, 10),)})


def test_everything_is_read_back() -> None:
    found = control_of([take_record(7, 1), CREATED.record, RESTORED.record])
    assert found.latest_id == 7
    assert found.created == {("bank/of x", OLD, 3): CREATED}
    assert found.restored == {NEW: RESTORED}


HELD = RetentionHold(OLD, "request/1", "orders", {"retention.ms": "1000", "retention.bytes": None})


def test_what_is_held_is_known_until_it_is_let_go() -> None:
    other = RetentionHold(OLD, "request/2", "orders", HELD.settings)
    let_go = RetentionHold(OLD, "request/1", "orders", None)
    assert control_of([HELD.record]).held == {(OLD, "request/1"): HELD}
    found = control_of([HELD.record, other.record, let_go.record])
    assert found.held == {(OLD, "request/2"): other}
    assert found.latest_id == 0


def test_what_an_owner_had_seen_is_read_back_beside_its_state() -> None:
    seen = (LastOf(NEW, 2, "bank", 17, 1), LastOf(NEW, 3, "other/group", 5, 0))
    created = Created("bank", OLD, 3, 5, 120, b"state", seen)
    assert control_of([created.record]).created == {("bank", OLD, 3): created}


def test_h04_an_id_that_anybody_came_to_counts_as_taken() -> None:
    assert control_of([CREATED.record]).latest_id == 5
    assert control_of([RESTORED.record]).latest_id == 6
    assert control_of([]).latest_id == 0


def test_the_last_record_of_an_owner_counts() -> None:
    later = Created("bank/of x", OLD, 3, 8, 200)
    assert control_of([CREATED.record, later.record]).created == {("bank/of x", OLD, 3): later}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"take/x", b"{}"),
        (b"take/0", b"{}"),
        (b"take/-5", b"{}"),
        (b"take/99999999999999999999", b"{}"),
        (b"created/only", b'{"id": 1, "position": 1, "state": null}'),
        (b"created/t/1/g", b"[]"),
        (b"created/t/1/g", b'{"id": 1, "position": 1, "state": "!"}'),
        (b"restored/t", b'{"id": 1, "moved": [1]}'),
        (b"restored/t", b'{"id": 1, "moved": {"0": [[1, 2]]}}'),
        (b"\xff", b"\xff"),
        (b"take/3", b"[" * 100_000),
        (b"other", b"{}"),
    ],
)
def test_what_is_none_of_ours_is_passed_over(key: bytes | None, value: bytes | None) -> None:
    assert control_of([(key, value)]) == Control()


def test_h02_a_moved_record_is_told_by_its_old_place() -> None:
    assert RESTORED.original(3, 40) == RecordAddress(OLD, 3, 100)
    assert RESTORED.original(3, 49) == RecordAddress(OLD, 3, 109)


@pytest.mark.parametrize(("partition", "offset"), [(3, 39), (3, 50), (2, 40)])
def test_a_record_that_no_restore_has_put_there_has_no_old_place(
    partition: int, offset: int
) -> None:
    assert RESTORED.original(partition, offset) is None
