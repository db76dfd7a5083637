"""`breakglass lab`: real Kafka brokers on this machine, to break and to practise on."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console import completion
from breakglass.console.cli import new_app
from breakglass.console.options import KAFKA, AsJson, with_groups
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.services.errors import Unreachable, UsageError

if TYPE_CHECKING:
    from breakglass.services.lab.cluster import Cluster
    from breakglass.services.lab.node import Node

app = new_app("Run real Kafka brokers on this machine, to break and to practise on.")

MEGABYTE = 1_000_000
STATUS_COLUMNS = columns(">Node", "Role", "State", "Fenced", "Address", ">Pid", ">RSS MB")

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Folder of the lab (default: in your state folder).",
        show_default=False,
    ),
]
LabVersion = Annotated[
    str,
    typer.Option("--kafka-version", metavar="VERSION", help="Kafka release to run."),
]
Dynamic = Annotated[
    bool,
    typer.Option(
        "--dynamic",
        help="Keep the voters of the quorum in the metadata log, not in the configuration.",
    ),
]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="KEY=VALUE", help="Kafka setting (repeatable)."),
]
Nodes = Annotated[
    list[int],
    typer.Argument(metavar="NODE...", help="Ids: brokers are 1, 2, 3; controllers are 101, 102."),
]


@dataclass(frozen=True)
class LabSize:
    """The nodes of a new lab."""

    brokers: Annotated[int, typer.Option("--brokers", min=1, help="Number of brokers.")] = 3
    controllers: Annotated[
        int, typer.Option("--controllers", min=1, help="Number of controllers.")
    ] = 1
    kafka_version: LabVersion = KAFKA
    log_dirs: Annotated[
        int, typer.Option("--log-dirs", min=1, help="Log directories of each broker.")
    ] = 1
    dynamic: Dynamic = False

    def __str__(self) -> str:
        brokers = f"{self.brokers} broker{'s'[: self.brokers - 1]}"
        return f"{brokers} and {self.controllers} controller{'s'[: self.controllers - 1]}"


@app.command()
@with_groups
def up(
    size: LabSize,
    state: State = None,
    config: Configs = None,
    as_json: AsJson = False,
) -> None:
    """Start a lab, and print what to give to --bootstrap-server.

    The first time, Kafka is fetched by its Maven coordinates into your cache folder.
    BREAKGLASS_MAVEN_REPOSITORY names a mirror; proxies come from the usual variables.
    """
    from breakglass.services.lab.cluster import Cluster

    folder = state or default_state()
    say(f"Starting {size} of Kafka {size.kafka_version}.")
    with _termination_as_interrupt():
        cluster = Cluster.up(
            folder,
            overrides=_settings(config or []),
            **{one.name: getattr(size, one.name) for one in fields(size)},
        )
    say(f"The lab is up in {folder}; end it with `{_end_of(state)}`.")
    if as_json:
        print_json(_summary(cluster))
    else:
        print(cluster.bootstrap_servers)


@app.command("list")
def status(state: State = None, as_json: AsJson = False) -> None:
    """Print the state of every node."""
    cluster = _load(state)
    fenced = _fenced(cluster)
    rows = [
        {
            "id": node.id,
            "role": node.layout.role,
            "state": "down" if not node.running else "paused" if node.paused else "running",
            "fenced": fenced.get(node.id),
            "address": str(node.address()),
            "pid": node.pid,
            "rss_mb": node.resident_bytes // MEGABYTE,
        }
        for node in cluster.nodes
    ]
    if as_json:
        print_json({**_summary(cluster), "nodes": rows})
        return
    print_table(STATUS_COLUMNS, [list(row.values()) for row in rows])


@app.command()
def produce(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic; it is created if it is missing.")
    ],
    state: State = None,
    partition: Annotated[
        int, typer.Option("--partition", min=0, help="Number of the partition.")
    ] = 0,
    count: Annotated[int, typer.Option("--count", min=1, help="Number of records.")] = 10,
    acks: Annotated[
        str, typer.Option("--acks", metavar="all|1|0", help="Acknowledgements to wait for.")
    ] = "all",
    as_json: AsJson = False,
) -> None:
    """Write records to one partition, and print which were acknowledged."""
    from breakglass.services.lab.produce import produce as service
    from breakglass.services.lab.topics import ensure_topic

    cluster = _load(state)
    ensure_topic(cluster, topic, partitions=partition + 1)
    produced = service(cluster, topic, partition, count, acks=acks)
    if as_json:
        offsets = produced.offsets
        print_json(
            {"schema": 1, "topic": topic, "partition": partition, "acks": acks, "offsets": offsets}
        )
    else:
        print(f"{len(produced.acked)} acknowledged; next offset {produced.end}")


@app.command()
def scenario(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Names of scenarios (default: list the scenarios).",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    state: State = None,
    kafka_version: LabVersion = KAFKA,
    dynamic: Dynamic = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Option of a scenario (repeatable)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a lab, apply the damage that you name, and print the true state.

    The lab keeps running, damaged. The true state has the acknowledged records, what each replica
    holds on disk, and what electing each replica loses; truth.json in the lab's folder has it.
    Scenarios that lose the same brokers in the same order share one lab. If the disk is slow, a
    --state folder in memory (/dev/shm/lab) makes `many` twice as fast.
    """
    from breakglass.console.truth import print_scenarios, print_truth
    from breakglass.services.lab.scenarios import SCENARIOS, find_scenarios
    from breakglass.services.lab.scenarios.scenario import perform

    if not names:
        print_scenarios(SCENARIOS, as_json=as_json)
        return
    scenarios = find_scenarios(names)
    folder = state or default_state()
    say(f"Starting a lab for {', '.join(names)}; the damage takes half a minute or more.")
    with _termination_as_interrupt():
        cluster, truth = perform(
            folder,
            scenarios,
            _settings(settings or []),
            kafka_version=kafka_version,
            dynamic=dynamic,
        )
    say(f"The damaged lab is in {folder}; end it with `{_end_of(state)}`.")
    say(f"Its brokers are {cluster.bootstrap_servers}")
    print_truth(truth, as_json=as_json)


@app.command()
def kill(nodes: Nodes, state: State = None) -> None:
    """Kill nodes, as if their machines were lost (SIGKILL)."""
    _each(state, nodes, lambda node: node.kill())


@app.command("wait-fenced")
def wait_fenced(nodes: Nodes, state: State = None) -> None:
    """Wait until the controller has fenced these brokers, as it does seconds after they die."""
    _load(state).wait_fenced(*nodes)


@app.command()
def stop(nodes: Nodes, state: State = None) -> None:
    """Stop nodes by controlled shutdown (SIGTERM)."""
    _each(state, nodes, lambda node: node.stop())


@app.command()
def wipe(nodes: Nodes, state: State = None) -> None:
    """Lose the disks of nodes that are down, for good; their next start formats empty ones."""
    cluster = _load(state)
    for node in nodes:
        cluster.wipe(node)


@app.command()
def start(nodes: Nodes, state: State = None, config: Configs = None) -> None:
    """Start nodes again, with their old ports and data, and wait until they serve.

    --config changes settings of these nodes, from now on.
    """
    cluster = _load(state)
    settings = _settings(config or [])
    for number in nodes:
        cluster.configure(number, settings)
        cluster.node(number).start()
    cluster.wait_ready()


@app.command()
def pause(nodes: Nodes, state: State = None) -> None:
    """Hang nodes with their connections open (SIGSTOP)."""
    _each(state, nodes, lambda node: node.pause())


@app.command()
def resume(nodes: Nodes, state: State = None) -> None:
    """Resume paused nodes (SIGCONT)."""
    _each(state, nodes, lambda node: node.resume())


@app.command()
def down(
    state: State = None,
    keep: Annotated[
        bool, typer.Option("--keep-data", "--keep", help="Keep data and logs.")
    ] = False,
) -> None:
    """End every process of the lab and delete its data."""
    _load(state).down(keep=keep)
    say("The lab is down.")


def default_state() -> Path:
    """The lab's folder when --state is not given."""
    from platformdirs import user_state_path

    return user_state_path("breakglass") / "lab"


def _load(state: Path | None) -> Cluster:
    from breakglass.services.lab.cluster import Cluster

    return Cluster.load(state or default_state())


def _each(state: Path | None, nodes: list[int], act: Callable[[Node], None]) -> None:
    cluster = _load(state)
    for node in [cluster.node(number) for number in nodes]:
        act(node)


def _end_of(state: Path | None) -> str:
    """The command that ends the lab in *state*, the default folder unless one was named."""
    words = ["breakglass", "lab", "down", *(["--state", str(state)] if state else [])]
    return shlex.join(words)


def _settings(pairs: list[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, given, value = pair.partition("=")
        if not given:
            raise UsageError(f"{pair} has no value: write KEY=VALUE.")
        settings[key] = value
    return settings


def _summary(cluster: Cluster) -> dict[str, object]:
    return {
        "schema": 1,
        "cluster_id": cluster.layout.cluster_id,
        "kafka_version": cluster.layout.kafka_version,
        "state": cluster.state_dir,
        "bootstrap_servers": cluster.bootstrap_servers,
        "controller_bootstrap": cluster.controller_bootstrap,
    }


def _fenced(cluster: Cluster) -> dict[int, bool]:
    """Who is fenced; empty when no broker is there to say so."""
    try:
        return cluster.fenced()
    except Unreachable:
        return {}


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end what was started, as Ctrl-C does."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
