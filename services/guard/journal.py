"""The journal of a recovery: append-only lines, on disk before the step they announce is sent."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    AlreadyRunning,
    MalformedInput,
    StorageError,
    UnsupportedSchema,
)
from breakglass.services.file_lock import lock
from breakglass.services.guard.lock import ClusterLock, file_name, operator, private_folder
from breakglass.services.guard.steps import FREEZE_ELECTIONS
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.regular_file import read_regular
from breakglass.services.rights import sync_folder
from breakglass.services.state_folder import state_folder

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


def shown(word: object) -> str:
    """The *word* of a journal as people read it: to hold an election means something else."""
    return {"held": "frozen", "hold unclean elections": FREEZE_ELECTIONS}.get(str(word), str(word))


@dataclass(frozen=True, slots=True)
class JournalStep:
    """A request, and its known results."""

    request: JournalEntry
    outcomes: Mapping[TopicPartition, StepOutcome] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return shown(self.request.payload["step"])

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
        return shown(last.payload["result"]) if last.kind is EntryKind.CLOSED else None

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
            outcomes[request].update(
                {
                    partition: StepOutcome(
                        str(item.get("result", UNKNOWN)),
                        {name: value for name, value in item.items() if name != "result"},
                    )
                    for partition, item in entry.items.items()
                }
            )
    return tuple(JournalStep(request, outcomes[seq]) for seq, request in requests.items())


__all__ = [
    "UNKNOWN",
    "EntryKind",
    "Journal",
    "JournalView",
    "UnreadableJournal",
    "journal_in_turn",
    "list_journals",
    "read",
]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
AT_LEAST = 1024 * 1024
"""Bytes given back at once: some file systems take their time to hand out a few blocks."""


class Reserve:
    """Space kept free on a folder's file system while a journal is written. Not for many threads.

    The file has no name, so that the space is free again however its process ends. Where another
    program fills the disk in the middle, the journal gets its lines from here.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor: int | None = descriptor
        self._size = size

    @classmethod
    def take(cls, folder: Path, size: int) -> Reserve:
        """Reserve *size* bytes where *folder* is.

        Raises:
            OSError: there is no room for them.
        """
        descriptor, name = tempfile.mkstemp(prefix=".reserve-", dir=folder)
        try:
            os.unlink(name)
            os.posix_fallocate(descriptor, 0, size)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, size)

    def give(self, size: int) -> bool:
        """Give at least *size* bytes back to the file system; False when no reserve is left."""
        if self._descriptor is None or not self._size:
            return False
        self._size = max(0, self._size - max(2 * size, AT_LEAST))
        try:
            os.ftruncate(self._descriptor, self._size)
            os.fsync(self._descriptor)
        except OSError:
            self.close()
        return True

    def close(self) -> None:
        """Give everything back; closing twice does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class Journal:
    """An open journal, which has the lock of its cluster. For use by many threads.

    Each method returns once its line is on disk. `request` is called before a step is sent and
    `outcome` when its answer, or the lack of one, is known: whenever the process crashes, no
    step is without its announcement.
    """

    def __init__(self, path: Path, cluster_id: str, lock: ClusterLock, descriptor: int) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self._lock = lock
        self._descriptor: int | None = descriptor
        self._written = (0, 0)
        """Bytes and entries on disk: a single value, so that interrupts split nothing."""
        self._writing = threading.Lock()
        self._reserve: Reserve | None = None

    @classmethod
    def open(cls, cluster_id: str, folder: Path | None = None) -> Self:
        """Begin a journal, in *folder* or the user's state folder, and lock the cluster.

        Raises: AlreadyRunning, StorageError.
        """
        state = folder or state_folder()
        lock = ClusterLock.acquire(cluster_id, state / "locks")
        try:
            journals = private_folder(private_folder(state / "journal") / file_name(cluster_id))
            path = journals / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.jsonl"
            journal = cls(path, cluster_id, lock, _open_alone(path, os.O_CREAT | os.O_EXCL))
        except BaseException:
            lock.release()
            raise
        with journal._closed_on_failure():
            journal.record(EntryKind.OPENED, cluster_id=cluster_id, who=operator())
            # Put the file's name on disk too.
            try:
                sync_folder(journals)
            except OSError as error:
                raise StorageError(
                    f"{journals} cannot be put on disk ({error.strerror}): check that file system"
                ) from error
        return journal

    @classmethod
    def resume(cls, path: Path, folder: Path | None = None) -> tuple[Self, JournalView]:
        """Resume a journal, after a crash or in a colleague's place, and lock its cluster.

        Returns the journal and its entries so far; a torn last line is cut off.

        Raises: AlreadyRunning, StorageError, MalformedInput, UnsupportedSchema.
        """
        cluster_id = read(path).cluster_id
        lock = ClusterLock.acquire(cluster_id, (folder or state_folder()) / "locks")
        try:
            journal = cls(path, cluster_id, lock, _open_alone(path, 0))
        except BaseException:
            lock.release()
            raise
        with journal._closed_on_failure():
            view = read(path)
            journal._written = (view.whole_bytes, view.entries[-1].seq)
            journal._cut()
            journal.record(EntryKind.RESUMED, who=operator(), torn=view.torn)
        return journal, view

    def record(self, kind: EntryKind, items: Items | None = None, /, **payload: Any) -> int:
        """Write one entry and wait until it is on disk; returns its number.

        *items* has a value for each partition. Values may be what JSON has, and paths, UUIDs,
        `TopicPartition` and `Unknown`.

        Raises:
            StorageError: not written, so the step that it announces must not be sent.
            TypeError: a value that has no place in a journal, such as a `Secret`.
            ValueError: a field that the kind must have is missing.
        """
        missing = missing_field(kind, payload)
        if missing is not None:
            raise ValueError(f"a {kind} entry needs {missing}")
        with self._writing:
            seq = self._written[1] + 1
            frame = {"schema": SCHEMA, "seq": seq, "kind": kind, "at_ms": now_ms()}
            held = {} if items is None else {"items": list(map(_item, items.items()))}
            document = {**frame, **payload, **held, **frame}
            line = json.dumps(document, default=_jsonable, allow_nan=False)
            self._append(line.encode() + b"\n")
            return seq

    def reserve(self, size: int) -> None:
        """Keep *size* bytes free for what is still to be written, until `close`.

        Raises:
            StorageError: there is no room; the message says how much is needed and where.
        """
        with self._writing:
            held, self._reserve = self._reserve, None
            if held is not None:
                held.close()
            if size <= 0:
                return
            folder = self.path.parent
            try:
                self._reserve = Reserve.take(folder, size)
            except OSError as error:
                raise StorageError(
                    f"the journal of this needs {size:,} bytes in {folder} and cannot have them "
                    f"({error.strerror}), so nothing was sent: free space there, then run it again"
                ) from error

    def plan(self, digest: str, evidence_digest: str, items: Items, **details: Any) -> int:
        """Write down the plan that is about to be agreed to."""
        return self.record(
            EntryKind.PLAN, items, digest=digest, evidence_digest=evidence_digest, **details
        )

    def consent(self, phrase: str, **details: Any) -> int:
        """Write down that the operator of this process agreed, and by which phrase."""
        return self.record(EntryKind.CONSENT, who=operator(), phrase=phrase, **details)

    def request(self, step: str, items: Items, **details: Any) -> int:
        """Announce a step, before it is sent; returns the number for `outcome`.

        *items* should have what is needed to undo the step, for each partition.
        """
        return self.record(EntryKind.REQUEST, items, step=step, **details)

    def outcome(self, request: int, items: Items, **details: Any) -> int:
        """Say what became of a request: a ``result`` for each partition, `UNKNOWN` among them."""
        for partition, item in items.items():
            if "result" not in item:
                raise ValueError(f"the outcome of {partition} needs a result")
        return self.record(EntryKind.OUTCOME, items, request=request, **details)

    def note(self, text: str, **details: Any) -> int:
        """Write down anything else."""
        return self.record(EntryKind.NOTE, text=text, **details)

    def finish(self, result: str, **details: Any) -> int:
        """Write down that the execution ended by itself; a journal without it is unfinished."""
        return self.record(EntryKind.CLOSED, result=result, **details)

    def close(self) -> None:
        """Close the file and release the cluster; closing twice does nothing."""
        with self._writing:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)
            if self._reserve is not None:
                self._reserve.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _append(self, line: bytes) -> None:
        if self._descriptor is None:
            raise StorageError(f"journal {self.path} is closed: resume it to continue")
        end, entries = self._written
        try:
            self._put(self._descriptor, line)
            self._written = (end + len(line), entries + 1)
        except OSError as error:
            self._cut()
            raise self._unwritable(error) from error
        except BaseException:
            self._cut()
            raise

    def _put(self, descriptor: int, line: bytes) -> None:
        """Write *line* to the disk; if it is full, into the reserved space.

        Raises: OSError.
        """
        while True:
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in FULL or not (
                    self._reserve is not None and self._reserve.give(len(line))
                ):
                    raise
                os.ftruncate(descriptor, self._written[0])
            else:
                return

    def _cut(self) -> None:
        """Cut off what follows the last whole line; a journal that cannot be cut is closed."""
        if self._descriptor is None:
            return
        try:
            os.ftruncate(self._descriptor, self._written[0])
        except OSError as error:
            os.close(self._descriptor)
            self._descriptor = None
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(
            f"journal {self.path} cannot be written ({error.strerror}), so nothing more is sent: "
            "free space there, then resume it"
        )


@dataclass(frozen=True, slots=True)
class UnreadableJournal:
    """A journal that cannot be read, and why."""

    path: Path
    reason: str


def list_journals(
    cluster_id: str, folder: Path | None = None, since: str = ""
) -> list[JournalView | UnreadableJournal]:
    """The journals of a cluster, newest first. One without a `JournalView.result` is unfinished.

    Those whose names, which begin with the time of their opening, come before *since* are not read.
    """
    journals = (folder or state_folder()) / "journal" / file_name(cluster_id)
    found = sorted(journals.glob("*.jsonl"), reverse=True)
    return [_readable(path) for path in found if path.name >= since]


def _readable(path: Path) -> JournalView | UnreadableJournal:
    try:
        return read(path)
    except (MalformedInput, UnsupportedSchema, StorageError) as error:
        return UnreadableJournal(path, str(error))


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
    except OSError as error:
        raise StorageError(
            f"journal {path} cannot be opened ({error.strerror}): check its rights, or resume a "
            "copy of it"
        ) from error


def _open_alone(path: Path, flags: int) -> int:
    """Open the file for this process alone, be it in a colleague's folder.

    Raises: AlreadyRunning, StorageError.
    """
    descriptor = _open(path, flags)
    try:
        lock(
            descriptor,
            lambda: (
                f"journal {path} is still being written: wait until that recovery ends, then look "
                "again"
            ),
            lambda reason: f"journal {path} cannot be locked ({reason}): copy it to a local disk",
        )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _item(pair: tuple[TopicPartition, Mapping[str, Any]]) -> dict[str, Any]:
    partition, details = pair
    return {"topic": partition.topic, "partition": partition.partition, **details}


def _jsonable(value: object) -> Any:
    if isinstance(value, TopicPartition):
        return {"topic": value.topic, "partition": value.partition}
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if isinstance(value, UUID | Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"a {type(value).__name__} has no place in a journal")


TURN_SECONDS = 0.1
"""Before a lock that another process has is tried again."""


def journal_in_turn(cluster_id: str, folder: Path | None, seconds: float) -> Journal:
    """The journal of a writer; writers of one account take turns, within *seconds*.

    Raises:
        AlreadyRunning: another process still changes the cluster.
        StorageError: the journal cannot be written.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return Journal.open(cluster_id, folder)
        except AlreadyRunning:
            if time.monotonic() >= end:
                raise
        time.sleep(TURN_SECONDS)
