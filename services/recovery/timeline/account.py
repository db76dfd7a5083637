"""What the journals of a state folder say: each in a line, by partition, as moments in time."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import assert_never

from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema, UsageError
from breakglass.services.file_lock import is_locked
from breakglass.services.guard.journal import (
    UNKNOWN,
    EntryKind,
    Items,
    JournalEntry,
    JournalView,
    UnreadableJournal,
    read,
    shown,
)
from breakglass.services.guard.lock import clusters_in, file_name
from breakglass.services.recovery.execution.steps import PREFERRED, SUCCEEDED, UNDONE
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.group_reset import STEP as COMMIT
from breakglass.services.recovery.plan.partition_file import spoken
from breakglass.services.recovery.timeline.ending import (
    PartitionEnding,
    TotalPrice,
    agreed_stake,
    endings_of,
)
from breakglass.services.recovery.topic_settings import owed
from breakglass.services.state_folder import state_folder

SHOWN_REQUESTS = 30
"""A journal with more requests is summed up by kind, so that its timeline can be pasted."""
SHOWN_TOPICS = 3


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a timeline."""

    at_ms: int
    says: str
    """As journals have it, hostile or not; what shows it makes it inert."""


def moments_of(view: JournalView) -> tuple[Moment, ...]:
    """The moments of *view*, in order; many requests of a kind become one line each."""
    requests = [request for request in view.entries if request.kind is EntryKind.REQUEST]
    if len(requests) <= SHOWN_REQUESTS:
        return tuple(_told(view, view.entries))
    steps = (EntryKind.REQUEST, EntryKind.OUTCOME)
    rest = _told(view, [entry for entry in view.entries if entry.kind not in steps])
    return tuple(sorted([*rest, *_by_kind(view, requests)], key=lambda moment: moment.at_ms))


def _told(view: JournalView, entries: Sequence[JournalEntry]) -> Iterator[Moment]:
    names = {step.request.seq: step.name for step in view.steps}
    for entry in entries:
        yield Moment(entry.at_ms, _says(entry, names.get(entry.payload.get("request", 0), "")))
    if view.torn:
        yield Moment(entries[-1].at_ms, "the last line was cut off: what it announced was not sent")


def _says(entry: JournalEntry, step: str) -> str:
    said = entry.payload
    match entry.kind:
        case EntryKind.OPENED:
            return f"begun by {said['who']}"
        case EntryKind.RESUMED:
            return f"taken up again by {said['who']}"
        case EntryKind.PLAN:
            digest = f", digest {digest_text(str(said['digest']))}" if said["digest"] else ""
            return f"plan of {_sized(entry.items)}{digest}"
        case EntryKind.CONSENT:
            return f"{said['who']} agreed: {said['phrase']}"
        case EntryKind.REQUEST:
            group = f" of group {said['group']}" if "group" in said else ""
            return f"{shown(said['step'])}{group}: {_sized(entry.items)}"
        case EntryKind.OUTCOME:
            return f"{step}: {_results(entry.items)}"
        case EntryKind.NOTE:
            return f"note: {said['text']}"
        case EntryKind.CLOSED:
            return f"ended: {shown(said['result'])}"
        case _ as unknown:
            assert_never(unknown)


def _by_kind(view: JournalView, requests: Sequence[JournalEntry]) -> Iterator[Moment]:
    """One line for each kind of step, where its first request stood."""
    for name in dict.fromkeys(shown(request.payload["step"]) for request in requests):
        steps = [step for step in view.steps if step.name == name]
        told: Counter[str] = Counter()
        for step in steps:
            told.update(outcome.result for outcome in step.outcomes.values())
            told[UNKNOWN] += len(step.items) - len(step.outcomes)
        results = ", ".join(f"{number:,} {word}" for word, number in told.most_common() if number)
        yield Moment(
            steps[0].request.at_ms, f"{name}, from here on in {len(steps):,} requests: {results}"
        )


def _results(items: Items) -> str:
    told = Counter(str(item.get("result", UNKNOWN)) for item in items.values())
    return ", ".join(f"{number:,} {word}" for word, number in told.most_common())


def _sized(items: Items) -> str:
    """``orders-3``; ``1,876 partitions of orders, ledger and 4 more topics``."""
    if len(items) == 1:
        return str(next(iter(items)))
    topics = list(dict.fromkeys(item.topic for item in items))
    named = ", ".join(topics[:SHOWN_TOPICS])
    more = len(topics) - SHOWN_TOPICS
    also = f" and {more:,} more topic{'s' * (more != 1)}" if more > 0 else ""
    return f"{len(items):,} partitions of {named}{also}" if topics else "no partition"


def digest_text(digest: str) -> str:
    """A plan's digest as it is read out loud, for the person who approved it."""
    try:
        return spoken(digest)
    except ValueError:
        return digest


def partition_numbers(numbers: Iterable[int], most: int = 12) -> str:
    """``0-99, 101, 103``; at most *most* ranges, and how many partitions are left out."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    named = [str(low) if low == high else f"{low}-{high}" for low, high in ranges[:most]]
    left = sum(high - low + 1 for low, high in ranges[most:])
    return ", ".join(named) + (f" and {left:,} more" if left else "")


class ExecutionState(StrEnum):
    """How an execution stands."""

    RUNNING = "running"
    """Somebody writes its journal right now."""
    INTERRUPTED = "interrupted"
    """It neither runs nor came to its end."""
    ENDED = "ended"
    """By itself; its result says how."""


@dataclass(frozen=True, slots=True)
class Brief:
    """A journal in a line: what is kept of the many that are not open."""

    path: Path
    cluster_id: str
    who: str
    resumed_by: tuple[str, ...]
    opened_at_ms: int
    last_at_ms: int
    """When its last line was written."""
    what: str
    """``recovery of 1,876 partitions``."""
    counts: Mapping[str, int]
    """Partitions by how it ended for them, the most first."""
    unknown: int
    """Partitions with a step that may or may not have happened."""
    stake: TotalPrice
    digest: str
    ended: str | None
    """``succeeded``, ``partly failed``, ``undone``; None while it has not come to its end."""
    planned: bool
    """It elects by a plan, so that it can be resumed."""
    state: ExecutionState
    owes: int = 0
    """Topic settings that it has still to put back."""

    @property
    def name(self) -> str:
        """The file's name without suffix: the moment it was opened."""
        return self.path.stem

    @property
    def result(self) -> str:
        """How it ended; without an end ``running`` or ``interrupted``."""
        return self.ended or str(self.state)

    @property
    def resumable(self) -> bool:
        """Whether a resume would find elections to finish or undo, or settings to put back."""
        done = self.ended in (SUCCEEDED, UNDONE)
        left = self.owes > 0 or (self.planned and not done)
        return left and self.state is not ExecutionState.RUNNING

    @property
    def checkable(self) -> bool:
        """Whether unknown outcomes can be looked up again."""
        return self.unknown > 0 and self.state is not ExecutionState.RUNNING


@dataclass(frozen=True)
class Account:
    """A journal with everything that it says."""

    view: JournalView
    state: ExecutionState

    @cached_property
    def brief(self) -> Brief:
        """The same in a line."""
        view = self.view
        resumed = (entry for entry in view.entries if entry.kind is EntryKind.RESUMED)
        return Brief(
            view.path,
            view.cluster_id,
            view.who,
            tuple(str(entry.payload["who"]) for entry in resumed),
            view.opened_at_ms,
            view.entries[-1].at_ms,
            self._what(),
            dict(Counter(ending.result for ending in self.endings).most_common()),
            len({partition for step in view.unsettled for partition in step.unsettled}),
            agreed_stake(self.endings),
            "" if view.plan is None else str(view.plan.payload["digest"]),
            view.result,
            view.plan is not None,
            self.state,
            len(owed(view)),
        )

    @cached_property
    def endings(self) -> tuple[PartitionEnding, ...]:
        """How it ended for each partition."""
        return endings_of(self.view)

    @cached_property
    def topics(self) -> tuple[TopicAccount, ...]:
        """The same by topic, in the order of their names."""
        held: dict[str, list[PartitionEnding]] = {}
        for ending in self.endings:
            held.setdefault(ending.partition.topic, []).append(ending)
        return tuple(TopicAccount(topic, tuple(held[topic])) for topic in sorted(held))

    def _what(self) -> str:
        """What it set out to do."""
        number = len(self.endings)
        steps = {step.name for step in self.view.steps}
        if self.view.plan is not None:
            doing = "recovery"
        elif COMMIT in steps:
            doing = "group offsets"
        elif PREFERRED in steps:
            doing = "preferred election"
        else:
            return "nothing was begun" if not steps else ", ".join(sorted(steps))
        return f"{doing} of {number:,} partition{'s' * (number != 1)}"


@dataclass(frozen=True)
class TopicAccount:
    """What was done to one topic."""

    topic: str
    endings: tuple[PartitionEnding, ...]
    """At least one."""

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return dict(Counter(ending.result for ending in self.endings).most_common())

    @property
    def stake(self) -> TotalPrice:
        return agreed_stake(self.endings)

    @cached_property
    def leaders(self) -> Mapping[int, int]:
        """Partitions by the broker that was elected for them, the most first."""
        elected = str(RecoveryResult.ELECTED)
        led = (ending.leader for ending in self.endings if ending.result == elected)
        return dict(Counter(leader for leader in led if leader is not None).most_common())

    @property
    def rescued(self) -> int:
        """Records that were saved."""
        return sum(saved.records for ending in self.endings for saved in ending.rescued)


def words_of(counts: Mapping[str, int]) -> str:
    """``1,874 elected, 2 unknown``."""
    return ", ".join(f"{number:,} {word}" for word, number in counts.items())


PREFIX = file_name("")
Stamp = tuple[int, int]
"""Size and time of the last change of a file."""


@dataclass(frozen=True, slots=True)
class _Held:
    stamp: Stamp
    told: Brief | UnreadableJournal


class Shelf:
    """Journals below one state folder. May be used by many threads."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or state_folder()) / "journal"
        self._held: dict[Path, _Held] = {}
        self._reading = threading.Lock()

    def clusters(self) -> list[str]:
        """Ids of the clusters that there are journals of."""
        return clusters_in(self._folder)

    def briefs(self, cluster_ids: Iterable[str]) -> list[Brief | UnreadableJournal]:
        """The journals of these clusters, newest first."""
        folders = [self._folder / file_name(cluster_id) for cluster_id in cluster_ids]
        paths = [path for folder in folders for path in folder.glob("*.jsonl")]
        paths.sort(key=lambda path: (path.name, path), reverse=True)
        with self._reading:
            found = {path: self._read(path) for path in paths}
            self._held = {path: held for path, held in found.items() if held is not None}
            return [held.told for held in self._held.values()]

    def named(self, name: str) -> Account:
        """The journal of that path, or of that name in the state folder.

        Raises:
            UsageError: there is none, or more than one.
            StorageError, MalformedInput, UnsupportedSchema: it cannot be read.
        """
        if Path(name).is_file():
            return account_of(Path(name))
        paths = [path for path in self._folder.glob(f"{PREFIX}*/*.jsonl") if path.stem == name]
        if len(paths) != 1:
            many = "is the name of more than one journal: give its path"
            none = "is no journal: `breakglass journal list` shows their names"
            raise UsageError(f"{name!r} {many if paths else none}.")
        return account_of(paths[0])

    def _read(self, path: Path) -> _Held | None:
        """The journal at *path*, from memory while the file is the same; None if it is gone."""
        try:
            found = path.stat()
        except OSError:
            return None
        stamp = (found.st_size, found.st_mtime_ns)
        held = self._held.get(path)
        if held is None or held.stamp != stamp:
            return _Held(stamp, _brief_of(path))
        if isinstance(held.told, UnreadableJournal) or held.told.ended is not None:
            return held
        # A writer may have come or gone without a word.
        return _Held(stamp, replace(held.told, state=_state(path)))


def account_of(path: Path) -> Account:
    """The account of the journal at *path*.

    Raises: StorageError, MalformedInput, UnsupportedSchema.
    """
    view = read(path)
    return Account(view, _state(path) if view.result is None else ExecutionState.ENDED)


def being_written(path: Path) -> bool:
    """Whether a process has that journal open to write in it, here or in another session."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_locked(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _brief_of(path: Path) -> Brief | UnreadableJournal:
    try:
        return account_of(path).brief
    except (MalformedInput, UnsupportedSchema, StorageError) as error:
        return UnreadableJournal(path, str(error))


def _state(path: Path) -> ExecutionState:
    return ExecutionState.RUNNING if being_written(path) else ExecutionState.INTERRUPTED
