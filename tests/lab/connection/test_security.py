"""A guarded lab: clients come in by SASL_SSL and may do what ACLs allow, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.security import (
    OPERATOR,
    SCRAM,
    SUPER_USER,
)
from breakglass.services.lab.tools import TOPICS, run_tool
from breakglass.services.lab.topics import create_topic
from tests.kit.access import Acl, Operation, Resource, add_scram_user, grant, revoke
from tests.kit.client_properties import write_client_properties


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two guarded brokers with the topic `orders`."""
    state_dir = tmp_path_factory.mktemp("guarded")
    with Cluster.up(state_dir, brokers=2, secured=True, tethered=True) as cluster:
        create_topic(cluster, "orders", [[1, 2]])
        yield cluster


def describe(
    cluster: Cluster,
    user: str,
    mechanism: str = "PLAIN",
    stores: str = "PEM",
    certificate: bool = False,
) -> str:
    """What Kafka's own tool shows *user* of the topic."""
    config = write_client_properties(
        cluster.layout, user, mechanism=mechanism, stores=stores, certificate=certificate
    )
    bootstrap = ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(config)]
    return (
        run_tool(cluster.kafka, TOPICS, [*bootstrap, "--describe", "--topic", "orders"])
        .check()
        .stdout
    )


@pytest.mark.parametrize("stores", ["PEM", "PKCS12"])
def test_the_super_user_comes_in_by_tls_and_password(guarded: Cluster, stores: str) -> None:
    assert "Topic: orders" in describe(guarded, SUPER_USER, stores=stores)


@pytest.mark.parametrize("stores", ["PEM", "PKCS12"])
def test_a_client_may_show_a_certificate(guarded: Cluster, stores: str) -> None:
    assert "Topic: orders" in describe(guarded, SUPER_USER, stores=stores, certificate=True)


def test_others_see_nothing_until_an_acl_allows_it(guarded: Cluster) -> None:
    allowed = Acl(OPERATOR, Operation.DESCRIBE, Resource.TOPIC, "orders")
    configs = Acl(OPERATOR, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "orders")
    with pytest.raises(LabError, match="does not exist"):
        describe(guarded, OPERATOR)
    grant(guarded, allowed, configs)
    assert "Topic: orders" in describe(guarded, OPERATOR)
    revoke(guarded, allowed, configs)
    with pytest.raises(LabError, match="does not exist"):
        describe(guarded, OPERATOR)


def test_a_scram_user_is_known_at_once(guarded: Cluster) -> None:
    add_scram_user(guarded, "carol")
    grant(guarded, Acl("carol", Operation.ALL, Resource.TOPIC, "*"))
    assert "Topic: orders" in describe(guarded, "carol", SCRAM)


def test_the_lab_itself_writes_past_the_guard(guarded: Cluster) -> None:
    assert produce(guarded, "orders", 0, 2).offsets == (0, 1)
