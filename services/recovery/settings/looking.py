"""Reads the evidence for a change of a topic's setting: partitions, layers, and judgements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.errors import ClusterError, NoQuorum, UsageError
from breakglass.services.kafka.cluster.settings import LayeredSetting, read_layered
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.judgement.succession import quorum_lost
from breakglass.services.recovery.triage import Triage, judge
from breakglass.services.snapshot import ClusterSnapshot


def read_snapshot(client: ReadClient, topics: Sequence[str]) -> ClusterSnapshot:
    """The cluster now, with the partitions of *topics* (all by default).

    Raises:
        UsageError: a topic of *topics* does not exist.
        NoQuorum: no controller can write a setting.
    """
    snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), topics)
    found = {state.partition.topic for state in snapshot.partitions}
    missing = sorted(set(topics) - found)
    if missing:
        raise UsageError(f"there is no topic {missing[0]} in this cluster: name one that exists")
    lost = quorum_lost(snapshot.quorum)
    if lost:
        raise NoQuorum(f"{lost}, so no setting can be written: restore it first")
    return snapshot


def judged(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    topics: Collection[str],
    seconds: float,
    native_rpc: str,
    gone: Collection[int] = (),
) -> Triage:
    """The offline partitions of *topics*, judged without reading contents.

    Brokers have *seconds* to describe their logs.
    """
    offline = [state for state in snapshot.offline if state.partition.topic in topics]
    *_, found = judge(client, snapshot, offline, seconds, native_rpc, gone, contents=None)
    return found


@dataclass(frozen=True, slots=True)
class Layers:
    """One setting of many topics."""

    name: str
    told: dict[str, LayeredSetting | Unknown]

    def of(self, topic: str) -> LayeredSetting:
        """The setting of *topic*.

        Raises:
            ClusterError: the setting could not be read, so it could not be put back.
        """
        told = self.told[topic]
        if isinstance(told, Unknown):
            raise ClusterError(
                f"{self.name} of topic {topic} cannot be read ({told.reason}), so it could not be "
                "put back: nothing was changed"
            )
        return told


def layers_of(client: ReadClient, name: str, topics: Sequence[str]) -> Layers:
    """The setting *name* of *topics*. Raises Unreachable."""
    return Layers(
        name, read_layered(client.sender, name, topics, Deadline.after(patience.SNAPSHOT))
    )


def ids_of(states: Sequence[PartitionState]) -> dict[str, str]:
    """The id of each topic, as journals have it."""
    return {state.partition.topic: str(state.topic_id) for state in states}


def partitions_of(
    states: Sequence[PartitionState], topics: Collection[str]
) -> tuple[TopicPartition, ...]:
    """The partitions of *topics*, in order."""
    return tuple(sorted(state.partition for state in states if state.partition.topic in topics))
