"""Which two replicas are compared, and what their epochs tell before anything is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.divergence.replicas import default_pair, face
from breakglass.services.divergence.source import Extent
from breakglass.services.model import Unknown
from tests.unit.recovery.replicas import PLAIN, log, offline, silent, without_epochs

LEDGER = offline(
    log(1, (0, 100), (2, 125)), log(2, (0, 100), (1, 150)), silent(3), topic="ledger", number=0
)


def test_two_replicas_face_each_other_around_their_divergence() -> None:
    facing = face(LEDGER, 1, 2)
    assert not isinstance(facing, Unknown)
    assert (facing.divergence, facing.begin, facing.extent) == (100, 100, Extent(0, 150))
    assert facing.proven_same == Extent(0, 100)


def test_what_only_one_side_has_before_the_other_begins_is_not_proven() -> None:
    facing = face(offline(log(1, (0, 100), start=30), log(2, (0, 120))), 1, 2)
    assert not isinstance(facing, Unknown)
    assert facing.proven_same == Extent(30, 100)


def test_on_a_compacted_topic_nothing_is_proven() -> None:
    compacted = replace(LEDGER, settings=replace(PLAIN, compacted=True))
    facing = face(compacted, 1, 2)
    assert not isinstance(facing, Unknown)
    assert (facing.proven_same, facing.divergence) == (None, 100)


def test_without_epochs_two_replicas_are_compared_from_their_start() -> None:
    facing = face(offline(log(1, (0, 100)), without_epochs(2, 120)), 1, 2)
    assert not isinstance(facing, Unknown)
    assert isinstance(facing.divergence, Unknown)
    assert (facing.begin, facing.proven_same) == (0, None)


@pytest.mark.parametrize(
    ("right", "words"), [(3, "b3 does not answer"), (7, "b7 holds no replica of ledger-0")]
)
def test_a_replica_that_cannot_be_read_is_refused_with_the_reason(right: int, words: str) -> None:
    refused = face(LEDGER, 1, right)
    assert isinstance(refused, Unknown)
    assert words in refused.reason


def test_the_best_is_compared_with_the_one_that_loses_most() -> None:
    three = offline(log(1, (0, 100), (2, 125)), log(2, (0, 110)), log(4, (0, 100), (1, 150)))
    assert default_pair(three, 1) == (1, 4)
    assert default_pair(three, 4) == (4, 1)
    assert default_pair(three, 3) == (1, 4)


def test_the_logs_of_one_broker_alone_cannot_be_compared() -> None:
    told = default_pair(offline(log(1, (0, 100)), silent(2), silent(3)), 1)
    assert isinstance(told, Unknown)
    assert "two replicas are needed to compare" in told.reason
    assert told.reason.endswith("b1")
