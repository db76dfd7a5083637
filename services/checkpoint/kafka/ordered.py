"""Reads offsets and ends for an `ordered` checkpoint, stage by stage: see `protocol.flows`.

Within a stage the offsets are read first. High watermarks are read, so applications have to produce
with ``acks=all``: only then is an acknowledged output below its log's end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services.checkpoint.kafka.groups import read_named_groups
from breakglass.services.checkpoint.kafka.log_ends import Ends, read_ends, read_logs
from breakglass.services.checkpoint.protocol.flows import (
    FlowCycle,
    GroupFlow,
    ReadingStage,
    reading_order,
)
from breakglass.services.errors import Refused
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TopicPartition


@dataclass(frozen=True, slots=True)
class OrderedReading:
    """Offsets by group, and ends, of which none is older than what leads to it."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]
    ends: Ends


def stages_of(
    flows: Sequence[GroupFlow], readers: Iterable[str], topics: Sequence[str]
) -> tuple[ReadingStage, ...]:
    """The order of reading; *readers* may read every topic, and write into none.

    Raises:
        Refused: the flows have a cycle, which the message names.
    """
    ends = [GroupFlow(reader, tuple(topics)) for reader in readers]
    found = reading_order([*flows, *ends], topics)
    if isinstance(found, FlowCycle):
        raise Refused(
            f"the flows lead back to where they begin ({found}): a cycle has no order of reading "
            "that loses nothing"
        )
    return found


def read_in_order(
    client: ReadClient,
    stages: Iterable[ReadingStage],
    readers: Collection[str],
    deadline: Deadline,
) -> OrderedReading:
    """The offsets and ends, read in the order of *stages*.

    A partition in which a group has committed nothing counts from the start of its log, for a
    restored group would begin there by its own setting, perhaps at the end. Of *readers* that is
    so only in topics that they read.

    Raises:
        ClusterError, NotAuthorized, Unreachable: something cannot be read.
    """
    offsets: dict[str, dict[TopicPartition, int]] = {}
    ends: Ends = {}
    for stage in stages:
        for flow in stage.flows:
            found = _offsets(client, flow, deadline, all_inputs=flow.group not in readers)
            offsets.setdefault(flow.group, {}).update(found)
        if stage.topics:
            ends |= read_ends(client, stage.topics, deadline)[1]
    return OrderedReading(offsets, ends)


def _offsets(
    client: ReadClient, flow: GroupFlow, deadline: Deadline, *, all_inputs: bool
) -> dict[TopicPartition, int]:
    """Where the group stands in each partition of the inputs of *flow*."""
    logs = read_logs(client, flow.inputs, deadline)
    partitions = [state.partition for state in logs.states]
    committed = read_named_groups(client, [flow.group], partitions, deadline)[flow.group]
    read = {partition.topic for partition in committed}
    missing = [
        partition
        for partition in partitions
        if partition not in committed and (all_inputs or partition.topic in read)
    ]
    if not missing:
        return committed
    starts = until(deadline, lambda: read_logs(client, flow.inputs, deadline).starts(deadline))
    return {**committed, **{partition: starts[partition] for partition in missing}}
