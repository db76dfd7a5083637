"""One broker or controller process: started, killed, hung, stopped and started again."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab import jvm, process
from breakglass.services.lab.distribution import Distribution
from breakglass.services.lab.layout import (
    Address,
    ClusterLayout,
    Listener,
    NodeLayout,
    NodeRole,
)
from breakglass.services.lab.properties import render, server_properties
from breakglass.services.lab.security import security_settings
from breakglass.services.lab.storage import format_controller, format_folder

STOP_SECONDS = 30
PAUSE_SECONDS = 10
TAIL_LINES = 15


class Node:
    """A handle on one node of a lab; any number of them may exist for the same node.

    *cluster* gives the current layout, which changes when the node is configured anew;
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
        """The node's own log."""
        return jvm.log_file(self.layout)

    @property
    def pid(self) -> int | None:
        """The process id, or None when the node is down."""
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
            LabError: it runs already, or cannot be started.
        """
        if self.running:
            raise LabError(f"Node {self.id} runs already: kill or stop it first.")
        kafka, layout = self._kafka(), self.layout
        self._prepare(kafka)
        record = process.spawn(
            jvm.node_command(kafka, layout),
            layout.folder / "output.log",
            environment=jvm.ENVIRONMENT,
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
            LabError: the node is down, or goes on.
        """
        record = self._record()
        if record is None or not process.send(record, signal.SIGSTOP):
            raise LabError(f"Node {self.id} is down: start it before pausing it.")
        if not process.wait_stopped(record, PAUSE_SECONDS):
            raise LabError(f"Node {self.id} goes on in spite of SIGSTOP: look at its process.")

    def resume(self) -> None:
        """SIGCONT after a pause.

        Raises:
            LabError: the node is down.
        """
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

    def log_tail(self) -> str:
        """The last lines of what the process wrote, for a message."""
        for path in (self.log_file, self.layout.folder / "output.log"):
            if path.exists() and (lines := path.read_text("utf-8", "replace").splitlines()):
                return "\n".join(lines[-TAIL_LINES:])
        return "the node wrote nothing"

    @property
    def _record_file(self) -> Path:
        return self.layout.folder / "process.json"

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
        jvm.scratch_folder(layout).mkdir(parents=True, exist_ok=True)
        for folder in (*layout.log_dirs, layout.metadata_dir):
            format_folder(folder, cluster_id=cluster.cluster_id, node_id=self.id)
        if layout.role is NodeRole.CONTROLLER:
            format_controller(
                layout.metadata_dir, kafka, cluster_id=cluster.cluster_id, node_id=self.id
            )
        text = render(server_properties(cluster, layout, security_settings(cluster, layout)))
        layout.properties_file.write_text(text, encoding="utf-8")
        logging = layout.folder / "logging.properties"
        logging.write_text(jvm.logging_configuration(kafka, layout), encoding="utf-8")
