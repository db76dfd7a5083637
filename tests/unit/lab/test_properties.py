"""server.properties: what each node is told, and which of several sources wins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from breakglass.services.lab.cluster import new_cluster
from breakglass.services.lab.layout import FIRST_CONTROLLER
from breakglass.services.lab.properties import render, server_properties
from breakglass.services.lab.security import security_settings

LAYOUT = new_cluster(Path("/lab"), brokers=2, controllers=2, kafka_version="4.3.1", log_dirs=2)
LAG = "replica.lag.time.max.ms"


def test_a_node_overrides_the_cluster_which_overrides_the_defaults() -> None:
    special = replace(LAYOUT.node(2), overrides={LAG: "8"})
    changed = replace(LAYOUT, overrides={LAG: "7"}).with_node(special)
    told = [server_properties(layout, layout.node(1)) for layout in (LAYOUT, changed)]
    told.append(server_properties(changed, special))
    assert [one[LAG] for one in told] == ["3000", "7", "8"]
    assert {one["unclean.leader.election.enable"] for one in told} == {"false"}


def test_values_are_escaped_as_java_reads_them() -> None:
    assert render({"b": "C:\\data", "a": "one\ntwo"}) == "a=one\\ntwo\nb=C:\\\\data\n"


def test_a_guarded_lab_guards_the_listeners_of_clients_alone() -> None:
    guarded = replace(LAYOUT, secured=True)
    broker, controller = (
        security_settings(guarded, guarded.node(number)) for number in (1, FIRST_CONTROLLER)
    )
    assert "authorizer.class.name" in broker.keys() & controller.keys()
    assert {name.split(".")[2] for name in broker if name.startswith("listener.name.")} == {
        "client"
    }
    assert not [name for name in controller if name.startswith("listener.name.")]
