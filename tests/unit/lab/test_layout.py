"""The layout of a lab: planned, kept in lab.json, read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import new_broker, new_cluster
from breakglass.services.lab.layout import (
    FIRST_CONTROLLER,
    LAYOUT_FILE,
    Address,
    load_layout,
    save_layout,
)


def test_a_layout_comes_back_as_it_was_saved_and_each_listener_has_its_port(tmp_path: Path) -> None:
    layout = new_cluster(
        tmp_path, brokers=2, controllers=1, kafka_version="4.3.1", racks=("a",), log_dirs=2
    )
    ports = [port for node in layout.nodes for port in node.ports.values()]
    assert len(set(ports)) == len(ports) == 5
    added = new_broker(layout, rack="west")
    assert (added.id, added.rack, len(added.log_dirs)) == (3, "west", 2)
    proxied = replace(
        layout.node(2),
        advertised=Address("127.0.0.1", 1),
        controller_links={FIRST_CONTROLLER: Address("127.0.0.1", 2)},
        overrides={"num.io.threads": "2"},
    )
    changed = replace(layout.with_node(proxied), overrides={"a": "b"}, secured=True)
    save_layout(changed)
    assert load_layout(tmp_path) == changed
    with pytest.raises(LabError):
        layout.node(7)


@pytest.mark.parametrize(("brokers", "controllers"), [(0, 1), (1, 0), (101, 1)])
def test_counts_of_no_cluster_are_refused(tmp_path: Path, brokers: int, controllers: int) -> None:
    with pytest.raises(LabError):
        new_cluster(tmp_path, brokers=brokers, controllers=controllers, kafka_version="4.3.1")


@pytest.mark.parametrize("text", [None, "{", '{"schema": 99}'])
def test_a_folder_without_a_readable_lab_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / LAYOUT_FILE).write_text(text)
    with pytest.raises(LabError):
        load_layout(tmp_path)
