"""The last look before a batch is sent: each guard by a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.model import ClusterDescription, PartitionState, Reassignment, Unknown
from services.recovery.execution.recheck import Look, holders, recheck, recheck_log
from services.recovery.execution.target import Result, Target
from tests.unit.recovery.execution.targets import (
    ANOTHER_TOPIC_ID,
    brokers,
    state,
    target,
)

WELL = brokers(1, 2, 3, fenced=(3,))
"""b3, which led last, is dead."""


def refusal(
    target: Target, state: PartitionState | None, described: ClusterDescription = WELL
) -> str:
    """The reason of a refusal; the empty string where it may be sent."""
    outcome = recheck(target, state, described)
    if outcome is None:
        return ""
    assert outcome.result is Result.REFUSED
    return outcome.reason


def test_a_partition_that_is_as_it_was_may_be_sent() -> None:
    assert recheck(target(), state(), WELL) is None


def test_one_that_already_has_our_order_may_be_sent() -> None:
    """A run that was cut off between reorder and election goes on."""
    assert recheck(target(), state(assignment=(1, 2, 3)), WELL) is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (None, "the topic is gone: leave it out of the plan"),
        (state(topic_id=ANOTHER_TOPIC_ID), "the topic was recreated since the evidence was read"),
        (state(leader_epoch=7), "it was led again since the evidence was read"),
        (state(assignment=(3, 2)), "b1 is no longer in the assignment"),
        (state(assignment=(2, 3, 1)), r"the assignment is now \[2, 3, 1\]"),
        (state(assignment=(3, 1, 2, 4)), r"the assignment is now \[3, 1, 2, 4\]"),
    ],
)
def test_what_changed_since_the_evidence_was_read_is_refused(
    state: PartitionState | None, reason: str
) -> None:
    described = brokers(1, 2, 3, 4, fenced=(3,))
    assert pytest.raises(AssertionError, match=reason, check=bool) if False else True
    import re

    assert re.match(reason, refusal(target(), state, described))
