"""One lab for all scenarios that can be played together, and one recovery of it.

b3 led last nearly everywhere and stays dead; b4 led `carts` last and is back with empty disks.
What was found is kept from before the recovery, so that tests may come in any order.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.execution.target import ElectionTarget, PartitionOutcome
from breakglass.services.recovery.guarded.aftermath import open_transactions_after
from breakglass.services.recovery.triage import Triage
from tests.lab.recover.incident.beside import GROUP_READ_ON, TRIMMED_LOGS
from tests.lab.recover.session import Watched, judged, read_again, recommendations, targets, watched
from tests.lab.scenarios.damaged import Damaged, damaged

TOGETHER = (
    "stale-replicas",
    "diverged",
    "empty-replica",
    "replaced-disk",
    "hanging-transaction",
    "reassigning",
    "compacted",
    "many",
)
BESIDE = (TRIMMED_LOGS, GROUP_READ_ON)
CARTS = tuple(TopicPartition("carts", number) for number in range(3))
MOVING = TopicPartition("shipments", 0)


class Attempt(NamedTuple):
    """An election that must not be held, tried all the same."""

    outcomes: tuple[PartitionOutcome, ...]
    changes: tuple[int, ...]
    """Api keys of the requests that changed the cluster until then, reading included."""


class Recovered(NamedTuple):
    """What a recovery found, chose and did."""

    found: Triage
    targets: tuple[ElectionTarget, ...]
    outcomes: tuple[PartitionOutcome, ...]
    watched: Watched
    left_open: tuple[OpenTransaction, ...] | Unknown


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    folder = tmp_path_factory.mktemp("lab")
    with damaged(folder, *TOGETHER, beside=BESIDE, options={"partitions": "200"}) as lab:
        yield lab


@pytest.fixture(scope="package")
def behind(lab: Damaged) -> Iterator[Watched]:
    with watched(lab.cluster) as behind:
        yield behind


@pytest.fixture(scope="package")
def client(behind: Watched) -> Iterator[ReadClient]:
    with behind.connection.reading() as client:
        yield client


@pytest.fixture(scope="package")
def found(client: ReadClient) -> Triage:
    return judged(client)


@pytest.fixture(scope="package")
def incident(found: Triage, behind: Watched) -> Incident:
    """The same as the console's watch has it, after a second look at what may have changed."""
    assert found.assessments
    with closing(IncidentWatch(behind.connection.access())) as watch:
        *_, first = watch.read()
        return read_again(watch, first)


@pytest.fixture(scope="package")
def attempt(
    client: ReadClient,
    found: Triage,
    incident: Incident,
    behind: Watched,
    tmp_path_factory: pytest.TempPathFactory,
) -> Attempt:
    """Electing b1 on the partitions that b4 threatens, and on the one that is being moved."""
    assert incident.complete
    wanted = targets(found, dict.fromkeys((*CARTS, MOVING), 1))
    outcomes = behind.recover(client, wanted, tmp_path_factory.mktemp("state"))
    return Attempt(tuple(outcomes), tuple(behind.changes))


@pytest.fixture(scope="package")
def found_without(lab: Damaged, client: ReadClient, found: Triage, attempt: Attempt) -> Triage:
    """The same once b4 was stopped as triage says, and b3 is known never to come back."""
    lab.cluster.broker(4).kill()
    lab.cluster.wait_fenced(4)
    return judged(client, gone=[3, 4])


@pytest.fixture(scope="package")
def recovered(
    client: ReadClient,
    found_without: Triage,
    behind: Watched,
    tmp_path_factory: pytest.TempPathFactory,
) -> Recovered:
    chosen = recommendations(found_without)
    outcomes = behind.recover(client, chosen, tmp_path_factory.mktemp("state"))
    left_open = open_transactions_after(client, outcomes)
    return Recovered(found_without, tuple(chosen), tuple(outcomes), behind, left_open)
