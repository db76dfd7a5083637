"""A lab on which scenarios were played, with the truth about it; gone after the tests."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import DEFAULT_VERSION
from breakglass.services.lab.scenarios import find_scenarios
from breakglass.services.lab.scenarios.scenario import Scenario, play, raise_lab
from breakglass.services.lab.truth import PartitionTruth, Truth
from breakglass.services.model import PartitionState, TopicPartition
from tests.lab.asking import list_offset


class Damaged(NamedTuple):
    """A lab and what is known about it."""

    cluster: Cluster
    truth: Truth

    def state(self, partition: TopicPartition) -> PartitionState:
        return self.cluster.partition(partition.topic, partition.partition)

    def truth_of(self, partition: TopicPartition) -> PartitionTruth:
        return self.truth.partition(partition.topic, partition.partition)


@contextmanager
def damaged(
    folder: Path,
    *names: str,
    beside: Sequence[Scenario] = (),
    options: Mapping[str, str] | None = None,
    kafka_version: str = DEFAULT_VERSION,
    overrides: Mapping[str, str] | None = None,
    secured: bool = False,
) -> Iterator[Damaged]:
    """The lab after the scenarios of these names, and of those *beside* that have none."""
    scenarios = (*find_scenarios(names), *beside)
    settings: dict[str, Any] = {"overrides": overrides, "secured": secured}
    with raise_lab(
        folder, scenarios, kafka_version=kafka_version, tethered=True, **settings
    ) as cluster:
        yield Damaged(cluster, play(cluster, scenarios, options))


def lab_after(*names: str, **options: Any) -> Any:
    """A fixture of a module, whose tests share the lab that `damaged` makes of the same."""

    @pytest.fixture(scope="module")
    def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
        with damaged(tmp_path_factory.mktemp("lab"), *names, **options) as found:
            yield found

    return lab


def cluster_after(scenario: Scenario) -> Any:
    """The same with the cluster alone, after one scenario that has no name."""

    @pytest.fixture(scope="module")
    def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
        with damaged(tmp_path_factory.mktemp("lab"), beside=[scenario]) as found:
            yield found.cluster

    return cluster


def ends_told(lab: Damaged) -> dict[TopicPartition, dict[int, int]]:
    """Where the replicas end that can be read, as their brokers tell."""
    return {
        partition.partition: {
            replica.broker: list_offset(lab.cluster, replica.broker, partition.partition).offset
            for replica in partition.replicas
            if replica.readable
        }
        for partition in lab.truth.partitions
    }


def ends_on_disk(lab: Damaged) -> dict[TopicPartition, dict[int, int]]:
    """The same, as the truth has it."""
    return {
        partition.partition: {
            replica.broker: replica.log_end for replica in partition.replicas if replica.readable
        }
        for partition in lab.truth.partitions
    }
