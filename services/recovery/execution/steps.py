"""The steps of elections: their order and batches, the requests of a route, their journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any
from uuid import UUID

from breakglass.services import patience
from breakglass.services.guard.journal import Details
from breakglass.services.kafka.election_client import ElectionClient, Reply
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import ElectionType
from breakglass.services.kafka.wire.native_rpc import NativeRpc
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.judgement.assessment import recovery_order

CANARY_SIZES = (1, 10)
"""The first batches are small: a mistake shows on one partition, then on ten (R4)."""

LARGEST = 1000
"""KIP-966: the partitions that a broker serves of a request."""


def in_order(targets: Sequence[ElectionTarget]) -> list[ElectionTarget]:
    """*targets* in the order in which they are to be elected (R17)."""
    return sorted(targets, key=lambda target: recovery_order(target.partition))


def batches(
    targets: Sequence[ElectionTarget], waits: Callable[[ElectionTarget], bool] = lambda _: False
) -> Generator[tuple[ElectionTarget, ...], bool | None, None]:
    """Split *targets* into batches, in the order in which they are to be elected.

    Internal topics come first and alone, in the order other recoveries need them (R17). Send
    back whether the batch proved the way by an election: as long as none did, batches stay as
    small as the canary. Targets that *waits* is true for by then are in no batch.
    """
    ordered = in_order(targets)
    yield from ((target,) for target in ordered if target.internal and not waits(target))
    rest = (target for target in ordered if not target.internal and not waits(target))
    sizes = chain(CANARY_SIZES, repeat(LARGEST))
    size = next(sizes)
    while batch := tuple(islice(rest, size)):
        proved = yield batch
        size = size if proved is False else next(sizes)


@dataclass(frozen=True, slots=True)
class ExecutionLimits:
    """Bounds of every wait of an execution. Seconds."""

    read: float = patience.REQUEST
    election: float = patience.ELECTION
    """One request; past it the outcome is unknown."""
    confirmation: float = patience.REQUEST
    underway: float = patience.JOB
    """An election whose answer was lost, to take effect; and controllers that fall silent in the
    middle of a run, to answer again."""
    ladder: float = 0.0
    """How long to wait for partitions to become readable; 0 looks once."""
    retries: int = 3
    """KIP-1275's --recovery-election-attempts."""


Replies = Mapping[TopicPartition, Reply]

REORDER, ELECT, DESIGNATE = "reorder", "elect", "designate"
PREFERRED, RESTORE, UNDO = "preferred election", "restore order", "undo order"
RESCUE = "rescue"
"""The steps' names in the journal. A rescue changes nothing on the cluster."""


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


SUCCEEDED = "succeeded"
PARTLY_FAILED = "partly failed"
UNDONE = "undone"
"""How a journal records that its execution ended."""


def described(target: ElectionTarget) -> dict[str, Any]:
    """*target* as an item of a plan or a request: all that finishing or undoing needs."""
    return {
        "topic_id": target.topic_id,
        "designee": target.designee,
        "order": target.order,
        "assignment": target.assignment,
        "leader_epoch": target.leader_epoch,
        "log_end": target.log_end,
        "min_insync_replicas": target.min_insync_replicas,
        "live": target.live,
        "log_start": target.log_start,
    }


def target_of_item(partition: TopicPartition, item: Details) -> ElectionTarget | None:
    """The target that *item* describes; None when a field is missing."""
    try:
        return ElectionTarget(
            partition=partition,
            topic_id=UUID(str(item["topic_id"])),
            designee=int(item["designee"]),
            order=tuple(map(int, item["order"])),
            assignment=tuple(map(int, item["assignment"])),
            leader_epoch=int(item["leader_epoch"]),
            log_end=_number(item["log_end"]),
            min_insync_replicas=_number(item["min_insync_replicas"]),
            live=tuple(map(int, item["live"])),
            log_start=_number(item.get("log_start")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


OUTCOME_BYTES = 150
"""Bytes for one partition in an outcome: its name, its result, its leader."""
REASON_BYTES = 350
"""Bytes for the sentence that ends an outcome."""
RESCUE_BYTES = 800
"""Bytes for one partition in a rescue, request and outcome: spans, places of what was saved."""
LINE_BYTES = 150
"""Bytes of a line without its partitions."""
STEPS = 3
"""Steps of a partition: its order written, its election, its order put back."""
LINES_A_BATCH = 2 * STEPS + 2
"""Lines of a batch: those of its steps, a note of what was not sent, and a rescue."""
MARGIN = 1.25


def journal_bytes(
    targets: Sequence[ElectionTarget], *, rescued: bool, limits: ExecutionLimits | None = None
) -> int:
    """The most that the journal of electing *targets* takes from here on.

    Every step of every partition once, in batches of one at worst; one largest batch with all
    its retries; and a margin.
    """
    if not targets:
        return 0
    retries = (limits or ExecutionLimits()).retries
    items = [_item_bytes(target) for target in targets]
    once = sum(STEPS * (item + OUTCOME_BYTES) + REASON_BYTES for item in items)
    once += RESCUE_BYTES * rescued * len(items)
    again = retries * sum(sorted(items)[-LARGEST:]) * STEPS
    again += retries * min(len(items), LARGEST) * STEPS * OUTCOME_BYTES
    lines = LINES_A_BATCH * LINE_BYTES * (len(targets) + retries)
    return int((once + again + lines) * MARGIN)


def _item_bytes(target: ElectionTarget) -> int:
    named = {"topic": target.partition.topic, "partition": target.partition.partition}
    return len(json.dumps({**named, **described(target)}, default=str)) + len(", ")
