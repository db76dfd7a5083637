"""Tests that share brokers or a session of Spark run in one worker, whoever shares out the rest."""

from __future__ import annotations

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="there is one worker alone")
@pytest.mark.parametrize("folder", ["lab", "pipeline"])
def test_tests_that_share_a_cluster_stay_together(
    request: pytest.FixtureRequest, folder: str
) -> None:
    sharing = [item for item in request.session.items if item.get_closest_marker(folder)]
    assert [item.nodeid for item in sharing if f"@{folder}" not in item.nodeid] == []
