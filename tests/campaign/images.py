"""Restores nodes from a memory image: what a JVM costs to start is paid once for a campaign.

A JVM that has run Kafka before is frozen by CRIU (https://criu.org), with its classes loaded and
its code compiled. A node is a copy of it that runs `kafka.Kafka` with the node's own properties: a
process of its own, of the same jars, which signals end as they end any other. A start costs a
quarter of the processor time.

Needs Linux, root, `criu` 4.1 or newer, and a JDK. Each copy lives in a PID namespace, as its
threads return with the ids they had.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import psutil

from breakglass.services.errors import LabError
from breakglass.services.lab import process, properties
from breakglass.services.lab.distribution import (
    ENVIRONMENT,
    Distribution,
    logging_configuration,
    node_command,
)
from breakglass.services.lab.layout import Listener, NodeLayout, NodeRole
from breakglass.services.lab.node import format_controller, kafka_uuid
from breakglass.services.lab.ports import free_ports

SOURCE = Path(__file__).with_name("WarmNode.java")
MAIN = "WarmNode"
KAFKA = "kafka.Kafka"
TRAINING_RUNS = 3
HANG_SECONDS = 600.0
"""It only ends a hang."""
POLL_SECONDS = 0.03
NEEDS = "a memory image needs Linux, root, criu 4.1 or newer, and javac"
RESTORE = """\
input=$1; shift
exec 3< "$input"
exec unshare --pid --fork --kill-child --mount-proc criu restore "$@"
"""
"""The copy reads the node that it runs from file descriptor 3, in place of its standard input."""


class MemoryImage:
    """The frozen JVM in *folder*, whose files its copies map: it stays until the last one ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wrappers: set[int] = set()
        """Processes that wait for a copy to end, and are waited for themselves."""

    def restore(
        self, argv: Sequence[str], output: Path, *, environment: Mapping[str, str], tethered: bool
    ) -> process.ProcessRecord:
        """In place of `process.spawn` for a node's command line *argv*.

        Raises:
            LabError: no copy came up.
        """
        for pid in list(self._wrappers):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0]
            except ChildProcessError:
                ended = pid
            if ended:
                self._wrappers.discard(pid)
        told = output.with_name("wake")
        told.write_text("\n".join([argv[-1], *_told(argv), "GO\n"]), encoding="utf-8")
        log = output.with_name("restore.log")
        images = ("-D", str(self._folder / "image"), "-W", str(output.parent), "-o", str(log))
        said = ("--inherit-fd", f"fd[3]:{str(self._folder / 'input').lstrip('/')}")
        wrapper = _spawn(
            ["/bin/sh", "-c", RESTORE, "restore", str(told), *images, *said],
            output,
            environment=environment,
            tethered=tethered,
        )
        self._wrappers.add(wrapper.pid)
        give_up = time.monotonic() + HANG_SECONDS
        while process.find(wrapper) and time.monotonic() < give_up:
            if (record := _copy_below(wrapper.pid)) is not None:
                return record
            time.sleep(POLL_SECONDS)
        raise LabError(f"No copy of the memory image came up: {_tail(log)}")


_spawn = process.spawn


@contextmanager
def nodes_from(image: MemoryImage) -> Iterator[None]:
    """Nodes of labs are copies of *image* within; all other processes start as ever."""

    def spawn(
        argv: Sequence[str], output: Path, *, environment: Mapping[str, str], tethered: bool
    ) -> process.ProcessRecord:
        start = image.restore if KAFKA in argv else _spawn
        return start(argv, output, environment=environment, tethered=tethered)

    with patch.object(process, "spawn", spawn):
        yield


def supported() -> bool:
    """Whether this machine has what a memory image needs, and its CRIU knows its kernel."""
    return (
        os.geteuid() == 0
        and all(shutil.which(name) for name in ("criu", "unshare", "javac"))
        and subprocess.run(["criu", "check"], capture_output=True).returncode == 0
    )


def made(kafka: Distribution, folder: Path) -> MemoryImage:
    """Train a JVM in *folder* and freeze it.

    Raises:
        LabError: this machine lacks what is needed, or Kafka before 4.0 is to be run.
    """
    if not supported() or kafka.major < 4:
        raise LabError(f"{NEEDS}; and Kafka 4: install what is missing, or leave out --image.")
    (folder / "image").mkdir(parents=True)
    (folder / "input").touch()
    trained = _training(kafka, folder)
    try:
        give_up = time.monotonic() + HANG_SECONDS
        while not (folder / "ready").exists():
            if trained.poll() is not None or time.monotonic() > give_up:
                raise LabError(f"The JVM for the memory image did not run Kafka: look at {folder}.")
            time.sleep(POLL_SECONDS)
        criu = ["criu", "dump", "-t", str(trained.pid), "-D", str(folder / "image"), "-o", "log"]
        _checked([*criu, "--tcp-established"])
    finally:
        trained.kill()
        trained.wait()
    return MemoryImage(folder)


def _training(kafka: Distribution, folder: Path) -> subprocess.Popen[bytes]:
    """The JVM that runs one small node after another, and then waits."""
    runs = [_node(kafka, folder / f"run-{number}") for number in range(TRAINING_RUNS)]
    _checked(["javac", "-cp", kafka.classpath, "-d", str(folder), str(SOURCE)])
    (folder / "scratch").mkdir()
    (folder / "logging.properties").write_text(
        logging_configuration(kafka, runs[0]), encoding="utf-8"
    )
    node = NodeLayout(id=1, role=NodeRole.CONTROLLER, folder=folder, ports={}, log_dirs=())
    java, *options = node_command(kafka, node)[:-2]
    classes = options.index(kafka.classpath)
    options[classes] = f"{kafka.classpath}{os.pathsep}{folder}"
    command = [
        java,
        "--add-opens=java.base/java.io=ALL-UNNAMED",
        f"-DZstdNativePath={_zstd(kafka, folder)}",
        *options,
        "-Xmn12m",  # A copy reads all that was touched once, garbage included.
        MAIN,
        str(folder),
        *[str(run.properties_file) for run in runs],
    ]
    with (folder / "input").open("rb") as told:
        return subprocess.Popen(
            command,
            stdin=told,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **ENVIRONMENT},
            cwd=folder,
            start_new_session=True,
        )


def _node(kafka: Distribution, folder: Path) -> NodeLayout:
    """A broker that is its own controller, so that the code of both is run."""
    client, controller = free_ports(2)
    node = NodeLayout(
        id=1,
        role=NodeRole.BROKER,
        folder=folder,
        ports={Listener.CLIENT: client, Listener.CONTROLLER: controller},
        log_dirs=(folder / "metadata",),
    )
    format_controller(node.metadata_dir, kafka, cluster_id=kafka_uuid(), node_id=1)
    settings = {
        **properties.SMALL,
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{node.address(Listener.CONTROLLER)}",
        "controller.listener.names": Listener.CONTROLLER.value,
        "listeners": f"CLIENT://{node.address(Listener.CLIENT)},"
        f"CONTROLLER://{node.address(Listener.CONTROLLER)}",
        "inter.broker.listener.name": Listener.CLIENT.value,
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(node.metadata_dir),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "bootstrap.servers": str(node.address(Listener.CLIENT)),
    }
    node.properties_file.write_text(properties.render(settings), encoding="utf-8")
    return node


def _zstd(kafka: Distribution, folder: Path) -> Path:
    """The native library of zstd, which its own loader would delete while a JVM maps it."""
    jar = next(Path(one) for one in kafka.classpath.split(os.pathsep) if "zstd-jni" in one)
    with zipfile.ZipFile(jar) as packed:
        machine = {"x86_64": "amd64"}.get(os.uname().machine, os.uname().machine)
        pattern = re.compile(rf"linux/{machine}/libzstd-jni.*\.so")
        name = next(filter(pattern.fullmatch, packed.namelist()))
        return Path(packed.extract(name, folder))


def _checked(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr[-1000:]
        raise LabError(f"{command[0]} ended with {done.returncode}: {said}; {NEEDS}.")


def _told(argv: Sequence[str]) -> tuple[str, str]:
    """The folder for temporary files and the logging configuration of the command line *argv*."""
    options = dict(word.split("=", 1) for word in argv if word.startswith("-D") and "=" in word)
    return options["-Djava.io.tmpdir"], options["-Dlog4j2.configurationFile"]


def _copy_below(wrapper: int) -> process.ProcessRecord | None:
    """The copy, once it has the command line of the JVM that was frozen."""
    try:
        for pid in _children(wrapper):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if MAIN.encode() in words:
                started = process.seconds_after_boot(psutil.Process(pid))
                return process.ProcessRecord(pid, started, MAIN)
    except (OSError, psutil.NoSuchProcess):
        pass  # The wrapper is becoming criu, or has ended.
    return None


def _children(pid: int) -> Iterator[int]:
    """All processes below *pid*; psutil would read every process of the machine for it."""
    for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        yield int(word)
        yield from _children(int(word))


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-500:] if log.exists() else "criu wrote nothing"
