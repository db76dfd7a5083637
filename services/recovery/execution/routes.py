"""Two ways to elect a designated leader: KIP-1275's own request, and what stock brokers offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services.kafka.election_client import ElectionClient, Reply
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import ElectionType
from breakglass.services.kafka.wire.native_rpc import NativeRpc
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import ElectionTarget

Replies = Mapping[TopicPartition, Reply]

REORDER, ELECT, DESIGNATE = "reorder", "elect", "designate"
"""The steps' names in the journal."""


@dataclass(frozen=True, slots=True)
class RouteStep:
    """One request of a route, announced in the journal before it is sent."""

    name: str
    send: Callable[[Sequence[ElectionTarget], Deadline], Replies]
    """One reply for each target. Raises OutcomeUnknown, ClusterError or Unreachable."""


@dataclass(frozen=True, slots=True)
class Route:
    """The steps that elect the designees of one batch; each takes what the last accepted."""

    name: str
    steps: tuple[RouteStep, ...]
    reorders: bool
    """The route writes assignments in another order, which must be put back."""


def stock_route(client: ElectionClient) -> Route:
    """Write the whole ranking as the assignment's order, then hold an unclean election.

    An assignment that has that order already is left alone: each write is an election too.
    KRaft elects the first live replica in assignment order once ISR, ELR and the last known
    leader offer none (PartitionChangeBuilder.electAnyLeader).
    """

    def reorder(batch: Sequence[ElectionTarget], deadline: Deadline) -> Replies:
        orders = {
            target.partition: target.order for target in batch if target.order != target.assignment
        }
        written = client.reorder(orders, deadline) if orders else {}
        return {target.partition: written.get(target.partition, Reply(0)) for target in batch}

    steps = (RouteStep(REORDER, reorder), _unclean_election(client))
    return Route("reorder + unclean election", steps, reorders=True)


def native_route(client: ElectionClient) -> Route:
    """Name the leader in the election itself (ElectLeaders v3, KIP-1275)."""

    def designate(batch: Sequence[ElectionTarget], deadline: Deadline) -> Replies:
        return client.designate({target.partition: target.designee for target in batch}, deadline)

    return Route("designated election", (RouteStep(DESIGNATE, designate),), reorders=False)


def plain_unclean_route(client: ElectionClient) -> Route:
    """An unclean election by the assignment's order as it is."""
    return Route("unclean election", (_unclean_election(client),), reorders=False)


def _unclean_election(client: ElectionClient) -> RouteStep:
    def elect(batch: Sequence[ElectionTarget], deadline: Deadline) -> Replies:
        return client.elect(ElectionType.UNCLEAN, [target.partition for target in batch], deadline)

    return RouteStep(ELECT, elect)


RouteChoice = Callable[[ElectionClient], Route]
"""Makes the route once a client that can elect exists."""


def route_for(native: NativeRpc) -> RouteChoice:
    """Designated elections where the cluster has them, else reorder and unclean election."""
    return native_route if native.designates else stock_route
