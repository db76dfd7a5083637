"""The state of a cluster by its metadata records, and what changed in a stretch of them.

The state is one dictionary, from a key such as ``("partition", topic id, 3)`` to a value. Each
change is noted with the value before it, so that one pass over the best copy's log answers for
every shorter copy: what is noted from its end on is what that copy lacks. Copies that agree are put
together to one history, as none of them may reach back to the end of the shortest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from breakglass.services.errors import MalformedInput
from breakglass.services.quorum.metadata_copy import MetadataCopy, MetadataSnapshot
from breakglass.services.quorum.records import UnknownRecord, decode_record
from breakglass.services.record_batches import RecordBatch

Key = tuple[Any, ...]
"""What a value is of; its first member is the kind."""
TOPIC_SETTINGS = 2
"""The number of topics among the kinds of resources that have settings."""
NO_LEADER_CHANGE = -2


class PartitionMetadata(NamedTuple):
    """What the controller knows of a partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_elr: tuple[int, ...] = ()


class BrokerRegistration(NamedTuple):
    """A broker as it registered last."""

    epoch: int
    incarnation: UUID | None
    fenced: bool
    stopping: bool
    rack: str | None
    log_dirs: tuple[UUID, ...] = ()
    """The ids of its log directories; none before Kafka 3.7."""
    endpoints: tuple[tuple[str, str, int], ...] = ()
    """Name of the listener, host and port."""


class ControllerRegistration(NamedTuple):
    """A controller as it registered last."""

    incarnation: UUID | None
    endpoints: tuple[tuple[str, str, int], ...]
    """Name of the listener, host and port."""


class ChangeNote(NamedTuple):
    """A change: the value before it; None: there was none."""

    offset: int
    key: Key
    before: object
    at_ms: int | None
    """None: between a log's end and the snapshot that goes on after it."""


class MetadataChange(NamedTuple):
    """What became of a key in a stretch of the log."""

    key: Key
    before: object
    after: object
    first_ms: int | None
    last_ms: int | None


@dataclass
class MetadataImage:
    """The state after the records that were applied."""

    noted_from: int
    """Changes are noted from this offset on."""
    values: dict[Key, Any] = field(default_factory=dict)
    notes: list[ChangeNote] = field(default_factory=list)
    unknown: list[tuple[int, str]] = field(default_factory=list)
    """Records that could not be decoded: offset, type and version."""
    marks: list[tuple[int, bool]] = field(default_factory=list)
    """Where metadata transactions begin (true) and end."""
    _at: int = 0
    _at_ms: int | None = None
    _open: int | None = None
    """The number of notes when the open metadata transaction began."""

    def apply(self, batch: RecordBatch) -> None:
        """Apply a batch of the log."""
        if batch.header.control:
            return
        for record in batch.records:
            self._at, self._at_ms = record.offset, record.timestamp
            match decode_record(record.value or b""):
                case UnknownRecord(name):
                    self.unknown.append((record.offset, name))
                case name, fields:
                    act = _ACTS.get(name)
                    if act:
                        act(self, fields)

    def load(self, snapshot: MetadataSnapshot) -> None:
        """Become what *snapshot* has; what differs from it is noted, without a time."""
        loaded = MetadataImage(noted_from=snapshot.offset + 1)
        for batch in snapshot.read():
            loaded.apply(batch)
        if self.values:
            self._at, self._at_ms = snapshot.offset - 1, None
            for key in self.values.keys() - loaded.values.keys():
                self._note(key)
            for key, value in loaded.values.items():
                if self.values.get(key) != value:
                    self._note(key)
        self.values, self._open = loaded.values, None
        self.marks.append((snapshot.offset - 1, False))
        self.unknown += [(snapshot.offset - 1, name) for _, name in loaded.unknown]

    def finish(self) -> None:
        """Drop an open transaction: no node acts by it before its end."""
        if self._open is not None:
            self._abort(None)
            self.marks.pop()

    def open_at(self, offset: int) -> bool:
        """Whether a log that ends at *offset* ends inside a metadata transaction."""
        return next((begins for at, begins in reversed(self.marks) if at < offset), False)

    def changes(self, since: int) -> Iterator[MetadataChange]:
        """What became of each key from the offset *since* on, in the order of first changes."""
        first: dict[Key, ChangeNote] = {}
        last: dict[Key, int | None] = {}
        for note in self.notes:
            if note.offset >= since:
                first.setdefault(note.key, note)
                last[note.key] = note.at_ms
        for key, note in first.items():
            after = self.values.get(key)
            if after != note.before:
                yield MetadataChange(key, note.before, after, note.at_ms, last[key])

    def before(self, offset: int) -> dict[Key, Any]:
        """The state before *offset*, which is not below `noted_from`."""
        values = dict(self.values)
        for note in reversed(self.notes):
            if note.offset < offset:
                break
            _put(values, note.key, note.before)
        return values

    def _note(self, key: Key) -> None:
        if self._at >= self.noted_from or self._open is not None:
            self.notes.append(ChangeNote(self._at, key, self.values.get(key), self._at_ms))

    def _set(self, key: Key, value: object) -> None:
        self._note(key)
        _put(self.values, key, value)

    def _begin(self, _: Any) -> None:
        self._open = len(self.notes)
        self.marks.append((self._at, True))

    def _end(self, _: Any) -> None:
        if self._open is not None:
            # A copy that ends inside a transaction has none of it.
            ended = self.notes[self._open :] if self._at >= self.noted_from else ()
            self.notes[self._open :] = [one._replace(offset=self._at) for one in ended]
        self._close()

    def _abort(self, _: Any) -> None:
        begun = self._open or 0
        for note in reversed(self.notes[begun:]):
            _put(self.values, note.key, note.before)
        del self.notes[begun:]
        self._close()

    def _close(self) -> None:
        self._open = None
        self.marks.append((self._at, False))

    def _topic(self, fields: Any) -> None:
        self._set(("topic", fields.topic_id), fields.name)

    def _remove_topic(self, fields: Any) -> None:
        topic = fields.topic_id
        name, number = self.values.get(("topic", topic)), 0
        self._set(("topic", topic), None)
        while (key := ("partition", topic, number)) in self.values:
            self._set(key, None)
            number += 1
        if ("settings", TOPIC_SETTINGS, name) in self.values:
            self._set(("settings", TOPIC_SETTINGS, name), None)

    def _partition(self, fields: Any) -> None:
        self._set(
            ("partition", fields.topic_id, fields.partition_id),
            PartitionMetadata(
                tuple(fields.replicas),
                tuple(fields.isr),
                fields.leader,
                fields.leader_epoch,
                fields.partition_epoch,
                tuple(fields.adding_replicas),
                tuple(fields.removing_replicas),
                tuple(fields.eligible_leader_replicas or ()),
                tuple(fields.last_known_elr or ()),
            ),
        )

    def _change_partition(self, fields: Any) -> None:
        key = ("partition", fields.topic_id, fields.partition_id)
        old: PartitionMetadata | None = self.values.get(key)
        if old is None:
            self.unknown.append((self._at, "change of a partition that was not made"))
            return
        named = {
            "isr": fields.isr,
            "replicas": fields.replicas,
            "adding": fields.adding_replicas,
            "removing": fields.removing_replicas,
            "elr": fields.eligible_leader_replicas,
            "last_elr": fields.last_known_elr,
        }
        given: dict[str, Any] = {
            name: tuple(value) for name, value in named.items() if value is not None
        }
        if fields.leader != NO_LEADER_CHANGE:
            # As PartitionRegistration.merge: the record does not name the epoch.
            given |= {"leader": fields.leader, "leader_epoch": old.leader_epoch + 1}
        self._set(key, old._replace(partition_epoch=old.partition_epoch + 1, **given))

    def _clear_elr(self, fields: Any) -> None:
        for key, value in list(self.values.items()):
            if key[0] != "partition" or not (value.elr or value.last_elr):
                continue
            if fields.topic_name in ("", self.values.get(("topic", key[1]))):
                self._set(key, value._replace(elr=(), last_elr=()))

    def _setting(self, fields: Any) -> None:
        key = ("settings", fields.resource_type, fields.resource_name)
        given = {**self.values.get(key, {}), fields.name: fields.value}
        self._set(key, {name: value for name, value in given.items() if value is not None} or None)

    def _broker(self, fields: Any) -> None:
        self._set(
            ("broker", fields.broker_id),
            BrokerRegistration(
                fields.broker_epoch,
                fields.incarnation_id,
                fields.fenced,
                fields.in_controlled_shutdown,
                fields.rack,
                tuple(fields.log_dirs or ()),
                tuple((one.name, one.host, one.port) for one in fields.end_points),
            ),
        )

    def _controller(self, fields: Any) -> None:
        endpoints = tuple((one.name, one.host, one.port) for one in fields.end_points)
        registered = ControllerRegistration(fields.incarnation_id, endpoints)
        self._set(("controller", fields.controller_id), registered)

    def _change_broker(self, broker: int, **given: bool) -> None:
        key = ("broker", broker)
        if key in self.values:
            self._set(key, self.values[key]._replace(**given))

    def _broker_change(self, fields: Any) -> None:
        given = {"fenced": fields.fenced > 0} if fields.fenced else {}
        if fields.in_controlled_shutdown:
            given["stopping"] = fields.in_controlled_shutdown > 0
        self._change_broker(fields.broker_id, **given)

    def _acl(self, fields: Any) -> None:
        whom = (fields.principal, fields.host, fields.operation, fields.permission_type)
        what = (fields.resource_type, fields.resource_name, fields.pattern_type)
        self._set(("acl", fields.id), (*what, *whom))

    def _scram(self, fields: Any) -> None:
        secrets = (fields.salt, fields.stored_key, fields.server_key)
        digest = hashlib.sha256(b"\0".join((*secrets, b"%d" % fields.iterations))).digest()
        self._set(("scram", fields.name, fields.mechanism), digest)

    def _quota(self, fields: Any) -> None:
        entity = tuple((one.entity_type, one.entity_name) for one in fields.entity)
        key = ("quota", entity, fields.key)
        self._set(key, None if fields.remove else fields.value)


def _put(values: dict[Key, Any], key: Key, value: object) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


_ACTS: dict[str, Callable[[MetadataImage, Any], None]] = {
    "TopicRecord": MetadataImage._topic,
    "RemoveTopicRecord": MetadataImage._remove_topic,
    "PartitionRecord": MetadataImage._partition,
    "PartitionChangeRecord": MetadataImage._change_partition,
    "ClearElrRecord": MetadataImage._clear_elr,
    "ConfigRecord": MetadataImage._setting,
    "RegisterBrokerRecord": MetadataImage._broker,
    "BrokerRegistrationChangeRecord": MetadataImage._broker_change,
    "FenceBrokerRecord": lambda image, fields: image._change_broker(fields.id, fenced=True),
    "UnfenceBrokerRecord": lambda image, fields: image._change_broker(fields.id, fenced=False),
    "UnregisterBrokerRecord": lambda image, fields: image._set(("broker", fields.broker_id), None),
    "RegisterControllerRecord": MetadataImage._controller,
    "AccessControlEntryRecord": MetadataImage._acl,
    "RemoveAccessControlEntryRecord": lambda image, fields: image._set(("acl", fields.id), None),
    "UserScramCredentialRecord": MetadataImage._scram,
    "RemoveUserScramCredentialRecord": lambda image, fields: image._set(
        ("scram", fields.name, fields.mechanism), None
    ),
    "ClientQuotaRecord": MetadataImage._quota,
    "DelegationTokenRecord": lambda image, fields: image._set(
        ("token", fields.token_id), (fields.owner, fields.expiration_timestamp)
    ),
    "RemoveDelegationTokenRecord": lambda image, fields: image._set(
        ("token", fields.token_id), None
    ),
    "ProducerIdsRecord": lambda image, fields: image._set(
        ("producer ids",), fields.next_producer_id
    ),
    "FeatureLevelRecord": lambda image, fields: image._set(
        ("feature", fields.name), fields.feature_level or None
    ),
    "BeginTransactionRecord": MetadataImage._begin,
    "EndTransactionRecord": MetadataImage._end,
    "AbortTransactionRecord": MetadataImage._abort,
}
"""What each record does; the others, NoOpRecord and ZkMigrationRecord, change nothing here."""


def replay(copies: Sequence[MetadataCopy], since: int) -> MetadataImage:
    """The state at the end of the first of *copies*, with the changes from *since* on noted.

    Where a log begins too late, the batches of the others are read, which have to be prefixes of
    the first; where none has them, the next snapshot is compared with the state before it.
    `noted_from` is later than *since* if no copy has the state at that offset.

    Raises:
        MalformedInput: no copy has anything to begin with.
        StorageError: a file changed since it was read.
    """
    best = copies[0]
    snapshots = sorted(
        (one for copy in copies for one in copy.usable_snapshots if one.offset <= best.end.offset),
        key=lambda one: one.offset,
    )
    early = [one for one in snapshots if one.offset <= since]
    if early:
        image = MetadataImage(noted_from=since)
        at = _load(image, early[-1])
    elif any(len(copy.batches) and copy.log_start == 0 for copy in copies):
        image, at = MetadataImage(noted_from=since), 0
    elif snapshots:
        image = MetadataImage(noted_from=snapshots[0].offset)
        at = _load(image, snapshots[0])
    else:
        raise MalformedInput(f"{best.path} has neither a snapshot nor a log from offset 0.")
    while at < best.end.offset:
        having = [copy for copy in copies if _reaches(copy, at) > at]
        if having:
            copy = max(having, key=lambda copy: _reaches(copy, at))
            end = min(_reaches(copy, at), best.end.offset)
            for batch in copy.batches.read(at, end):
                image.apply(batch)
            at = end
        else:
            at = _load(image, next(one for one in snapshots if one.offset > at))
    image.finish()
    return image


def _reaches(copy: MetadataCopy, offset: int) -> int:
    """Where the batches of *copy* end, if one of them begins at *offset* or contains it."""
    batches = copy.batches
    has = len(batches) and batches.starts[0] <= offset < batches.ends[-1]
    return batches.ends[-1] if has else 0


def _load(image: MetadataImage, snapshot: MetadataSnapshot) -> int:
    image.load(snapshot)
    return snapshot.offset
