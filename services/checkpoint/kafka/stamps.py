"""What every record of a participant carries: its checkpoint id, and what led to it (H2).

As headers, in text: ``breakglass-sn`` is the id, ``breakglass-origin`` the input as
``TOPIC-ID:PARTITION:OFFSET:INDEX:GROUP``, empty for what comes from outside. The topic's
id stands for the timeline: offsets of a restored topic never meet those of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SN = "breakglass-sn"
ORIGIN = "breakglass-origin"
SOURCE = "breakglass-source"
"""Where the input lies now, of one that a restore has put elsewhere; the origin names the old."""
MARKER = "breakglass-marker"
"""Of the coordinator's own records: the id of the checkpoint that begins with it."""
LARGEST = 2**63 - 1

Headers = Iterable[tuple[str | bytes, bytes | str | None]]


@dataclass(frozen=True, slots=True, order=True)
class RecordAddress:
    """A record by the topic's id, so that it is another one in another timeline."""

    topic_id: str
    """32 hexadecimal digits."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """What led to a record: the input, the how manieth output of it, and whose."""

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
    """None: it came from outside; nothing led to it."""
    source: RecordOrigin | None = None
    """The input as it lies in its topic now; the cause itself unless a restore moved it."""
    marker: bool = False


OUTSIDE: list[tuple[str, bytes]] = [(SN, b"0"), (ORIGIN, b"")]
"""The headers of records that applications put in from outside the topics."""


def stamped(
    sn: int, cause: RecordOrigin, source: RecordOrigin | None = None
) -> list[tuple[str, bytes]]:
    """The headers of an output; *source* only where it differs from *cause*."""
    headers = [(SN, b"%d" % sn), (ORIGIN, str(cause).encode())]
    if source is not None and source != cause:
        headers.append((SOURCE, str(source).encode()))
    return headers


def marker_headers(id: int) -> list[tuple[str, bytes]]:
    """Those of the coordinator's record in a partition."""
    return [(SN, b"%d" % id), (ORIGIN, b""), (MARKER, b"%d" % id)]


def stamp_of(headers: Headers) -> Stamp | None:
    """What a record's headers say; None where they are missing, or say what nobody writes.

    Of a header that is there twice the last one counts, as Kafka's own clients have it.
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
    numbers = [_number(one) for one in parts[1:4]]
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
