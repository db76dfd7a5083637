"""Formatting a node's folders as Kafka's StorageTool does, without a JVM for each node.

A node needs ``meta.properties`` in every folder; a controller also ``bootstrap.checkpoint``,
the feature levels that a new cluster starts with. That file is made by the StorageTool
itself, once for each Kafka version, and copied from the cache afterwards. Brokers never
read it (org.apache.kafka.metadata.storage.Formatter, KafkaRaftServer.initializeLogDirs).
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path

from breakglass.services.lab.distribution import Distribution, kafka_cache
from breakglass.services.lab.properties import render
from breakglass.services.lab.tools import run_tool

META_FILE = "meta.properties"
BOOTSTRAP_FILE = "bootstrap.checkpoint"
FORMAT_SECONDS = 60


def kafka_uuid() -> str:
    """A random id as Kafka writes it: URL-safe base64, never starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def format_folder(folder: Path, *, cluster_id: str, node_id: int) -> None:
    """Make *folder* a log directory of the node; one that is formatted stays as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    meta = folder / META_FILE
    if meta.exists():
        return
    properties = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": kafka_uuid(),
    }
    meta.write_text(render(properties), encoding="ascii")


def format_controller(
    folder: Path, kafka: Distribution, *, cluster_id: str, node_id: int, cache: Path | None = None
) -> None:
    """Format the metadata directory of a controller, with the features of a new cluster.

    Raises:
        LabError: the StorageTool failed.
    """
    format_folder(folder, cluster_id=cluster_id, node_id=node_id)
    target = folder / BOOTSTRAP_FILE
    if not target.exists():
        shutil.copyfile(bootstrap_checkpoint(kafka, cache), target)


def bootstrap_checkpoint(kafka: Distribution, cache: Path | None = None) -> Path:
    """The cached checkpoint of this Kafka version, made by the StorageTool when missing."""
    kept = (cache or kafka_cache()) / f"kafka-{kafka.version}.{BOOTSTRAP_FILE}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="breakglass-format-") as scratch:
            made = _run_storage_tool(kafka, Path(scratch))
            partial = kept.with_name(f"{kept.name}.{os.getpid()}.partial")
            shutil.copyfile(made, partial)
            partial.replace(kept)
    return kept


def _run_storage_tool(kafka: Distribution, scratch: Path, arguments: Iterable[str] = ()) -> Path:
    data = scratch / "data"
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:1",
        "log.dirs": str(data),
    }
    config = scratch / "format.properties"
    config.write_text(render(properties), encoding="utf-8")
    run_tool(
        kafka,
        "kafka.tools.StorageTool",
        ["format", "-t", kafka_uuid(), "-c", str(config), *arguments],
        timeout=FORMAT_SECONDS,
    ).check()
    return data / BOOTSTRAP_FILE
