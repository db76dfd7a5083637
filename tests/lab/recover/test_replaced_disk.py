"""`replaced-disk` without us: Kafka elects the empty replica by itself, and all records go.

The scenario waits until b4 leads; then any of them may. What becomes of it with us stands in
incident/test_rules_of_election.py.
"""

from collections.abc import Iterator

import pytest

from tests.lab.asking import consume
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def unattended(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Damaged]:
    folder = tmp_path_factory.mktemp("lab")
    with damaged(folder, "replaced-disk-unattended", kafka_version=request.param) as lab:
        yield lab


def test_r02_left_to_itself_the_cluster_elects_the_empty_replica_and_loses_every_record(
    unattended: Damaged,
) -> None:
    truths = unattended.truth.partitions
    assert all(sum(len(written.keys) for written in truth.written) == 150 for truth in truths)
    nothing = {truth.partition: {1: 0, 2: 0, 4: 0} for truth in truths}
    assert ends_told(unattended) == ends_on_disk(unattended) == nothing
    for truth in truths:
        assert consume(unattended.cluster, truth.partition) == {}
