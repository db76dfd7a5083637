"""What data folders prove that a copy of the metadata does not know: topics, partitions, ISRs.

A controller that leads from an old copy loses acknowledged records without an unclean election. The
records that are made here tell it what is on disk: topics by the ids in their folders, and as ISR
of a partition the replicas whose logs go furthest. Settings, ACLs and users are in no data folder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from breakglass.services.model import TopicPartition
from breakglass.services.quorum.data_folders import FoundReplica
from breakglass.services.quorum.image import Key, PartitionMetadata

EPOCHS_ABOVE = 100
"""A log that was not read may have later leader epochs than those that were."""
PARTITION_EPOCHS_ABOVE = 1_000
UNASSIGNED = UUID(int=0)


@dataclass(frozen=True, slots=True)
class RebuiltPartition:
    """A partition whose state in the copy is replaced by what is on disk."""

    partition: TopicPartition
    topic_id: UUID
    before: PartitionMetadata | None
    """None: the copy does not know the partition."""
    after: PartitionMetadata
    directories: tuple[UUID, ...]
    """The log directory of each of its replicas."""
    why: str


@dataclass(frozen=True, slots=True)
class Mending:
    """Everything that is replaced, and what cannot be."""

    topics: tuple[tuple[str, UUID], ...] = ()
    """Topics that the copy does not know."""
    partitions: tuple[RebuiltPartition, ...] = ()
    left: tuple[str, ...] = ()
    """Folders that stay strays, each with the reason."""


def mend(
    state: Mapping[Key, Any],
    found: Sequence[FoundReplica],
    whole: Collection[int],
    directories: Mapping[Path, UUID],
) -> Mending:
    """What the *found* replicas prove against *state*.

    *whole* are the brokers all of whose log directories were read, *directories* has the id of each
    log directory that has one.
    """
    by_key: dict[Key, dict[int, FoundReplica]] = defaultdict(dict)
    for one in sorted(found, key=lambda one: one.end):
        by_key["partition", one.topic_id, one.partition.partition][one.broker] = one
    ids = {name: key[1] for key, name in state.items() if key[0] == "topic"}
    topics: dict[str, UUID] = {}
    partitions: dict[Key, RebuiltPartition] = {}
    left: list[str] = []
    for key, replicas in sorted(by_key.items(), key=lambda row: _name(row[1])):
        partition, topic_id = _name(replicas), key[1]
        before: PartitionMetadata | None = state.get(key)
        earlier = ("partition", topic_id, partition.partition - 1)
        if before is None and ids.get(partition.topic, topic_id) != topic_id:
            left.append(f"{partition}: the copy has another topic of this name")
        elif before is None and partition.partition and not {earlier} & {*state, *partitions}:
            left.append(f"{partition}: no folder of the partition before it was found")
        elif (after := _after(before, replicas, whole)) is not None:
            if before is None and topic_id not in ids.values():
                ids[partition.topic] = topics[partition.topic] = topic_id
            places = tuple(
                directories.get(replicas[broker].path.parent, UNASSIGNED)
                if broker in replicas
                else UNASSIGNED
                for broker in after.replicas
            )
            why = _why(before, after)
            partitions[key] = RebuiltPartition(partition, topic_id, before, after, places, why)
        assigned = partitions[key].after if key in partitions else before
        if assigned is not None:
            left += (
                f"{partition}: b{broker} is not in its assignment, and its log is not the longest"
                for broker in replicas
                if broker not in assigned.replicas
            )
    return Mending(tuple(topics.items()), tuple(partitions.values()), tuple(left))


def _name(replicas: Mapping[int, FoundReplica]) -> TopicPartition:
    return next(iter(replicas.values())).partition


def _after(
    before: PartitionMetadata | None, replicas: Mapping[int, FoundReplica], whole: Collection[int]
) -> PartitionMetadata | None:
    """The state to append; None: the one in the copy agrees with the logs."""
    epoch = max(one.epoch for one in replicas.values())
    considered = set(replicas)
    if before is not None and epoch <= before.leader_epoch:
        # The copy knows the last leader, which is in the ISR and has every record.
        considered &= set(before.isr)
        if not considered and not set(before.isr) <= set(whole):
            return None
        considered = considered or set(replicas)
    longest = max(replicas[broker].end for broker in considered)
    furthest = [broker for broker in sorted(considered) if replicas[broker].end == longest]
    if before is None:
        assigned = tuple(sorted(replicas))
    else:
        short = [
            broker
            for broker in before.isr
            if (replicas[broker].end < longest if broker in replicas else broker in whole)
        ]
        empty = longest.offset == 0
        if epoch <= before.leader_epoch and (not short or empty):
            return None
        inside = [broker for broker in before.replicas if broker in furthest]
        assigned = (*before.replicas, *(() if inside else furthest))
    isr = tuple(broker for broker in assigned if broker in furthest)
    return PartitionMetadata(
        assigned,
        isr,
        isr[0],
        max(epoch, before.leader_epoch if before else 0) + EPOCHS_ABOVE,
        before.partition_epoch + PARTITION_EPOCHS_ABOVE if before else 0,
    )


def _why(before: PartitionMetadata | None, after: PartitionMetadata) -> str:
    isr = ",".join(map(str, after.isr))
    if before is None:
        return f"the copy does not know it; the longest log is on {isr}"
    was = ",".join(map(str, before.isr)) or "none"
    return f"ISR {was} in the copy; the longest log is on {isr}"


def mended_records(mending: Mending, version: int) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Each record to append: its name, its version and its fields; *version* of PartitionRecord."""
    for name, topic_id in mending.topics:
        yield "TopicRecord", 0, {"name": name, "topic_id": topic_id}
    for one in mending.partitions:
        fields = {
            "partition_id": one.partition.partition,
            "topic_id": one.topic_id,
            "replicas": list(one.after.replicas),
            "isr": list(one.after.isr),
            "removing_replicas": [],
            "adding_replicas": [],
            "leader": one.after.leader,
            "leader_recovery_state": 0,
            "leader_epoch": one.after.leader_epoch,
            "partition_epoch": one.after.partition_epoch,
        }
        if version:
            fields["directories"] = list(one.directories)
        yield "PartitionRecord", version, fields
