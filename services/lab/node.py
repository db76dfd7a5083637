"""Runs one broker or controller process: formats its folders, starts, hangs, kills and breaks it.

Formatting needs no JVM: StorageTool makes ``bootstrap.checkpoint`` once for each Kafka version, and
only controllers read it (KafkaRaftServer.initializeLogDirs). A log directory fails by folders in
place of the files that a broker writes or reads there. The segments stay, so the loss is known.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab import distribution, process
from breakglass.services.lab.distribution import Distribution, kafka_cache, run_tool
from breakglass.services.lab.layout import Address, ClusterLayout, Listener, NodeLayout, NodeRole
from breakglass.services.lab.properties import render, security_settings, server_properties
from breakglass.services.lab.wire import accepts

META_FILE = "meta.properties"
BOOTSTRAP_FILE = "bootstrap.checkpoint"
FORMAT_SECONDS = 300


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


def format_dynamic(cluster: ClusterLayout, node: NodeLayout, kafka: Distribution) -> None:
    """Format a controller of a dynamic quorum by its properties file, unless it is formatted.

    One whose disks were replaced is no voter until it is added.

    Raises:
        LabError: the StorageTool failed.
    """
    if (node.metadata_dir / META_FILE).exists():
        return
    voters = ",".join(
        f"{voter}@{cluster.node(voter).address(Listener.CONTROLLER)}:{directory}"
        for voter, directory in cluster.voters.items()
    )
    own = ["--no-initial-controllers"] if node.wiped else ["--initial-controllers", voters]
    config = str(node.properties_file)
    run_tool(
        kafka,
        "kafka.tools.StorageTool",
        ["format", "-t", cluster.cluster_id, "-c", config, *own],
        timeout=FORMAT_SECONDS,
    ).check()


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


CHECKPOINT = "replication-offset-checkpoint.tmp"
KEPT_META_FILE = f"{META_FILE}.kept"


def fail_log_dir(log_dir: Path) -> None:
    """Let the broker's next checkpoint into *log_dir* fail, and every later start on it.

    A running broker takes it offline then (replica.high.watermark.checkpoint.interval.ms).
    """
    (log_dir / META_FILE).rename(log_dir / KEPT_META_FILE)
    (log_dir / META_FILE).mkdir()
    (log_dir / CHECKPOINT).unlink(missing_ok=True)
    (log_dir / CHECKPOINT).mkdir()


STOP_SECONDS = 300
PAUSE_SECONDS = 120
TAIL_LINES = 15


class Node:
    """A handle on one node of a lab; any number of them may exist for the same node.

    *cluster* gives the current layout, which changes when the node is configured again;
    *kafka* is asked only when the node is started.
    """

    def __init__(
        self, cluster: Callable[[], ClusterLayout], node_id: int, kafka: Callable[[], Distribution]
    ) -> None:
        self._cluster = cluster
        self._kafka = kafka
        self.id = node_id

    @property
    def layout(self) -> NodeLayout:
        return self._cluster().node(self.id)

    @property
    def log_file(self) -> Path:
        return distribution.log_file(self.layout)

    @property
    def pid(self) -> int | None:
        record = self._record()
        found = process.find(record) if record else None
        return found.pid if found else None

    @property
    def running(self) -> bool:
        """The process exists; it may be paused."""
        return self.pid is not None

    @property
    def paused(self) -> bool:
        """The process was stopped by SIGSTOP."""
        record = self._record()
        return record is not None and process.stopped(record)

    @property
    def awake(self) -> bool:
        """The process runs and is not paused."""
        return self.running and not self.paused

    @property
    def resident_bytes(self) -> int:
        """Resident memory; 0 when the node is down."""
        record = self._record()
        found = process.find(record) if record else None
        return int(found.memory_info().rss) if found else 0

    def address(self, listener: Listener | None = None) -> Address:
        """Where the process itself listens, whatever it advertises.

        Without *listener*: for clients on a broker, for the quorum on a controller.
        """
        layout = self.layout
        own = Listener.CLIENT if layout.role is NodeRole.BROKER else Listener.CONTROLLER
        return layout.address(listener or own)

    def start(self) -> None:
        """Start the process on the same ports and data; it is not awaited.

        Raises:
            LabError: it runs already, it is lost, or it cannot be started.
        """
        self._require_machine()
        if self.running:
            raise LabError(f"Node {self.id} runs already: kill or stop it first.")
        kafka, layout = self._kafka(), self.layout
        self._prepare(kafka)
        record = process.spawn(
            distribution.node_command(kafka, layout),
            layout.folder / "output.log",
            environment=distribution.ENVIRONMENT,
            tethered=self._cluster().tethered,
        )
        process.save_record(record, self._record_file)

    def kill(self) -> None:
        """SIGKILL, as a lost machine; returns when the process is gone.

        Raises:
            LabError: the process survives the signal.
        """
        self._end(signal.SIGKILL, process.KILL_SECONDS)

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """SIGTERM: controlled shutdown. A paused node is resumed to hear it.

        Raises:
            LabError: it is still there after *timeout* seconds.
        """
        self._signal(signal.SIGCONT)
        self._end(signal.SIGTERM, timeout)

    def pause(self) -> None:
        """SIGSTOP: the process hangs with its connections open.

        Raises:
            LabError: the node is down, or is still running afterwards.
        """
        record = self._record()
        if record is None or not process.send(record, signal.SIGSTOP):
            raise LabError(f"Node {self.id} is down: start it before pausing it.")
        if not process.wait_stopped(record, PAUSE_SECONDS):
            raise LabError(f"Node {self.id} goes on in spite of SIGSTOP: look at its process.")

    def resume(self) -> None:
        """SIGCONT after a pause.

        Raises:
            LabError: the node is down, or lost.
        """
        self._require_machine()
        if not self._signal(signal.SIGCONT):
            raise LabError(f"Node {self.id} is down: there is nothing to resume.")

    def replace_disks(self) -> None:
        """Empty every folder of the node, as after a change of disks.

        Raises:
            LabError: the node runs.
        """
        if self.running:
            raise LabError(f"Node {self.id} runs: kill or stop it before its disks are replaced.")
        for folder in (*self.layout.log_dirs, self.layout.metadata_dir):
            shutil.rmtree(folder, ignore_errors=True)

    def partition_folder(self, topic: str, partition: int) -> Path | None:
        """The folder that holds this replica, or None when there is none."""
        name = f"{topic}-{partition}"
        folders = (log_dir / name for log_dir in self.layout.log_dirs)
        return next((folder for folder in folders if folder.is_dir()), None)

    def require_running(self) -> None:
        """Return if the process exists.

        Raises:
            LabError: it ended, with the last that it wrote.
        """
        if not self.running:
            raise LabError(f"Node {self.id} ended while it was awaited:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last lines of what the process wrote, for a message."""
        for path in (self.log_file, self.layout.folder / "output.log"):
            if path.exists() and (lines := path.read_text("utf-8", "replace").splitlines()):
                return "\n".join(lines[-TAIL_LINES:])
        return "the node wrote nothing"

    def _require_machine(self) -> None:
        if self.layout.lost:
            raise LabError(
                f"The machine of node {self.id} is lost for good: recover without its disks."
            )

    @property
    def _record_file(self) -> Path:
        return self.layout.folder / process.NODE_RECORD

    def _record(self) -> process.ProcessRecord | None:
        return process.load_record(self._record_file)

    def _signal(self, signum: signal.Signals) -> bool:
        record = self._record()
        return record is not None and process.send(record, signum)

    def _end(self, signum: signal.Signals, timeout: float) -> None:
        record = self._record()
        if record is None or not process.send(record, signum):
            return
        if not process.wait_ended(record, timeout):
            raise LabError(
                f"Node {self.id} (pid {record.pid}) is still there {timeout:g} s after "
                f"{signum.name}: kill it."
            )

    def _prepare(self, kafka: Distribution) -> None:
        cluster, layout = self._cluster(), self.layout
        distribution.scratch_folder(layout).mkdir(parents=True, exist_ok=True)
        text = render(server_properties(cluster, layout, security_settings(cluster, layout)))
        layout.properties_file.write_text(text, encoding="utf-8")
        if cluster.voters and layout.role is NodeRole.CONTROLLER:
            format_dynamic(cluster, layout, kafka)
        for folder in (*layout.log_dirs, layout.metadata_dir):
            format_folder(folder, cluster_id=cluster.cluster_id, node_id=self.id)
        if layout.role is NodeRole.CONTROLLER and not cluster.voters:
            format_controller(
                layout.metadata_dir, kafka, cluster_id=cluster.cluster_id, node_id=self.id
            )
        logging = layout.folder / "logging.properties"
        logging.write_text(distribution.logging_configuration(kafka, layout), encoding="utf-8")


def all_listen(nodes: Iterable[Node]) -> bool:
    """Whether all *nodes* accept connections at their own addresses.

    Raises:
        LabError: one ended.
    """
    for node in nodes:
        node.require_running()
        if not accepts(node.address()):
            return False
    return True
