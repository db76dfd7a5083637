"""Streams of entries in memory, and edits of them that are known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.source import (
    Extent,
    Item,
    Reading,
    RecordEntry,
    RecordField,
    UnreadableRange,
    address,
    content_of,
)
from breakglass.services.record_batches import TimestampType

TIME = 1_700_000_000_000


def entry(offset: int, value: bytes | None = b"value", epoch: int | None = 5) -> RecordEntry:
    key = content_of(b"key-%d" % offset, 512)
    return RecordEntry(
        offset, epoch, TimestampType.CREATE, TIME + offset, key, content_of(value, 512)
    )


def entries(start: int, end: int, value: bytes = b"value", epoch: int = 5) -> list[RecordEntry]:
    return [entry(offset, value, epoch) for offset in range(start, end)]


@dataclass
class ListSource:
    """A source that is a list; remembers which addresses it was asked for."""

    items: Sequence[Item]
    name: str = "b1"
    asked: list[tuple[int, int]] = field(default_factory=list)
    told: int = 0
    """Items that were pulled."""
    end: int | None = None

    @property
    def extent(self) -> Extent:
        if not self.items:
            return Extent(0, self.end or 0)
        last = self.items[-1]
        end = last.offset + 1 if isinstance(last, RecordEntry) else last.end
        return Extent(address(self.items[0]), max(end, self.end or 0))

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        self.asked.append((start, end))
        for item in self.items:
            reading.go_on()
            if isinstance(item, UnreadableRange):
                if start < item.end and item.start < end:
                    self.told += 1
                    yield UnreadableRange(max(item.start, start), min(item.end, end), item.reason)
            elif start <= item.offset < end:
                self.told += 1
                yield item

    def raw_log(self, start: int, end: int, reading: Reading) -> None:
        """There are no bytes."""


def compare(
    left: Sequence[Item], right: Sequence[Item], proven_same: Extent | None = None
) -> Comparison:
    """The comparison of two lists, as b1 and b2."""
    return Comparison(ListSource(left), ListSource(right, "b2"), proven_same)


@dataclass(frozen=True)
class Edited:
    """A stream, the same after some edits, and the edits by offset."""

    before: list[RecordEntry]
    after: list[RecordEntry]
    dropped: frozenset[int]
    added: frozenset[int]
    changed: dict[int, RecordField]


_changes = st.sampled_from([None, None, None, None, "drop", "add", *RecordField])


@st.composite
def edited(draw: st.DrawFn, most: int = 40) -> Edited:
    """Random edits, with runs of the same kind among them."""
    size = draw(st.integers(0, most))
    edits = draw(st.lists(_changes, min_size=size, max_size=size))
    before: list[RecordEntry] = []
    after: list[RecordEntry] = []
    changed: dict[int, RecordField] = {}
    for offset, edit in enumerate(edits):
        plain = entry(offset)
        if edit != "add":
            before.append(plain)
        if isinstance(edit, RecordField):
            changed[offset] = edit
            after.append(_changed(plain, edit))
        elif edit != "drop":
            after.append(plain)
    places = {word: frozenset(at for at, one in enumerate(edits) if one == word)
              for word in ("drop", "add")}  # fmt: skip
    return Edited(before, after, places["drop"], places["add"], changed)


def _changed(plain: RecordEntry, what: RecordField) -> RecordEntry:
    from breakglass.services.divergence.source import ROWS, headers_of
    from breakglass.services.record_batches import ControlType, Marker

    match what:
        case RecordField.EPOCH:
            return plain._replace(epoch=6)
        case RecordField.KEY:
            return plain._replace(key=None)
        case RecordField.VALUE:
            return plain._replace(value=content_of(b"v" * 2_000, 512))
        case RecordField.HEADERS:
            return plain._replace(headers=headers_of(((b"h", None),), ROWS))
        case RecordField.TIMESTAMP:
            return plain._replace(timestamp=0)
        case RecordField.TYPE:
            return plain._replace(timestamp_type=TimestampType.LOG_APPEND)
        case RecordField.MARKER:
            return plain._replace(marker=Marker(ControlType.COMMIT, 1))
