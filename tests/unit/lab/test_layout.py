"""The layout of a lab: planned, kept in lab.json, read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import (
    FIRST_CONTROLLER,
    LAYOUT_FILE,
    Address,
    load_layout,
    save_layout,
)
from breakglass.services.lab.node import format_folder
from breakglass.services.lab.planning import new_broker, new_cluster


def test_a_layout_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    layout = new_cluster(
        tmp_path, brokers=2, controllers=1, kafka_version="4.3.1", racks=("a",), log_dirs=2
    )
    proxied = replace(
        layout.node(2),
        advertised=Address("127.0.0.1", 1),
        controller_links={FIRST_CONTROLLER: Address("127.0.0.1", 2)},
        overrides={"num.io.threads": "2"},
    )
    changed = replace(layout.with_node(proxied), overrides={"a": "b"}, secured=True)
    save_layout(changed)
    assert load_layout(tmp_path) == changed


def test_every_listener_has_a_port_of_its_own(tmp_path: Path) -> None:
    layout = new_cluster(tmp_path, brokers=3, controllers=3, kafka_version="4.3.1")
    ports = [port for node in layout.nodes for port in node.ports.values()]
    assert len(set(ports)) == len(ports) == 9
    assert [node.id for node in layout.nodes] == [1, 2, 3, 101, 102, 103]


def test_a_new_broker_is_like_the_others(tmp_path: Path) -> None:
    layout = new_cluster(tmp_path, brokers=2, controllers=1, kafka_version="4.3.1", log_dirs=2)
    added = new_broker(layout, rack="west")
    assert (added.id, added.rack, len(added.log_dirs)) == (3, "west", 2)
    assert not layout.ports & set(added.ports.values())


@pytest.mark.parametrize(("brokers", "controllers"), [(0, 1), (1, 0), (101, 1)])
def test_counts_that_make_no_cluster_are_refused(
    tmp_path: Path, brokers: int, controllers: int
) -> None:
    with pytest.raises(LabError):
        new_cluster(tmp_path, brokers=brokers, controllers=controllers, kafka_version="4.3.1")


@pytest.mark.parametrize("text", [None, "{", '{"schema": 99}'])
def test_a_folder_without_a_readable_lab_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / LAYOUT_FILE).write_text(text)
    with pytest.raises(LabError):
        load_layout(tmp_path)


def test_a_formatted_folder_stays_as_it_is(tmp_path: Path) -> None:
    format_folder(tmp_path / "data", cluster_id="c", node_id=1)
    meta = (tmp_path / "data" / "meta.properties").read_text()
    assert {"cluster.id=c", "node.id=1"} <= set(meta.splitlines())
    format_folder(tmp_path / "data", cluster_id="other", node_id=2)
    assert (tmp_path / "data" / "meta.properties").read_text() == meta


def test_a_node_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    layout = new_cluster(tmp_path, brokers=1, controllers=1, kafka_version="4.3.1")
    with pytest.raises(LabError):
        layout.node(7)
