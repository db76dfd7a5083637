"""Reads the replicas of many partitions in several goes, so that never all are held at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from breakglass.services.incident.broker_liveness import Presence
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import NativeRpc
from breakglass.services.model import ClusterSnapshot, PartitionState
from breakglass.services.recovery.evidence.gather import Evidence, gather
from breakglass.services.recovery.evidence.group_bounds import GroupBounds

FIRST_GO = 64
"""Partitions of the first go: a screenful is told soon."""
GO = 1000
GO_SECONDS = 10.0
"""How long a broker that answers a greeting may take to tell its replicas."""
GROUPS_SECONDS = 1.0
"""What groups have committed is a bound beside the evidence, and not waited for any longer."""


@dataclass(frozen=True, slots=True)
class Go:
    """What one go has told so far; the last of each go is final."""

    states: Sequence[PartitionState]
    evidence: Evidence
    """Of these partitions, in their order."""

    @property
    def final(self) -> bool:
        return not self.evidence.awaited


def read_replicas(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    states: Sequence[PartitionState],
    presence: Presence,
    native: NativeRpc,
    stop: Callable[[], bool],
) -> Iterator[Go]:
    """Read the replicas of *states* in their order, go by go, from the brokers that are present.

    Who fails on the way is absent for the goes after it. Never raises for a broker.
    """
    wanted = [one.partition for one in states]
    groups = GroupBounds(client, snapshot, wanted, Deadline.after(GO_SECONDS), presence.silent)
    groups.start()
    groups.wait(Deadline.after(GROUPS_SECONDS))
    for part in _goes(states):
        told = gather(
            client,
            _only(snapshot, part),
            part,
            Deadline.after(GO_SECONDS),
            native,
            stop,
            unasked=presence.silent,
            groups=groups,
        )
        for evidence in told:
            if not evidence.awaited:
                _note(presence, part, evidence)
            yield Go(part, evidence)


def _goes(states: Sequence[PartitionState]) -> Iterator[Sequence[PartitionState]]:
    yield states[:FIRST_GO]
    for start in range(FIRST_GO, len(states), GO):
        yield states[start : start + GO]


def _only(snapshot: ClusterSnapshot, part: Sequence[PartitionState]) -> ClusterSnapshot:
    """*snapshot* with nothing but *part*: what is looked through in each go."""
    topics = {one.partition.topic for one in part}
    settings = {topic: held for topic, held in snapshot.settings.items() if topic in topics}
    return replace(snapshot, partitions=tuple(part), settings=settings)


def _note(presence: Presence, part: Sequence[PartitionState], evidence: Evidence) -> None:
    """Who told its replicas, and who did not."""
    for broker, reason in evidence.silent.items():
        if broker not in presence.silent:
            presence.failed(broker, reason)
    holders = {broker for one in part for broker in one.assignment}
    presence.told(holders - evidence.silent.keys())
