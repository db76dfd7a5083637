"""The demo on a terminal: the console on the broken cluster, and afterwards how it was left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.lab.cluster import Cluster
    from breakglass.services.lab.truth import PartitionTruth, Truth
    from breakglass.services.model import PartitionState

PRACTICE = """\
The cluster is broken; the console opens on it, armed.
To stop or start a broker, in another terminal:
  breakglass lab kill 4 --state {state}
Leave with q: the cluster is taken down then.
Press Enter to open the console."""


def practise(cluster: Cluster, truth: Truth) -> None:
    """Let the operator recover *cluster* by keyboard, then say what came of it."""
    from breakglass.console.console import run_console
    from breakglass.services.connection.sources import ConnectionOptions

    for line in PRACTICE.format(state=cluster.layout.state_dir).splitlines():
        say(line)
    input()
    connection = Connection(ConnectionOptions(cluster.bootstrap_servers), write=True)
    run_console(connection, (), None)
    for line in how_it_was_left(_states(connection), truth):
        print(inert(line))


def _states(connection: Connection) -> tuple[PartitionState, ...]:
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.recovery.triage import SNAPSHOT_SECONDS

    with connection.reading() as client:
        return client.snapshot(Deadline.after(SNAPSHOT_SECONDS)).partitions


def how_it_was_left(states: Iterable[PartitionState], truth: Truth) -> Iterator[str]:
    """A sentence for each partition of *truth*: who leads, and whether that loses least."""
    found = {one.partition: one for one in states}
    for one in truth.partitions:
        state = found.get(one.partition)
        yield f"{one.partition}  {_told(one, None if state is None else state.leader)}"


def _told(one: PartitionTruth, leader: int | None) -> str:
    best = one.expectation.designee
    if leader is None:
        return f"still offline; b{best} loses least"
    if leader == best:
        return f"led by b{leader}, which loses least"
    return f"led by b{leader}; b{best} would have lost less"
