"""Laying out a new lab: node ids, ports, folders and racks, before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import (
    FIRST_CONTROLLER,
    ClusterLayout,
    Listener,
    NodeLayout,
    NodeRole,
)
from breakglass.services.lab.ports import free_ports
from breakglass.services.lab.storage import kafka_uuid

MOST_BROKERS = FIRST_CONTROLLER - 1


def new_cluster(
    state_dir: Path,
    *,
    brokers: int,
    controllers: int,
    kafka_version: str,
    racks: Sequence[str] = (),
    log_dirs: int = 1,
) -> ClusterLayout:
    """A layout with *brokers* (1, 2, ...) and *controllers* (101, 102, ...).

    Raises:
        LabError: counts that make no cluster.
    """
    _check(brokers, controllers, log_dirs)
    ports = iter(free_ports(2 * brokers + controllers))
    nodes = [
        NodeLayout(
            id=broker,
            role=NodeRole.BROKER,
            folder=state_dir / f"broker-{broker}",
            ports={Listener.CLIENT: next(ports), Listener.LAB: next(ports)},
            log_dirs=_log_dirs(state_dir / f"broker-{broker}", log_dirs),
            rack=racks[(broker - 1) % len(racks)] if racks else None,
        )
        for broker in range(1, brokers + 1)
    ]
    nodes += [
        NodeLayout(
            id=controller,
            role=NodeRole.CONTROLLER,
            folder=state_dir / f"controller-{controller}",
            ports={Listener.CONTROLLER: next(ports)},
            log_dirs=(state_dir / f"controller-{controller}" / "metadata",),
        )
        for controller in range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
    ]
    return ClusterLayout(
        state_dir=state_dir,
        cluster_id=kafka_uuid(),
        kafka_version=kafka_version,
        nodes=tuple(nodes),
    )


def new_broker(cluster: ClusterLayout, *, rack: str | None = None) -> NodeLayout:
    """One more broker, with the next free id and as many log directories as the others."""
    broker = max(node.id for node in cluster.brokers) + 1
    client, lab = free_ports(2)
    folder = cluster.state_dir / f"broker-{broker}"
    return NodeLayout(
        id=broker,
        role=NodeRole.BROKER,
        folder=folder,
        ports={Listener.CLIENT: client, Listener.LAB: lab},
        log_dirs=_log_dirs(folder, len(cluster.brokers[0].log_dirs)),
        rack=rack,
    )


def _log_dirs(folder: Path, count: int) -> tuple[Path, ...]:
    return tuple(folder / f"data-{number}" for number in range(1, count + 1))


def _check(brokers: int, controllers: int, log_dirs: int) -> None:
    if not 1 <= brokers <= MOST_BROKERS:
        raise LabError(f"A lab has 1 to {MOST_BROKERS} brokers, not {brokers}: ask for fewer.")
    if controllers < 1 or log_dirs < 1:
        raise LabError("A lab needs a controller and a log directory: ask for at least one each.")
