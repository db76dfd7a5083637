"""One damaged lab for reading and recovering: each test elects partitions of its own."""

from collections.abc import Iterator

import pytest

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.evidence.gather import Evidence, gather
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.recover.session import reading
from tests.lab.scenarios.damaged import Damaged, damaged

VERSIONS = ("4.3.1", "3.9.2")
SCENARIOS = ("stale-replicas", "diverged", "many")
EVENTS = 112
DURATION = DEADLINE_SECONDS


@pytest.fixture(scope="package", params=VERSIONS)
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Damaged]:
    """b3 led last and is dead; b1 and b2 are back, having missed the end. Nothing is elected."""
    folder = tmp_path_factory.mktemp("lab")
    options = {"partitions": str(EVENTS)}
    with damaged(folder, *SCENARIOS, options=options, kafka_version=request.param) as lab:
        yield lab


@pytest.fixture(scope="package")
def evidence(lab: Damaged) -> dict[TopicPartition, PartitionEvidence]:
    """Everything that is read of every partition, before any of them is elected."""
    with reading(lab.cluster) as client:
        *_, last = read_all(client)
    return {partition.partition: partition for partition in last.partitions}


def read_all(client: ReadClient) -> Iterator[Evidence]:
    """What a gathering yields."""
    snapshot = client.snapshot(Deadline.after(DURATION))
    yield from gather(client, snapshot, snapshot.offline, Deadline.after(DURATION))


@pytest.fixture(scope="package")
def unused(
    lab: Damaged, evidence: dict[TopicPartition, PartitionEvidence]
) -> Iterator[TopicPartition]:
    """Offline partitions of `events`, each handed out once: b1 holds 3 records of each, b2 2."""
    return iter([truth.partition for truth in lab.truth.of("many")])
