"""The damaged lab that several files look at, each at its own topics."""

from collections.abc import Iterator

import pytest

from tests.lab.scenarios.damaged import Damaged, damaged


@pytest.fixture(scope="session", params=("4.3.1", "3.9.2"))
def three_losses(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Damaged]:
    """stale-replicas, diverged and replaced-disk on one lab, which nobody may change."""
    names = ("stale-replicas", "diverged", "replaced-disk")
    folder = tmp_path_factory.mktemp("three-losses")
    with damaged(folder, *names, kafka_version=request.param) as lab:
        yield lab
