"""server.properties: what each node is told, and which of several sources wins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.lab.layout import FIRST_CONTROLLER, ClusterLayout, Listener
from breakglass.services.lab.planning import new_cluster
from breakglass.services.lab.properties import render, server_properties
from breakglass.services.lab.security import security_settings


@pytest.fixture
def layout() -> ClusterLayout:
    """Two brokers in two racks, two controllers, two log directories each."""
    return new_cluster(
        Path("/lab"),
        brokers=2,
        controllers=2,
        kafka_version="4.3.1",
        racks=("east", "west"),
        log_dirs=2,
    )


def properties(layout: ClusterLayout, node_id: int) -> dict[str, str]:
    return server_properties(layout, layout.node(node_id))


def test_a_broker_listens_for_clients_and_for_the_lab(layout: ClusterLayout) -> None:
    broker = layout.node(1)
    client, lab = broker.address(Listener.CLIENT), broker.address(Listener.LAB)
    told = properties(layout, 1)
    assert told["listeners"] == f"CLIENT://{client},LAB://{lab}"
    assert told["advertised.listeners"] == told["listeners"]
    assert told["inter.broker.listener.name"] == "LAB"
    assert told["process.roles"] == "broker"


def test_a_node_overrides_the_cluster_which_overrides_the_defaults(layout: ClusterLayout) -> None:
    assert properties(layout, 1)["replica.lag.time.max.ms"] == "3000"
    changed = replace(layout, overrides={"replica.lag.time.max.ms": "7"})
    special = replace(layout.node(2), overrides={"replica.lag.time.max.ms": "8"})
    changed = changed.with_node(special)
    assert properties(changed, 1)["replica.lag.time.max.ms"] == "7"
    assert properties(changed, 2)["replica.lag.time.max.ms"] == "8"


def test_nothing_is_elected_uncleanly_unless_asked_for(layout: ClusterLayout) -> None:
    assert properties(layout, FIRST_CONTROLLER)["unclean.leader.election.enable"] == "false"


def test_values_are_escaped_as_java_reads_them() -> None:
    assert render({"b": "C:\\data", "a": "one\ntwo"}) == "a=one\\ntwo\nb=C:\\\\data\n"


def test_a_guarded_lab_guards_the_listeners_of_clients_alone(layout: ClusterLayout) -> None:
    guarded = replace(layout, secured=True)
    told = security_settings(guarded, guarded.node(1))
    assert told["authorizer.class.name"].endswith("StandardAuthorizer")
    assert {name.split(".")[2] for name in told if name.startswith("listener.name.")} == {"client"}
    controller = security_settings(guarded, guarded.node(FIRST_CONTROLLER))
    assert set(controller) == {
        "authorizer.class.name",
        "super.users",
        "allow.everyone.if.no.acl.found",
    }
    protocols = properties(guarded, 1)["listener.security.protocol.map"]
    assert protocols == "CLIENT:SASL_SSL,LAB:PLAINTEXT,CONTROLLER:PLAINTEXT"
