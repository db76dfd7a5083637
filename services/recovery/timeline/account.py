"""What the journals of a state folder say: each in a line, by partition, as moments in time.

The timeline that is pasted into a ticket or a chat is plain text, UTC, inert, bounded.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, assert_never

from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema, UsageError
from breakglass.services.file_lock import is_locked
from breakglass.services.guard.journal import (
    UNKNOWN,
    EntryKind,
    Items,
    JournalEntry,
    JournalStep,
    JournalView,
    UnreadableJournal,
    read,
    shown,
)
from breakglass.services.guard.lock import clusters_in, file_name
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import PREFERRED, SUCCEEDED, UNDONE
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.group_reset import STEP as COMMIT
from breakglass.services.recovery.judgement.succession import do_not_start
from breakglass.services.recovery.plan.partition_file import spoken
from breakglass.services.recovery.timeline.ending import (
    NOT_ELECTED,
    PartitionEnding,
    TotalPrice,
    agreed_stake,
    endings_of,
    result_of,
)
from breakglass.services.recovery.topic_settings import owed
from breakglass.services.regular_file import replace_regular
from breakglass.services.state_folder import state_folder
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text

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


WIDTH = 2_000
"""Of any line, in characters; enough for a path, which is worth nothing when it is cut."""
SAID = 240
"""Of what is not a path: a name, an error, a note."""
DATE = len("2026-11-21")
LISTED_TOPICS = 50
SHOWN_PARTITIONS = 20

UNTROUBLED = frozenset(
    {"elected", "already online", "undone", "moved", "restored", "done", "started"}
)


def timeline_text(accounts: Iterable[Account]) -> str:
    """The timelines of *accounts*, oldest first, with an empty line between them."""
    ordered = sorted(
        accounts, key=lambda account: (account.view.opened_at_ms, account.view.path.name)
    )
    return "\n\n".join("\n".join(_lines(account)) for account in ordered)


def _lines(account: Account) -> Iterator[str]:
    yield from (bounded(line, WIDTH) for line in _unbounded(account))


def _unbounded(account: Account) -> Iterator[str]:
    brief = account.brief
    yield f"{brief.what[:1].upper()}{brief.what[1:]}: {brief.result}"
    yield f"Cluster  {brief.cluster_id}"
    yield f"When     {time_text(brief.opened_at_ms)} to {time_text(brief.last_at_ms)} (UTC)"
    yield f"Who      {', '.join(dict.fromkeys((brief.who, *brief.resumed_by)))}"
    if brief.stake.said:
        yield f"Loses    {_loses(brief.stake)}, as agreed to"
    if brief.digest:
        yield f"Digest   {brief.digest}"
    yield f"Journal  {brief.path}"
    yield ""
    for moment in moments_of(account.view):
        # The time of day; with the date where that is not the day it began on.
        whole, began = time_text(moment.at_ms), time_text(brief.opened_at_ms)
        same_day = whole[:DATE] == began[:DATE] and len(whole) > DATE
        clock = whole[DATE:].strip(" Z") if same_day else whole
        yield f"{clock}  {bounded(moment.says, SAID)}"
    if account.topics:
        yield ""
        for topic in account.topics[:LISTED_TOPICS]:
            numbers = partition_numbers(ending.partition.partition for ending in topic.endings)
            loses = f", loses {topic.stake}" if topic.stake.said else ""
            saved = f", {topic.rescued:,} records rescued" if topic.rescued else ""
            led = _led(topic.leaders)
            name = bounded(topic.topic, 80)
            yield f"{name} [{numbers}]: {words_of(topic.counts)}{led}{loses}{saved}"
        yield from _more(len(account.topics) - LISTED_TOPICS, "topic")
    yield from _given_up(account.endings)
    yield from _troubled(account.endings)
    places = [saved for ending in account.endings for saved in ending.rescued]
    if places:
        yield ""
        yield "Rescued records (print them with `breakglass backup cat FOLDER`):"
    for place in places[:SHOWN_PARTITIONS]:
        yield f"  {place.partition} b{place.broker}: {place.records:,} records in {place.path}"
    rest = places[SHOWN_PARTITIONS:]
    folders = Counter(str(place.path.parent.parent) for place in rest)
    for folder, number in folders.most_common(SHOWN_PARTITIONS):
        yield f"  and of {number:,} more replicas below {folder}"


def _loses(stake: TotalPrice) -> str:
    """The price in records, then what it does not count."""
    counted, comma, rest = str(stake).partition(", abandons" if stake.abandons else ", unread")
    return f"{counted} records{comma}{rest}"


def _led(leaders: Mapping[int, int]) -> str:
    """``, led by b1``; ``, led by b1 (900), b2 (10)``."""
    if len(leaders) == 1:
        return f", led by b{next(iter(leaders))}"
    named = ", ".join(f"b{leader} ({number:,})" for leader, number in leaders.items())
    return f", led by {named}" if named else ""


def _given_up(endings: Sequence[PartitionEnding]) -> Iterator[str]:
    """Brokers that were unread when it was agreed to, of what is led by now or may be."""
    led = [ending for ending in endings if ending.may_be_led]
    held = Counter(broker for ending in led for broker in ending.abandons)
    if held:
        yield ""
        yield "Unread when it was agreed to:"
    for broker, number in sorted(held.items()):
        of = [ending for ending in led if broker in ending.abandons]
        bound = agreed_stake(of).unread_text
        because = ", ".join(sorted({ending.unread_source for ending in of if ending.unread_source}))
        source = f" ({bounded(because, SAID)})" if because else ""
        yield f"  b{broker} of {partitions_text(number)}, unread {bound}{source}"
        yield f"  {do_not_start(broker)}"


def _troubled(endings: Sequence[PartitionEnding]) -> Iterator[str]:
    """Every partition that did not end well, and why: the same reason in one line."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for ending in endings:
        if ending.result not in UNTROUBLED or ending.order_kept:
            why = (ending.partition.topic, _trouble(ending), ending.reason)
            alike.setdefault(why, []).append(ending.partition.partition)
    if alike:
        yield ""
        yield "Not as it was meant to be:"
    for (topic, result, reason), numbers in list(alike.items())[:SHOWN_PARTITIONS]:
        because = f": {bounded(reason, SAID)}" if reason else ""
        yield f"  {bounded(topic, 80)} [{partition_numbers(numbers)}] {result}{because}"
    yield from _more(len(alike) - SHOWN_PARTITIONS, "line", "  ")


def _trouble(ending: PartitionEnding) -> str:
    """How it ended; that its order was written the result may say already."""
    kept = "order not put back"
    if ending.result in UNTROUBLED:
        return kept
    return (
        f"{ending.result}, {kept}"
        if ending.order_kept and ending.result != NOT_ELECTED
        else ending.result
    )


def _more(number: int, what: str, indent: str = "") -> Iterator[str]:
    if number > 0:
        yield f"{indent}and {number:,} more {what}{'s' * (number != 1)}"


SCHEMA = 1


def list_document(journals: list[Brief | UnreadableJournal]) -> dict[str, Any]:
    """All of *journals*, newest first."""
    return {"schema": SCHEMA, "journals": [_listed(journal) for journal in journals]}


def account_document(account: Account) -> dict[str, Any]:
    """One journal: how it ended for each partition, and each step."""
    return {
        "schema": SCHEMA,
        **brief_document(account.brief),
        "partitions": [_ending(ending) for ending in account.endings],
        "steps": [_step(step) for step in account.view.steps],
    }


def timeline_document(accounts: list[Account]) -> dict[str, Any]:
    """The timelines of *accounts*."""
    return {
        "schema": SCHEMA,
        "timelines": [
            {
                **brief_document(account.brief),
                "moments": list(moments_of(account.view)),
                "topics": [
                    {
                        "topic": topic.topic,
                        "partitions": [ending.partition.partition for ending in topic.endings],
                        "outcomes": topic.counts,
                        "stake": topic.stake,
                        "records_rescued": topic.rescued,
                    }
                    for topic in account.topics
                ],
            }
            for account in accounts
        ],
    }


def brief_document(brief: Brief) -> dict[str, Any]:
    """A journal in a line."""
    return {
        "journal": brief.path,
        "cluster_id": brief.cluster_id,
        "who": brief.who,
        "resumed_by": brief.resumed_by,
        "opened_at_ms": brief.opened_at_ms,
        "last_at_ms": brief.last_at_ms,
        "what": brief.what,
        "result": brief.result,
        "outcomes": brief.counts,
        "unknown": brief.unknown,
        "stake": brief.stake,
        "digest": brief.digest,
        "resumable": brief.resumable,
    }


def _listed(journal: Brief | UnreadableJournal) -> dict[str, Any]:
    if isinstance(journal, UnreadableJournal):
        return {"journal": journal.path, "unreadable": journal.reason}
    return brief_document(journal)


def _ending(ending: PartitionEnding) -> dict[str, Any]:
    return {
        **_named(ending.partition),
        "result": ending.result,
        "reason": ending.reason,
        "leader": ending.leader,
        "leader_epoch": ending.leader_epoch,
        "rung": ending.rung,
        "price": ending.price,
        "abandons": ending.abandons,
        "unread_at_least": ending.unread_at_least,
        "unread_source": ending.unread_source,
        "order_kept": ending.order_kept,
        "rescued": [
            {"broker": saved.broker, "records": saved.records, "path": saved.path}
            for saved in ending.rescued
        ],
    }


def _step(step: JournalStep) -> dict[str, Any]:
    outcomes = {partition: result_of(step, partition) for partition in step.items}
    return {
        "step": step.name,
        "at_ms": step.request.at_ms,
        "partitions": [
            {**_named(partition), **told.details, "result": told.result}
            for partition, told in outcomes.items()
        ],
    }


def _named(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def save_timeline(text: str, folder: Path, name: str, suffix: str = ".txt") -> Path:
    """Write *text* to the file of that *name* and *suffix* in *folder*, in place of an older one.

    Only its owner can read it: topics, people and paths are in it.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / f"{name}{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_regular(path, f"{text}\n".encode(), 0o600)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): check that folder's rights and space"
        ) from error
    return path
