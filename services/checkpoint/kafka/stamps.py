"""The headers of every record of a participant: its checkpoint id, and its origin (H2).

They are text: ``breakglass-sn`` is the id; ``breakglass-origin`` is the input as
``TOPIC-ID:PARTITION:OFFSET:INDEX:GROUP``, empty for records from outside. The topic id identifies
the timeline, so offsets of a restored topic are never confused with offsets before the restore.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SN = "breakglass-sn"
ORIGIN = "breakglass-origin"
SOURCE = "breakglass-source"
"""The current address of an input that a restore has moved; the origin has the old address."""
MARKER = "breakglass-marker"
"""On the coordinator's own records: the id of the checkpoint that begins with the record."""
LARGEST = 2**63 - 1

Headers = Iterable[tuple[str | bytes, bytes | str | None]]


@dataclass(frozen=True, slots=True, order=True)
class RecordAddress:
    """A record's address; the topic's id distinguishes the same offset in another timeline."""

    topic_id: str
    """32 hexadecimal digits."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """The input that led to a record, the record's number among its outputs, and the group."""

    place: RecordAddress
    index: int
    group: str

    def __str__(self) -> str:
        at = self.place
        return f"{at.topic_id}:{at.partition}:{at.offset}:{self.index}:{self.group}"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the headers of one record say."""

    sn: int
    cause: RecordOrigin | None
    """None: the record came from outside."""
    source: RecordOrigin | None = None
    """The input's current address; equals the cause unless a restore has moved the input."""
    marker: bool = False


def stamped(
    sn: int, cause: RecordOrigin, source: RecordOrigin | None = None
) -> list[tuple[str, bytes]]:
    """The headers of an output; *source* only where it differs from *cause*."""
    headers = [(SN, b"%d" % sn), (ORIGIN, str(cause).encode())]
    if source is not None and source != cause:
        headers.append((SOURCE, str(source).encode()))
    return headers


def marker_headers(id: int) -> list[tuple[str, bytes]]:
    """The headers of the coordinator's marker in a partition."""
    return [(SN, b"%d" % id), (ORIGIN, b""), (MARKER, b"%d" % id)]


def stamp_of(headers: Headers) -> Stamp | None:
    """The content of a record's headers; None if they are missing or malformed.

    If a header is repeated, the last value counts, as in Kafka's own clients.
    """
    found = {_text(name): _bytes(value) for name, value in headers}
    sn, origin = _number(found.get(SN)), found.get(ORIGIN)
    if sn is None or origin is None:
        return None
    if not origin:
        return Stamp(sn, None, marker=MARKER in found)
    cause = _cause(origin)
    source = _cause(found[SOURCE]) if SOURCE in found else cause
    return None if cause is None or source is None else Stamp(sn, cause, source)


def _cause(value: bytes | None) -> RecordOrigin | None:
    parts = (value or b"").split(b":", 4)
    if len(parts) < 5 or len(parts[0]) != 32:
        return None
    numbers = [_number(part) for part in parts[1:4]]
    partition, offset, index = numbers
    if partition is None or offset is None or index is None:
        return None
    try:
        place = RecordAddress(parts[0].decode("ascii"), partition, offset)
        return RecordOrigin(place, index, parts[4].decode())
    except UnicodeDecodeError:
        return None


def _number(value: bytes | None) -> int | None:
    if value is None or not value.isdigit() or len(value) > 19:
        return None
    number = int(value)
    return number if number <= LARGEST else None


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "replace")


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
