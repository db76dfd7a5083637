"""Reading a journal back: its entries, and the state of the execution that they fold into."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema
from breakglass.services.model import TopicPartition
from breakglass.services.regular_file import read_regular

SCHEMA = 1
UNKNOWN = "unknown"
"""The result of a partition whose request was sent and not answered."""

MOST_BYTES = 256 * 1024 * 1024
"""The largest journal that is read, in bytes: an election of 100,000 partitions has a third."""


class EntryKind(StrEnum):
    """The kind of an entry."""

    OPENED = "opened"
    RESUMED = "resumed"
    PLAN = "plan"
    CONSENT = "consent"
    REQUEST = "request"
    """A step is about to be sent."""
    OUTCOME = "outcome"
    """The result of a step, for some or all of its partitions."""
    NOTE = "note"
    CLOSED = "closed"
    """The execution ended by itself."""


Details = Mapping[str, Any]
Items = Mapping[TopicPartition, Details]
"""A value for each partition, in the order of the request."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A line of a journal."""

    seq: int
    """Counts from 1; outcomes refer to the number of their request."""
    kind: EntryKind
    at_ms: int
    payload: Details
    items: Items = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The result of a step for one partition."""

    result: str
    details: Details


@dataclass(frozen=True, slots=True)
class JournalStep:
    """A request, and its known results."""

    request: JournalEntry
    outcomes: Mapping[TopicPartition, StepOutcome] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.request.payload["step"])

    @property
    def items(self) -> Items:
        return self.request.items

    @property
    def unsettled(self) -> tuple[TopicPartition, ...]:
        """Partitions that may or may not have been changed: no outcome, or an unknown one."""
        return tuple(
            partition
            for partition in self.items
            if partition not in self.outcomes or self.outcomes[partition].result == UNKNOWN
        )


@dataclass(frozen=True, slots=True)
class JournalView:
    """A journal as far as it is written."""

    path: Path
    cluster_id: str
    entries: tuple[JournalEntry, ...]
    steps: tuple[JournalStep, ...]
    torn: bool
    """A crash cut off the last line. The step that it would have announced was not sent."""
    whole_bytes: int
    """Length of the file up to its last whole line."""

    @property
    def who(self) -> str:
        """Who opened it, ``user@host``."""
        return str(self.entries[0].payload["who"])

    @property
    def opened_at_ms(self) -> int:
        return self.entries[0].at_ms

    @property
    def plan(self) -> JournalEntry | None:
        """The plan that was agreed to last: digests in the payload, partitions in the items."""
        return self._last(EntryKind.PLAN)

    @property
    def consent(self) -> JournalEntry | None:
        """The last consent: who gave it, and the phrase."""
        return self._last(EntryKind.CONSENT)

    @property
    def result(self) -> str | None:
        """How the execution ended; None while it runs, or after a crash."""
        last = self.entries[-1]
        return str(last.payload["result"]) if last.kind is EntryKind.CLOSED else None

    @property
    def unsettled(self) -> tuple[JournalStep, ...]:
        """Steps that may or may not have happened, oldest first."""
        return tuple(step for step in self.steps if step.unsettled)

    def steps_of(self, partition: TopicPartition) -> tuple[JournalStep, ...]:
        """The steps announced for *partition*, oldest first."""
        return tuple(step for step in self.steps if partition in step.items)

    def _last(self, kind: EntryKind) -> JournalEntry | None:
        return next((entry for entry in reversed(self.entries) if entry.kind is kind), None)


def read(path: Path) -> JournalView:
    """Read a journal. A last line that a crash cut off is left out, and `torn` is true.

    Raises:
        StorageError: the file cannot be read.
        MalformedInput: it is no journal, or damaged before its last line; with line and column.
        UnsupportedSchema: a newer version wrote in it.
    """
    try:
        data = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise StorageError(
            f"journal {path} cannot be read ({error.strerror}): check the path and its rights"
        ) from error
    lines, tail = data.split(b"\n")[:-1], data.rpartition(b"\n")[2]
    entries: list[JournalEntry] = []
    for number, line in enumerate(lines, 1):
        entry = _entry(line, JournalLine(path, number))
        if isinstance(entry, MalformedInput):
            raise entry
        entries.append(entry)
    return _view(path, entries, bool(tail), len(data) - len(tail))


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A line of a journal, for errors."""

    path: Path
    line: int

    def malformed(self, problem: str, column: int = 1) -> MalformedInput:
        return MalformedInput(
            f"journal {self.path} line {self.line} column {column}: {problem}; resume from an "
            "undamaged copy"
        )


_REQUIRED: Mapping[EntryKind, tuple[str, ...]] = {
    EntryKind.OPENED: ("cluster_id", "who"),
    EntryKind.RESUMED: ("who",),
    EntryKind.PLAN: ("digest", "evidence_digest"),
    EntryKind.CONSENT: ("who", "phrase"),
    EntryKind.REQUEST: ("step",),
    EntryKind.OUTCOME: ("request",),
    EntryKind.NOTE: ("text",),
    EntryKind.CLOSED: ("result",),
}


def missing_field(kind: EntryKind, payload: Details) -> str | None:
    """The first field that an entry of that kind must have and *payload* lacks."""
    return next((name for name in _REQUIRED[kind] if name not in payload), None)


def _entry(line: bytes, place: JournalLine) -> JournalEntry | MalformedInput:
    try:
        document = json.loads(line)
    except json.JSONDecodeError as error:
        return place.malformed(error.msg, error.colno)
    except UnicodeDecodeError as error:
        return place.malformed("not UTF-8 text", error.start + 1)
    except (ValueError, RecursionError):
        return place.malformed("a number or a nesting too large to be read")
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        return place.malformed("not an entry of a journal")
    if document["schema"] != SCHEMA:
        raise UnsupportedSchema(
            f"journal {place.path} line {place.line} has schema version {document['schema']} and "
            f"this release knows {SCHEMA}: use the release that wrote it"
        )
    try:
        kind = EntryKind(document["kind"])
        items = {
            TopicPartition(str(item.pop("topic")), int(item.pop("partition"))): item
            for item in document.get("items", [])
        }
        entry = JournalEntry(int(document["seq"]), kind, int(document["at_ms"]), document, items)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
        return place.malformed("an entry without its kind, number, time or partitions")
    missing = missing_field(kind, document)
    if missing is not None:
        return place.malformed(f"{kind} entry without {missing}")
    frame = ("schema", "seq", "kind", "at_ms", "items")
    said = {name: value for name, value in document.items() if name not in frame}
    return replace(entry, payload=said)


def _view(path: Path, entries: list[JournalEntry], torn: bool, whole_bytes: int) -> JournalView:
    if not entries or entries[0].kind is not EntryKind.OPENED:
        raise JournalLine(path, 1).malformed("a journal begins with an opened entry")
    for number, entry in enumerate(entries, 1):
        if entry.seq != number:
            raise JournalLine(path, number).malformed(f"entry {entry.seq} where {number} belongs")
    return JournalView(
        path=path,
        cluster_id=str(entries[0].payload["cluster_id"]),
        entries=tuple(entries),
        steps=_steps(entries, path),
        torn=torn,
        whole_bytes=whole_bytes,
    )


def _steps(entries: Iterable[JournalEntry], path: Path) -> tuple[JournalStep, ...]:
    requests: dict[int, JournalEntry] = {}
    outcomes: dict[int, dict[TopicPartition, StepOutcome]] = {}
    for entry in entries:
        if entry.kind is EntryKind.REQUEST:
            requests[entry.seq], outcomes[entry.seq] = entry, {}
        elif entry.kind is EntryKind.OUTCOME:
            request = entry.payload["request"]
            if not isinstance(request, int) or request not in requests:
                raise JournalLine(path, entry.seq).malformed("an outcome of no request")
            outcomes[request].update(_outcomes(entry))
    return tuple(JournalStep(request, outcomes[seq]) for seq, request in requests.items())


def _outcomes(entry: JournalEntry) -> dict[TopicPartition, StepOutcome]:
    return {
        partition: StepOutcome(
            str(item.get("result", UNKNOWN)),
            {name: value for name, value in item.items() if name != "result"},
        )
        for partition, item in entry.items.items()
    }
