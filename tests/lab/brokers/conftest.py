"""Labs that the facts are looked up on, and the product's sender to ask them with."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.api_keys import READ
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.scenarios.damaged import Damaged, damaged

SECONDS = DEADLINE_SECONDS


@contextmanager
def sender_to(cluster: Cluster) -> Iterator[Sender]:
    """A sender for reads that knows every broker of the lab."""
    servers = tuple(Endpoint(*node.address()) for node in cluster.brokers)
    sender = Sender(servers, ClientSecurity(ConnectionSettings(servers)), READ)
    try:
        ReadClient(sender).describe(Deadline.after(SECONDS))
        yield sender
    finally:
        sender.close()


@pytest.fixture(scope="package")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """`ledger-0` with replicas that diverge, `orders-0..2` with replicas that are stale."""
    folder = tmp_path_factory.mktemp("lab")
    with damaged(folder, "stale-replicas", "diverged") as lab:
        yield lab
