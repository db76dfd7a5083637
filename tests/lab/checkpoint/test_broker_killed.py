"""Checkpoints while brokers, members and workers are killed: each that completes is consistent."""

from pathlib import Path

import pytest

from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from tests.lab.checkpoint.soak import rounds
from tests.lab.conftest import FreshCluster

ROUNDS = 4
"""A broker, a member and a worker are killed at a coordinated one, a worker at a verified one;
`make soak` runs a hundred."""


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_checkpoints_under_kill_9_conserve_the_total(
    fresh_cluster: FreshCluster, guarantee: Guarantee, tmp_path: Path
) -> None:
    done = list(rounds(fresh_cluster(), guarantee, ROUNDS, tmp_path))
    assert all(round_.consistent for round_ in done), done
    assert [round_.half > 0 for round_ in done] == [False, False, True, True], done
    assert [round_.status for round_ in done].count(Status.COMPLETED) >= ROUNDS - 1, done
