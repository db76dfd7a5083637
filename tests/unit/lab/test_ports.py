"""Ports of labs: free, in turn, and never those of a node that is down."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import new_broker, new_cluster
from breakglass.services.lab.layout import Address
from breakglass.services.lab.ports import COUNTER, LOWEST, free_ports

EPHEMERAL = 32768
"""The first port that the system hands to outgoing connections, if not set otherwise."""


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a counter that no other process uses."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "breakglass"
    folder.mkdir(parents=True)
    return folder / COUNTER


def test_a_port_that_is_taken_is_not_handed_out(counter: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_ports(1)[0]))
        taken.listen()
        port = taken.getsockname()[1]
        counter.write_text(str(port - LOWEST))
        assert port not in free_ports(2)


def test_a_port_comes_up_again_only_after_all_others(counter: Path) -> None:
    counter.write_text("0")
    handed_out = [port for _ in range(20) for port in free_ports(100)]
    assert handed_out == sorted(set(handed_out))
    counter.write_text(str(EPHEMERAL - LOWEST - 1))
    assert min(free_ports(2)) < handed_out[-1], "the first port follows the last"


def test_labs_that_ask_at_the_same_time_get_different_ports(counter: Path) -> None:
    assert not counter.exists()
    with ThreadPoolExecutor(4) as labs:
        handed_out = [port for ports in labs.map(free_ports, [10] * 40) for port in ports]
    assert len(set(handed_out)) == len(handed_out) == 400


@pytest.mark.parametrize("kept", [b"", b"\xff", b"-1", b"9" * 30])
def test_a_damaged_counter_begins_anywhere(counter: Path, tmp_path: Path, kept: bytes) -> None:
    counter.write_bytes(kept)
    assert len(set(free_ports(3))) == 3
    counter.unlink()
    counter.symlink_to(tmp_path / "elsewhere")
    assert len(set(free_ports(3))) == 3
    assert not (tmp_path / "elsewhere").exists()


def test_ports_of_nodes_that_are_down_are_not_handed_out(counter: Path, tmp_path: Path) -> None:
    layout = new_cluster(tmp_path, brokers=2, controllers=1, kafka_version="4.3.1")
    proxied = replace(
        layout.node(2),
        advertised=Address("127.0.0.1", max(layout.ports) + 1),
        controller_links={101: Address("127.0.0.1", max(layout.ports) + 2)},
    )
    layout = layout.with_node(proxied)
    counter.write_text(str(min(layout.ports) - LOWEST))
    assert not layout.ports & set(new_broker(layout).ports.values())
