"""Links a broker to its controllers through proxies that can be cut, and stay cut.

Each proxy is a process of its own, so that a link stays cut after the command that cut it ended.
Cutting kills the proxy; healing starts it again on the same port.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab import process
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import LOOPBACK, Address, Listener, free_ports
from breakglass.services.lab.wire import accepts

OPEN_SECONDS = 300.0
KILL_SECONDS = 120.0
POLL_SECONDS = 0.02
PACKAGES = Path(__file__).parents[3]
"""Where the process finds this package, installed or not."""


class ControllerLink:
    """The proxies between one broker and every controller.

    `Cluster.down` ends them with the rest; they do not start by themselves with a lab that was
    kept, but by `heal`.
    """

    def __init__(self, cluster: Cluster, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker

    @property
    def whole(self) -> bool:
        """Every proxy runs."""
        return all(_running(self._record_file(address)) for address in self._addresses)

    def plan(self, *, withheld: Collection[int] = ()) -> None:
        """Lead the broker through proxies from its next start on, and open them.

        Requests of the api keys in *withheld* do not come through until `let_pass`.

        Raises:
            LabError: a proxy does not start.
        """
        layout = self._cluster.layout
        ports = free_ports(len(layout.controllers), besides=layout.ports)
        for controller, port in zip(layout.controllers, ports, strict=True):
            address = Address(LOOPBACK, port)
            self._cluster.link_controller(self._broker, controller.id, address)
            self._open(controller.id, address, withheld)

    def let_pass(self) -> None:
        """Let through what was withheld; the broker tries again by itself."""
        for controller in self._addresses:
            record = process.load_record(self._record_file(controller))
            if record is not None:
                process.send(record, signal.SIGUSR1)

    def cut(self) -> None:
        """Break the connections and refuse new ones; the broker is soon fenced.

        The broker still serves clients, but its metadata is no longer updated.
        """
        for controller in self._addresses:
            _end(self._record_file(controller))

    def heal(self) -> None:
        """Let the broker reach its controllers again.

        Raises:
            LabError: a proxy does not start.
        """
        for controller, address in self._addresses.items():
            if not _running(self._record_file(controller)):
                self._open(controller, address)

    @property
    def _addresses(self) -> dict[int, Address]:
        return dict(self._cluster.layout.node(self._broker).controller_links)

    def _record_file(self, controller: int) -> Path:
        return self._cluster.layout.node(self._broker).folder / f"link-{controller}.json"

    def _open(self, controller: int, address: Address, withheld: Collection[int] = ()) -> None:
        upstream = self._cluster.layout.node(controller).address(Listener.CONTROLLER)
        record_file = self._record_file(controller)
        record_file.parent.mkdir(parents=True, exist_ok=True)
        output = record_file.with_suffix(".log")
        command = [sys.executable, "-P", "-m", "breakglass.services.lab.proxy"]
        record = process.spawn(
            [*command, str(upstream), str(address), ",".join(map(str, withheld)), str(record_file)],
            output,
            environment={"PYTHONPATH": str(PACKAGES)},
            tethered=self._cluster.layout.tethered,
        )
        process.save_record(record, record_file)
        if not _listens(address, record):
            said = output.read_text("utf-8", "replace").strip() or "it wrote nothing"
            _end(record_file)
            raise LabError(f"The proxy of broker {self._broker} did not start: {said}")


def _running(record_file: Path) -> bool:
    record = process.load_record(record_file)
    return record is not None and process.find(record) is not None


def _end(record_file: Path) -> None:
    record = process.load_record(record_file)
    if record is None or not process.send(record, signal.SIGKILL):
        return
    if not process.wait_ended(record, KILL_SECONDS):
        raise LabError(f"The proxy with pid {record.pid} does not end: kill it by hand.")


def _listens(address: Address, record: process.ProcessRecord) -> bool:
    """Wait until somebody accepts connections at *address*; False when the process ended."""
    give_up = time.monotonic() + OPEN_SECONDS
    while time.monotonic() < give_up and process.find(record) is not None:
        if accepts(address):
            return True
        time.sleep(POLL_SECONDS)
    return False
