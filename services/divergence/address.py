"""Sources by the address an operator types: ``KIND:PLACE/TOPIC/PARTITION``.

::

    backup:URL/TOPIC/PARTITION       a topic backup, by its folder or URL
    rescue:DIR/TOPIC/PARTITION       what was saved of one broker before an election
    topic:TOPIC/PARTITION            the topic as committed consumers read it from its leader
    replica:BROKER/TOPIC/PARTITION   one broker's own log, leader or not, also when offline
    log:DIR/TOPIC-PARTITION          a log folder on this machine's disk, without a broker
    checkpoint:URL/ID/TOPIC/PARTITION  a partition's copy in a store of checkpoints
    metastore:FILE                   a backup of a ksqlDB metastore, a command a line
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.layout import topic_of

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_ID = re.compile(r"[0-9]{1,19}", re.ASCII)
FORMS = (
    "backup:URL/TOPIC/PARTITION, rescue:DIR/TOPIC/PARTITION, topic:TOPIC/PARTITION, "
    "replica:BROKER/TOPIC/PARTITION, log:DIR/TOPIC-PARTITION, "
    "checkpoint:URL/ID/TOPIC/PARTITION or metastore:FILE"
)


class SourceKind(StrEnum):
    """What a source is read from."""

    BACKUP = "backup"
    RESCUE = "rescue"
    TOPIC = "topic"
    REPLICA = "replica"
    LOG = "log"
    CHECKPOINT = "checkpoint"
    METASTORE = "metastore"

    @property
    def asks_brokers(self) -> bool:
        """Whether reading the source needs a cluster."""
        return self in (SourceKind.TOPIC, SourceKind.REPLICA)

    @property
    def committed(self) -> bool:
        """Whether the source has no markers and no records of aborted transactions."""
        return self in (SourceKind.BACKUP, SourceKind.TOPIC, SourceKind.CHECKPOINT)

    @property
    def stored(self) -> bool:
        """Whether the source is stored in the format of topic backups."""
        return self in (SourceKind.BACKUP, SourceKind.RESCUE)


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """One source."""

    kind: SourceKind
    place: str
    """The store's URL, the broker's id, the folder, the file; empty for a topic.

    For a checkpoint, the store's URL and the checkpoint's id.
    """
    folder: str
    """The topic, or the folder of a generation of it: ``orders~2``; empty for a metastore."""
    partition: int

    def __str__(self) -> str:
        if self.kind is SourceKind.METASTORE:
            return f"metastore:{self.place}"
        if self.kind is SourceKind.LOG:
            return f"log:{self.place}/{self.folder}-{self.partition}"
        place = f"{self.place}/" if self.place else ""
        return f"{self.kind}:{place}{self.folder}/{self.partition}"

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic's partition, whatever its generation; ``metastore`` for a metastore."""
        if self.kind is SourceKind.METASTORE:
            return TopicPartition(SourceKind.METASTORE, 0)
        return TopicPartition(topic_of(self.folder), self.partition)


def parse_address(text: str) -> SourceAddress:
    """Parse *text* as an address.

    Raises:
        UsageError: *text* is not an address; the message says what is missing.
    """
    kind, colon, rest = text.partition(":")
    if not colon or kind not in set(SourceKind):
        raise UsageError(f"{text!r} names no kind of source: write {FORMS}.")
    return _PARSERS.get(SourceKind(kind), _placed)(SourceKind(kind), rest, text)


def _placed(kind: SourceKind, rest: str, text: str) -> SourceAddress:
    place, first, last = rest.rpartition("/")
    above, second, topic = place.rpartition("/")
    if not (first and second and topic):
        raise UsageError(f"{text!r} has no place, topic and partition: write {_form(kind)}.")
    if kind is SourceKind.REPLICA and not _NUMBER.fullmatch(above.removeprefix("b")):
        raise UsageError(f"{text!r} names no broker by its id: write {_form(kind)}.")
    if kind is SourceKind.CHECKPOINT and not _ID.fullmatch(above.rpartition("/")[2]):
        raise UsageError(f"{text!r} names no checkpoint by its id: write {_form(kind)}.")
    above = above.removeprefix("b") if kind is SourceKind.REPLICA else above
    return SourceAddress(kind, above or "/", topic, _number(last, text))


def _topic(kind: SourceKind, rest: str, text: str) -> SourceAddress:
    topic, slash, last = rest.rpartition("/")
    if not (slash and topic):
        raise UsageError(f"{text!r} has no topic and partition: write {_form(kind)}.")
    return SourceAddress(kind, "", topic, _number(last, text))


def _log(kind: SourceKind, rest: str, text: str) -> SourceAddress:
    place, _, name = rest.rstrip("/").rpartition("/")
    topic, dash, last = name.rpartition("-")
    if not (dash and topic):
        raise UsageError(f"{text!r} is no log folder: write {_form(kind)}.")
    root = place or ("/" if rest.startswith("/") else ".")
    return SourceAddress(kind, root, topic, _number(last, text))


def _metastore(kind: SourceKind, rest: str, text: str) -> SourceAddress:
    if not rest:
        raise UsageError(f"{text!r} names no file: write {_form(kind)}.")
    return SourceAddress(kind, rest, "", 0)


_PARSERS = {SourceKind.TOPIC: _topic, SourceKind.LOG: _log, SourceKind.METASTORE: _metastore}


def _number(digits: str, text: str) -> int:
    if not _NUMBER.fullmatch(digits):
        raise UsageError(f"{text!r} does not end with a partition's number: add it.")
    return int(digits)


def _form(kind: SourceKind) -> str:
    return next(part for part in FORMS.replace(" or ", ", ").split(", ") if part.startswith(kind))
