"""What outcomes amount to, and targets that survive being written down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.journal import Journal, read
from services.model import TopicPartition
from services.recovery.execution.record import described, target_of_item
from services.recovery.execution.run import why_to_halt
from services.recovery.execution.target import Outcome, Result, Target, exit_code
from tests.fake_metadata import CLUSTER_ID
from tests.unit.recovery.execution.targets import ORDERS, target


def outcomes(*results: Result) -> list[Outcome]:
    """One for each of *results*; the first is of orders-0."""
    return [
        Outcome(target(TopicPartition("orders", number)), result, "why", leader=2)
        for number, result in enumerate(results)
    ]


GOOD, ONLINE, REFUSED, FAILED = (
    Result.ELECTED,
    Result.ALREADY_ONLINE,
    Result.REFUSED,
    Result.FAILED,
)
ANOTHER, UNKNOWN, NOT_TRIED = Result.ELECTED_ANOTHER, Result.UNKNOWN, Result.NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 0),
        ([GOOD, ONLINE], 0),
        ([GOOD, FAILED], 1),
        ([GOOD, ANOTHER, NOT_TRIED], 1),
        ([REFUSED, REFUSED], 3),
        ([GOOD, REFUSED], 1),
        ([REFUSED, FAILED], 1),
        ([FAILED, UNKNOWN, REFUSED], 4),
        ([GOOD, NOT_TRIED], 1),
    ],
)
def test_an_exit_code_for_all(results: Sequence[Result], code: int) -> None:
    assert exit_code(outcomes(*results)) == code


class TestWhyToHalt:
    @pytest.mark.parametrize(
        "results", [[], [GOOD], [GOOD, ONLINE], [REFUSED], [GOOD, FAILED], [REFUSED, FAILED]]
    )
    def test_what_concerns_one_partition_alone_halts_nothing(self, results: list[Result]) -> None:
        assert why_to_halt(outcomes(*results)) == ""

    def test_r04_the_first_mismatch_halts_and_says_who_must_stay_down(self) -> None:
        assert why_to_halt(outcomes(GOOD, ANOTHER)) == (
            "stopped because orders-1 elected b2, not b1: keep broker 1 down, for what it holds "
            "beyond b2 would be cut off, then plan again"
        )

    def test_an_unknown_outcome_halts(self) -> None:
        assert why_to_halt(outcomes(GOOD, UNKNOWN)) == (
            "stopped because the outcome of orders-1 is unknown"
        )

    def test_a_mismatch_is_told_before_an_unknown_outcome(self) -> None:
        assert "elected b2" in why_to_halt(outcomes(UNKNOWN, ANOTHER))

    def test_a_batch_that_failed_as_a_whole_halts_with_its_reason(self) -> None:
        assert why_to_halt(outcomes(FAILED, FAILED)) == "stopped because orders-0 failed: why"


_ids = st.integers(0, 2**31 - 1)
_targets = st.builds(
    Target,
    partition=st.just(ORDERS),
    topic_id=st.uuids(),
    designee=_ids,
    order=st.lists(_ids, unique=True).map(tuple),
    assignment=st.lists(_ids, unique=True).map(tuple),
    leader_epoch=_ids,
    log_end=st.none() | st.integers(0, 2**63 - 1),
    min_insync_replicas=st.none() | st.integers(1, 10),
)


class TestWrittenDown:
    @given(_targets)
    def test_a_target_is_read_back_as_it_was(self, written: Target) -> None:
        item = json.loads(json.dumps(described(written), default=str))
        assert target_of_item(ORDERS, item) == written

    def test_it_survives_a_journal(self, tmp_path: Path) -> None:
        with Journal.open(CLUSTER_ID, tmp_path) as journal:
            journal.plan("digest", "evidence", {ORDERS: described(target())})
        plan = read(journal.path).plan
        assert plan is not None
        assert target_of_item(ORDERS, plan.items[ORDERS]) == target()

    @pytest.mark.parametrize("field", list(described(target())))
    def test_without_a_field_it_is_none(self, field: str) -> None:
        item = described(target())
        del item[field]
        assert target_of_item(ORDERS, item) is None

    @pytest.mark.parametrize(
        ("field", "value"),
        [("topic_id", "no id"), ("order", 7), ("order", ["x"]), ("designee", None)],
    )
    def test_damaged_it_is_none(self, field: str, value: object) -> None:
        assert target_of_item(ORDERS, {**described(target()), field: value}) is None
