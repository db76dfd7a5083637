"""Describes a lab's nodes, ports and folders as values kept in ``lab.json``."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from breakglass.services.errors import LabError
from breakglass.services.file_lock import open_lock_file, unlock, wait_for_lock

SCHEMA = 1
LAYOUT_FILE = "lab.json"
PROPERTIES_FILE = "server.properties"
TRUTH_FILE = "truth.json"
LOOPBACK = "127.0.0.1"
FIRST_CONTROLLER = 101
"""Brokers are 1, 2, 3 and controllers 101, 102, so that they are easy to distinguish in logs."""


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Listener(StrEnum):
    """A listener of a node, by the name it has in server.properties."""

    CLIENT = "CLIENT"
    """Advertised to clients; may be behind a proxy, and guarded by TLS and SASL."""
    LAB = "LAB"
    """Plaintext, between brokers and for the lab's own requests; never proxied."""
    CONTROLLER = "CONTROLLER"


class NodeRole(StrEnum):
    """What a node does; the lab has no combined nodes, so that each can be killed alone."""

    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """One node: where it listens, where its data is, how it differs from the others."""

    id: int
    role: NodeRole
    folder: Path
    ports: Mapping[Listener, int]
    log_dirs: tuple[Path, ...]
    """Folders of replicas. The metadata log is elsewhere, so that each of them may fail."""
    rack: str | None = None
    advertised: Address | None = None
    """The address advertised to clients, if not the node's own."""
    controller_links: Mapping[int, Address] = field(default_factory=dict)
    """By controller id, where this broker reaches it, when that is not the controller itself."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False
    """Its machine is lost for good: the node cannot be started or resumed."""
    wiped: bool = False
    """Its first disks are gone: in a dynamic quorum it returns as no voter."""

    @property
    def metadata_dir(self) -> Path:
        return self.folder / "metadata"

    @property
    def properties_file(self) -> Path:
        return self.folder / PROPERTIES_FILE

    def address(self, listener: Listener) -> Address:
        """Where the process itself listens."""
        return Address(LOOPBACK, self.ports[listener])


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """A whole lab."""

    state_dir: Path
    cluster_id: str
    kafka_version: str
    nodes: tuple[NodeLayout, ...]
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Kafka settings of every node."""
    secured: bool = False
    """Whether the CLIENT listeners ask for SASL_SSL and the authorizer is on."""
    tethered: bool = False
    """Whether the nodes die with the process that started them."""
    voters: Mapping[int, str] = field(default_factory=dict)
    """The first voters of a dynamic quorum with their directory ids; empty: it is static."""

    @property
    def ports(self) -> frozenset[int]:
        """The ports of every node and of every proxy, whether it runs or not."""
        taken = {port for node in self.nodes for port in node.ports.values()}
        taken |= {link.port for node in self.nodes for link in node.controller_links.values()}
        return frozenset(taken | {node.advertised.port for node in self.nodes if node.advertised})

    @property
    def brokers(self) -> tuple[NodeLayout, ...]:
        return tuple(node for node in self.nodes if node.role is NodeRole.BROKER)

    @property
    def controllers(self) -> tuple[NodeLayout, ...]:
        return tuple(node for node in self.nodes if node.role is NodeRole.CONTROLLER)

    def node(self, node_id: int) -> NodeLayout:
        """The node of that id.

        Raises:
            LabError: there is none.
        """
        for node in self.nodes:
            if node.id == node_id:
                return node
        ids = ", ".join(str(node.id) for node in self.nodes)
        raise LabError(f"The lab has no node {node_id}: choose one of {ids}.")

    def with_node(self, changed: NodeLayout) -> ClusterLayout:
        """The layout with the node of that id put in, in place of the old one if there was one."""
        others = [node for node in self.nodes if node.id != changed.id]
        nodes = tuple(sorted([*others, changed], key=lambda node: node.id))
        return replace(self, nodes=nodes)


def save_layout(layout: ClusterLayout) -> None:
    """Write ``lab.json`` into the state folder."""
    document = {"schema": SCHEMA, **asdict(layout)}
    text = json.dumps(document, indent=2, default=str)
    target = layout.state_dir / LAYOUT_FILE
    partial = target.with_suffix(".partial")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(target)


def load_layout(state_dir: Path) -> ClusterLayout:
    """Read the layout of the lab in *state_dir*.

    Raises:
        LabError: there is no lab, or one that this release cannot read, or a folder of it is
            elsewhere (S51): a lab removes its folders, and ends the processes that these name.
    """
    path = state_dir / LAYOUT_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(f"There is no lab in {state_dir}: start one with `lab up`.") from None
    except (OSError, ValueError) as error:
        raise LabError(f"{path} cannot be read ({error}): remove that folder.") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise LabError(f"{path} was written by another release: remove that folder.")
    try:
        layout = ClusterLayout(
            state_dir=Path(document["state_dir"]),
            cluster_id=document["cluster_id"],
            kafka_version=document["kafka_version"],
            nodes=tuple(_node_from(node) for node in document["nodes"]),
            overrides=document["overrides"],
            secured=document["secured"],
            tethered=document["tethered"],
            voters={int(key): found for key, found in document.get("voters", {}).items()},
        )
        elsewhere = next(_elsewhere(layout, state_dir), None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise LabError(f"{path} is no layout of a lab ({error!r}): remove that folder.") from error
    if elsewhere is not None:
        raise LabError(
            f"{path} names {elsewhere}, which is no folder of the lab in {state_dir}, or is "
            "reached by a link: nothing was done. Look who wrote it, then remove that folder."
        )
    return layout


def _elsewhere(layout: ClusterLayout, state_dir: Path) -> Iterator[Path]:
    """The folders that a lab in *state_dir* does not have."""
    named, real = layout.state_dir, Path(os.path.realpath(state_dir))
    if not named.is_absolute() or os.path.realpath(named) != str(real):
        yield named
        return
    for node in layout.nodes:
        own = named / f"{node.role}-{node.id}"
        for folder in (node.folder, *node.log_dirs, node.metadata_dir):
            inside = node.folder == own and folder.is_relative_to(own)
            if not inside or os.path.realpath(folder) != str(real / folder.relative_to(named)):
                yield folder


def _node_from(document: dict[str, Any]) -> NodeLayout:
    advertised = document["advertised"]
    links = document["controller_links"]
    return NodeLayout(
        id=document["id"],
        role=NodeRole(document["role"]),
        folder=Path(document["folder"]),
        ports={Listener(name): port for name, port in document["ports"].items()},
        log_dirs=tuple(Path(path) for path in document["log_dirs"]),
        rack=document["rack"],
        advertised=Address(*advertised) if advertised else None,
        controller_links={int(key): Address(*link) for key, link in links.items()},
        overrides=document["overrides"],
        lost=document.get("lost", False),
        wiped=document.get("wiped", False),
    )


COUNTER = "lab-ports"
LOWEST = 15000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_EPHEMERAL_START = 32768


def free_ports(count: int, *, besides: Collection[int] = ()) -> list[int]:
    """*count* different ports that nothing listens on, none of them in *besides*.

    They lie below the ports that the system hands to outgoing connections: otherwise a
    client's socket could sit on the port of a killed broker when it is started again.

    Raises:
        LabError: too few ports are free.
    """
    span = _ephemeral_start() - LOWEST
    chosen: list[int] = []
    with _counter() as turns:
        for turn in turns(span):
            port = LOWEST + turn
            if port not in besides and _free(port):
                chosen.append(port)
                if len(chosen) == count:
                    return chosen
    raise LabError(
        f"Fewer than {count} ports from {LOWEST} to {LOWEST + span - 1} are free: free some."
    )


class _Turns:
    """Numbers below a span, each once, from the one after the last that was handed out."""

    def __init__(self, first: int) -> None:
        self.next = first

    def __call__(self, span: int) -> Iterator[int]:
        for _ in range(span):
            turn = self.next % span
            self.next = turn + 1
            yield turn


@contextmanager
def _counter() -> Iterator[_Turns]:
    """The counter that all labs of this user share; a random one where it cannot be kept."""
    somewhere = random.randrange(USUAL_EPHEMERAL_START)
    try:
        folder = user_cache_path("breakglass")
        folder.mkdir(parents=True, exist_ok=True)
        file = open_lock_file(folder / COUNTER)
    except OSError:
        yield _Turns(somewhere)
        return
    try:
        wait_for_lock(file)
        kept = os.pread(file, 20, 0)
        turns = _Turns(int(kept) if kept.isdigit() else somewhere)
        yield turns
        os.ftruncate(file, 0)
        os.pwrite(file, str(turns.next).encode("ascii"), 0)
    finally:
        unlock(file)


def _ephemeral_start() -> int:
    try:
        start = int(EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return USUAL_EPHEMERAL_START
    return start if start > LOWEST + 1000 else USUAL_EPHEMERAL_START


def _free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
