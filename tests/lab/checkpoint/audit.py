"""A checkpoint restored in memory, from its copies, and worked on until nothing is under way.

Its own reading of the rules: partitions are lists, and a member is a loop.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.checkpoint.kafka.control import (
    RecordAddress,
    RecordOrigin,
    Stamp,
    stamp_of,
    stamped,
)
from breakglass.services.checkpoint.participant.participant import Input
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.address import partition_of
from tests.lab.checkpoint.bank import Bank, Books, books

Logs = dict[int, list[Record]]


@dataclass(frozen=True, slots=True)
class Held:
    """What a completed checkpoint of one topic holds."""

    found: StoredCheckpoint
    prefixes: Logs
    """By the partition's number in the topic."""
    channels: Logs

    def offset(self, group: str, partition: int) -> int:
        """Where *group* goes on; at the beginning of what it has committed nothing on."""
        assert self.found.cut is not None
        assert self.found.take is not None
        (topic,) = self.found.take.topics
        number = self.found.take.numbers[TopicPartition(topic, partition)]
        return self.found.cut.groups[group].offsets.get(number, 0)


def held(store: BackupStore, id: int) -> Held:
    """The content of checkpoint *id*, which must be completed."""
    found = store.read(id)
    assert found is not None
    assert found.status is Status.COMPLETED
    prefixes: Logs = {}
    channels: Logs = {}
    for partition in found.partitions:
        assert partition.subject is not None
        assert partition.counting is not None
        copy = CopyId(id, partition.number, partition.counting.id.node)
        assert store.copies.damaged(copy) is None
        where = Path(store.copies.contents(copy).where())
        number = partition.subject.partition
        name = f"{partition.subject.topic}/{number}"
        prefixes[number] = list(partition_of(str(where / "segments" / name)).records())
        channel = where / "channel"
        channels[number] = (
            list(partition_of(str(channel / name)).records()) if channel.is_dir() else []
        )
    return Held(found, prefixes, channels)


def audited(content: Held, group: str, topic: str, *, passes_over: bool) -> Books:
    """The books after everything under way has come in.

    With *passes_over* a record is taken once for each cause, as those that process at least once
    have to; without, whatever is there twice counts twice.
    """
    prefixes, channels = content.prefixes, content.channels
    application = Bank(len(prefixes))
    topic_id = _topic_id([*prefixes.values(), *channels.values()])
    seen: dict[int, set[RecordOrigin]] = {number: set() for number in prefixes}
    waiting: deque[Input] = deque()
    written = 0

    def new(record: Input) -> bool:
        stamp = stamp_of(record.headers)
        assert stamp is not None
        if stamp.marker:
            return False
        known = seen[record.partition.partition]
        if passes_over and stamp.cause is not None and stamp.cause in known:
            return False
        if stamp.cause is not None:
            known.add(stamp.cause)
        return True

    for number, records in prefixes.items():
        partition = TopicPartition(topic, number)
        application.begin(partition, None)
        for record in [*records, *channels[number]]:
            given = _input(partition, record)
            if record.offset < content.offset(group, number):
                if new(given):
                    application.replay(given)
            else:
                waiting.append(given)
    while waiting:
        given = waiting.popleft()
        if not new(given):
            continue
        for index, output in enumerate(application.process(given)):
            place = RecordAddress(topic_id, given.partition.partition, given.offset)
            cause = RecordOrigin(place, index, group)
            assert output.partition is not None
            written += 1
            to = TopicPartition(topic, output.partition)
            headers = tuple(stamped(0, cause))
            waiting.append(Input(to, 10**12 + written, None, output.value, headers))
    return books(application.accounts.values())


def _topic_id(logs: Iterable[list[Record]]) -> str:
    """By the records that were led to by others of the topic."""
    found = (stamp.cause for records in logs for stamp in stamps(records))
    return next((origin.place.topic_id for origin in found if origin is not None), "0" * 32)


def _input(partition: TopicPartition, record: Record) -> Input:
    headers = tuple((name.decode(), value) for name, value in record.headers)
    return Input(partition, record.offset, record.key, record.value, headers)


def stamps(records: list[Record]) -> list[Stamp]:
    """What the headers of *records* say; all must be of ours."""
    found = [stamp_of(record.headers) for record in records]
    assert None not in found
    return [stamp for stamp in found if stamp is not None]
