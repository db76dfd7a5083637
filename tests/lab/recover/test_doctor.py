"""The doctor of a guarded cluster: a listener that leads nowhere, and an ACL that is missing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Address, Listener
from breakglass.services.lab.properties import OPERATOR
from breakglass.services.lab.topics import create_topic
from tests.kit.access import Acl, Operation, Resource, grant, granted
from tests.kit.client_properties import write_client_properties
from tests.kit.program import Ended, breakglass

NOWHERE = Address("127.0.0.1", 1)
"""Nothing listens there: b2 runs, and clients are told to go there."""
READ = Acl(OPERATOR, Operation.READ, Resource.TOPIC, "orders")
GRANTED = (
    Acl(OPERATOR, Operation.DESCRIBE, Resource.TOPIC, "orders"),
    Acl(OPERATOR, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "orders"),
    Acl(OPERATOR, Operation.DESCRIBE, Resource.CLUSTER),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers, the second with a broken listener; the operator may not read orders."""
    made = Cluster.plan(tmp_path_factory.mktemp("lab"), brokers=2, secured=True, tethered=True)
    made.advertise(2, NOWHERE)
    with made as cluster:
        cluster.start()
        create_topic(cluster, "orders", [(1, 2)])
        grant(cluster, *GRANTED)
        yield cluster


def examined(cluster: Cluster, *words: object) -> tuple[Ended, dict[str, Any]]:
    """What the doctor says to the operator, by check."""
    config = write_client_properties(cluster.layout, OPERATOR)
    servers = cluster.bootstrap_servers.split(",")[0]
    ended = breakglass(
        *("doctor", "--bootstrap-server", servers, "--command-config", config, "--json"), *words
    )
    assert ended.out, ended.err
    return ended, {check["name"]: check for check in ended.document["checks"]}


def test_a_broken_listener_and_a_missing_acl_say_what_to_do(cluster: Cluster) -> None:
    ended, found = examined(cluster)

    assert ended.code == 1
    assert found["cluster"]["state"] == "ok"
    assert found["broker b2"]["state"] == "do"
    assert str(NOWHERE) in found["broker b2"]["found"]
    assert "advertised.listeners" in found["broker b2"]["action"]
    assert found["brokers"]["found"] == "1 of 2 answer"
    assert found["ACLs"]["state"] == "do"
    assert found["ACLs"]["found"] == "missing: READ on topic orders"
    assert found["ACLs of elections"]["found"] == "missing: ALTER on CLUSTER"
    assert found["clock"]["state"] == "ok", "brokers of this machine have its clock"


def test_what_was_put_right_is_ok(cluster: Cluster) -> None:
    address = cluster.layout.node(2).address(Listener.CLIENT)
    with granted(cluster, READ):
        _, found = examined(cluster, "--broker-address", f"2={address}")

    assert found["ACLs"]["state"] == "ok"
    assert found["brokers"]["found"] == "2 of 2 answer"
    assert found["librdkafka"]["state"] == "note"
    assert "broker b2" not in found


def test_a_wrong_password_is_said_by_the_cluster_alone(cluster: Cluster, tmp_path: Path) -> None:
    right = write_client_properties(cluster.layout, OPERATOR)
    wrong = tmp_path / "wrong.properties"
    text = right.read_text("utf-8")
    wrong.write_text(text.replace(f'username="{OPERATOR}"', 'username="nobody"'))

    ended = breakglass(
        *("doctor", "--bootstrap-server", cluster.bootstrap_servers),
        *("--command-config", wrong, "--json"),
    )

    found = {check["name"]: check for check in ended.document["checks"]}
    assert ended.code == 1
    assert "rejected the credentials" in found["cluster"]["action"]
    assert found["librdkafka"]["state"] == found["ACLs"]["state"] == "?"
