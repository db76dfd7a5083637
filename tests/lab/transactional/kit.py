"""What the soaks of transactional checkpoints share: victims, waiting, and what a store holds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from breakglass.services.checkpoint.kafka.logs import read_logs
from breakglass.services.checkpoint.kafka.owners import read_named_groups
from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.group_offsets import find_coordinator, live_groups
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.session import Spark
from breakglass.services.topic_backup.address import partition_of
from tests.kit.clusters import access_to
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.lab.checkpoint.taking import Taking

SECONDS = DEADLINE_SECONDS
LOOK_SECONDS = 0.2


class Victim(StrEnum):
    """What is killed while a checkpoint is taken."""

    NOBODY = "nobody"
    INSTANCE = "an instance"
    BROKER = "a broker"
    BOTH = "an instance and a broker"


CYCLE = tuple(Victim)
Entries = dict[TopicPartition, list[tuple[int, bytes | None, bytes | None]]]
"""Offset, key and value of the committed records."""


Faults = Mapping[str, Any]
"""What is wrong, by account: what it is, and what it should be."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What a backup of an application holds of each log, and where its group continues."""

    ends: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]
    in_transit: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)

    def has(self, place: TopicPartition, offset: int) -> bool:
        return offset < self.ends[place] or offset in self.in_transit.get(place, ())


def found_in(store: BackupStore, id: int) -> StoredCheckpoint:
    """Checkpoint *id*."""
    found = store.read(id)
    assert found is not None
    return found


def lowered(found: StoredCheckpoint) -> int:
    """Offsets before the ends that are not in the checkpoint."""
    assert found.cut is not None
    kept = sum(map(len, found.cut.in_transit.values()))
    return sum(found.cut.rolled_back.values()) - kept


def offsets_of(
    client: ReadClient, group: str, topics: Sequence[str]
) -> Mapping[TopicPartition, int]:
    """Where *group* continues in *topics*; empty while that cannot be read."""
    deadline = Deadline.after(SECONDS)
    try:
        places = [state.partition for state in read_logs(client, topics, deadline).states]
        return read_named_groups(client, (group,), places, deadline)[group]
    except BreakglassError:
        return {}


def wait_for_the_end(client: ReadClient, group: str, topics: Sequence[str]) -> None:
    """Return once *group* has no members, and no transaction is open in *topics*."""

    def ended() -> bool:
        deadline = Deadline.after(SECONDS)
        try:
            logs = read_logs(client, topics, deadline)
            coordinator = find_coordinator(client.sender, group, deadline)
            alive = live_groups(client.sender, coordinator, deadline)
            return group not in alive and logs.stable_ends(deadline) == logs.high_watermarks(
                deadline
            )
        except BreakglassError:
            return False

    wait_until(ended, "members and transactions to end", every=LOOK_SECONDS)


def stored(store: BackupStore, id: int, group: str) -> tuple[Cut, Entries]:
    """What the copies of checkpoint *id* hold."""
    found = found_in(store, id)
    assert found.cut is not None
    ends, offsets, in_transit = {}, {}, {}
    logs: Entries = {}
    for partition in found.partitions:
        assert partition.subject is not None
        assert partition.counting is not None
        place = TopicPartition(partition.subject.topic, partition.subject.partition)
        number, node = partition.number, partition.counting.id.node
        where = Path(store.copies.contents(CopyId(id, number, node)).where())
        name = f"{place.topic}/{place.partition}"
        records = list(partition_of(str(where / "segments" / name)).records())
        if number in found.cut.in_transit:
            records += partition_of(str(where / "channel" / name)).records()
        logs[place] = [(record.offset, record.key, record.value) for record in records]
        ends[place] = found.cut.positions[number]
        in_transit[place] = frozenset(found.cut.in_transit.get(number, ()))
        offset = found.cut.groups[group].offsets.get(number)
        if offset is not None:
            offsets[place] = offset
    return Cut(ends, offsets, in_transit), logs


@contextmanager
def taking_on(cluster: Cluster, folder: Path) -> Iterator[Taking]:
    """What takes checkpoints on *cluster*, into a store in *folder*."""
    access = access_to(cluster)
    with access.reading() as client, Spark() as spark:
        store = BackupStore(str(folder / "store"))
        yield Taking(access, client, store, spark, folder, control="control")
