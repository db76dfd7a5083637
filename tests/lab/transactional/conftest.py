"""One cluster for the tests of transactional checkpoints: its brokers are killed and come back."""

from collections.abc import Iterator

import pytest

from breakglass.services.lab.cluster import Cluster


@pytest.fixture(scope="package")
def three_mortal_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, for applications that keep three replicas."""
    folder = tmp_path_factory.mktemp("transactional")
    with Cluster.up(folder, tethered=True) as found:
        yield found
