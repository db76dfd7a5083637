"""Which checkpoints retention lets go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.retention import Retention, RetentionCandidate, expired

C, F, O, I = Status.COMPLETED, Status.FAILED, Status.ONGOING, Status.INCOMPLETE  # noqa: E741
NOW = 10_000


def history(*statuses: Status) -> list[RetentionCandidate]:
    """Ids from 1, created a second after each other, the last one a second ago."""
    first = NOW - 1_000 * len(statuses)
    return [
        RetentionCandidate(number + 1, one, first + 1_000 * number)
        for number, one in enumerate(statuses)
    ]


def test_it_is_off_unless_it_is_set() -> None:
    assert expired(history(C, C, F, C), Retention(), NOW) == ()


@pytest.mark.parametrize(
    ("statuses", "keep", "gone"),
    [
        ((C, C, C), 2, (1,)),
        ((C, C, C), 0, (1, 2)),
        ((C, F, C, F), 1, (1, 2)),
        ((F, F, F), 1, ()),
        ((C, C, O), 1, (1,)),
        ((O, C, C), 1, (2,)),
        ((I, C), 1, (1,)),
        ((C,), 5, ()),
    ],
)
def test_the_newest_completed_ones_are_kept_and_what_is_newer(
    statuses: tuple[Status, ...], keep: int, gone: tuple[int, ...]
) -> None:
    assert expired(history(*statuses), Retention(keep=keep), NOW) == gone


@pytest.mark.parametrize(
    ("statuses", "older_than_ms", "gone"),
    [((C, C, F, C), 2_500, (1, 2)), ((C, F, F), 0, (2, 3)), ((C, O, F), 1_500, ())],
)
def test_old_ones_go(
    statuses: tuple[Status, ...], older_than_ms: int, gone: tuple[int, ...]
) -> None:
    assert expired(history(*statuses), Retention(older_than_ms=older_than_ms), NOW) == gone


def test_one_whose_age_is_not_known_is_not_old() -> None:
    unknown = [RetentionCandidate(1, F, None), *history(C)]
    assert expired(unknown, Retention(older_than_ms=0), NOW) == ()


@given(
    statuses=st.lists(st.sampled_from([C, F, O, I])),
    keep=st.none() | st.integers(0, 5),
    older_than_ms=st.none() | st.integers(0, 10_000),
)
def test_the_newest_completed_one_and_the_ongoing_ones_never_go(
    statuses: list[Status], keep: int | None, older_than_ms: int | None
) -> None:
    checkpoints = history(*statuses)
    gone = set(expired(checkpoints, Retention(keep, older_than_ms), NOW))
    newest = max(
        (checkpoint.id for checkpoint in checkpoints if checkpoint.status is C), default=None
    )
    assert newest not in gone
    assert not gone & {checkpoint.id for checkpoint in checkpoints if checkpoint.status is O}
