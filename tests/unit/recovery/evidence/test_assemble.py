"""Which partitions need longer histories: tables of small logs."""

from __future__ import annotations

import pytest

from breakglass.services.model import ReplicaLog
from breakglass.services.recovery.evidence.assemble import without_common_epoch
from tests.unit.recovery.histories import with_recent_epochs
from tests.unit.recovery.replicas import log, offline, silent, without_epochs

LONG = log(1, (0, 10), (1, 20), (3, 30), (5, 40))
FORKED = log(2, (0, 10), (1, 20), (2, 30), (4, 40))


@pytest.mark.parametrize(
    ("replicas", "lonely"),
    [
        ((LONG, FORKED), False),
        ((with_recent_epochs(LONG, 2), with_recent_epochs(FORKED, 2)), True),
        ((with_recent_epochs(LONG, 2), FORKED), True),
        ((with_recent_epochs(LONG, 3), with_recent_epochs(FORKED, 3)), False),
        ((log(1, (0, 10)), log(2, (1, 10))), False),
        ((log(1, (7, 10)), with_recent_epochs(FORKED, 1)), True),
        ((with_recent_epochs(LONG, 1), log(2)), False),
        ((with_recent_epochs(LONG, 1), silent(2)), False),
        ((with_recent_epochs(LONG, 1), without_epochs(2, 40)), False),
        ((with_recent_epochs(LONG, 1), silent(3), with_recent_epochs(FORKED, 1)), True),
        ((LONG,), False),
    ],
    ids=[
        "whole",
        "both cut short",
        "one cut short",
        "cut where they meet",
        "nothing in common, and nothing more to tell",
        "one told all",
        "one is empty",
        "one is silent",
        "one may not be read",
        "neighbours with a silent one between",
        "alone",
    ],
)
def test_two_replicas_that_share_no_epoch_and_could_tell_more(
    replicas: tuple[ReplicaLog, ...], lonely: bool
) -> None:
    evidence = offline(*replicas)
    assert without_common_epoch([evidence]) == ({evidence.partition} if lonely else frozenset())


def test_only_the_partitions_that_need_it_are_named() -> None:
    whole = offline(LONG, FORKED, number=1)
    cut = offline(with_recent_epochs(LONG, 1), with_recent_epochs(FORKED, 1), number=2)
    assert without_common_epoch([whole, cut]) == {cut.partition}
