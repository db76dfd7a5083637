"""What changed between two readings of the metadata, and reading only that again.

Replicas of many partitions are read in several goes, so that never all are in memory at once.
All of them are read again from time to time, whether their metadata changed or not.

Which brokers answer: asked before they are read, and repeatedly while they do not answer.
All brokers that are dead or hang cost one short wait together, and none later.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from breakglass.services import patience
from breakglass.services.incident.row import IncidentRow
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import NEVER, Deadline
from breakglass.services.kafka.wire.native_rpc import NativeRpc
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.evidence.contents import ContentsReading
from breakglass.services.recovery.evidence.gather import (
    Evidence,
    GroupBounds,
    Wait,
    next_report,
    why_silent,
)
from breakglass.services.recovery.judgement.assessment import recovery_order
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.triage import Triage, read_and_judge
from breakglass.services.same_ends import differing
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot

FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 30.0
"""Seconds between looks at a silent broker; doubled for a broker that answers, then fails."""


@dataclass(slots=True)
class _Absence:
    """A broker that does not answer."""

    reason: str
    look_at: float
    """When to ask the broker again."""
    looking: bool = False


@dataclass(frozen=True, slots=True)
class _Heard:
    broker: int
    error: Exception | None


class Presence:
    """Brokers that answer and brokers that do not, by the questions of one thread."""

    def __init__(
        self,
        sender: Sender,
        duration: float,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = next_report,
    ) -> None:
        self._sender, self._duration = sender, duration
        self._clock, self._wait = clock, wait
        self._absent: dict[int, _Absence] = {}
        self._since: dict[int, float] = {}
        """When a broker first failed to report its replicas; it has not reported them since."""
        self._pauses: dict[int, float] = {}
        self.until = NEVER
        """After this no broker may still answer."""
        self._heard: queue.SimpleQueue[_Heard] = queue.SimpleQueue()

    @property
    def silent(self) -> dict[int, str]:
        """Brokers that do not answer, with the reason."""
        return {broker: absence.reason for broker, absence in sorted(self._absent.items())}

    def awaited(self, brokers: ClusterDescription) -> frozenset[int]:
        """Silent brokers that may still answer: not fenced, and not silent for too long (R15)."""
        if self.until.passed:
            return frozenset()
        latest = self._clock() - self._duration
        return frozenset(
            broker
            for broker in self._absent
            if self._since[broker] > latest
            and not brokers.unregistered((broker,))
            and brokers.fenced(broker) is not True
        )

    def roll_call(self, brokers: Iterable[int]) -> None:
        """Ask *brokers* at once, and wait a moment: brokers without answer are silent."""
        asked = set(brokers)
        until = Deadline.after(patience.ROLL_CALL)
        for broker in asked:
            self._ask(broker)
        while asked and not until.passed:
            try:
                asked.discard(self._take(self._wait(self._heard, until)))
            except queue.Empty:
                break
        for broker in asked:
            self._miss(broker, f"b{broker} does not answer (timed out)")

    def look_again(self) -> frozenset[int]:
        """Brokers that answer again since the last look; asks silent brokers without waiting."""
        before = set(self._absent)
        while not self._heard.empty():
            self._take(self._heard.get())
        now = self._clock()
        for broker, absence in self._absent.items():
            if now >= absence.look_at and not absence.looking:
                absence.looking = True
                self._ask(broker)
        return frozenset(before - self._absent.keys())

    def failed(self, broker: int, reason: str) -> None:
        """*broker* answers a greeting, and did not report its replicas."""
        if broker not in self._absent:
            # Without this mark, the broker would be read in vain with each reading.
            pause = self._pauses.get(broker, FIRST_PAUSE_SECONDS)
            self._pauses[broker] = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self._miss(broker, reason)

    def reported(self, brokers: Iterable[int]) -> None:
        """*brokers* have reported their replicas."""
        for broker in brokers:
            self._pauses.pop(broker, None)
            self._since.pop(broker, None)

    def keep(self, brokers: Iterable[int]) -> None:
        """Forget all but *brokers*: only they have replicas that matter."""
        for broker in self._absent.keys() - set(brokers):
            del self._absent[broker]

    def _ask(self, broker: int) -> None:
        threading.Thread(target=self._greet, args=(broker,), daemon=True).start()

    def _greet(self, broker: int) -> None:
        """In a thread of its own: greet the broker, and report how that ended."""
        try:
            self._sender.prove(broker, Deadline.after(patience.ROLL_CALL))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, `_take` tells it
            self._heard.put(_Heard(broker, error))
        else:
            self._heard.put(_Heard(broker, None))

    def _take(self, heard: _Heard) -> int:
        if heard.error is None:
            self._absent.pop(heard.broker, None)
        else:
            self._miss(heard.broker, why_silent(heard.broker, heard.error))
        return heard.broker

    def _miss(self, broker: int, reason: str) -> None:
        now = self._clock()
        self._since.setdefault(broker, now)
        pause = self._pauses.get(broker, FIRST_PAUSE_SECONDS)
        self._absent[broker] = _Absence(reason, now + pause)


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows of the newer metadata, and which of them rest on evidence that is out of date."""

    rows: tuple[IncidentRow, ...]
    """Sorted by partition; the very same tuple if nothing changed."""
    outdated: Sequence[TopicPartition]
    """Rows whose replicas have to be read again; rows without evidence are not among them."""


def changes(
    rows: tuple[IncidentRow, ...],
    before: ClusterSnapshot | None,
    now: ClusterSnapshot,
    returned: Collection[int] = (),
) -> Changes:
    """Bring *rows*, which were made from *before*, up to *now*.

    A row whose partition has changed keeps its conclusions until it has been read again. Those
    of brokers that have *returned*, or were fenced or unfenced, are out of date as well.
    """
    if before is None:
        before = ClusterSnapshot(now.description, now.quorum, (), 0, now.settings)
    brokers = standing_changed(before.description, now.description) | set(returned)
    # Topics whose settings have changed.
    topics = {
        topic
        for topic, settings in now.settings.items()
        if topic in before.settings and before.settings[topic] != settings
    }
    if now.partitions is before.partitions and not brokers and not topics:
        return Changes(rows, ())
    between, states = _between(rows, now.offline, every=bool(brokers or topics))
    fresh: list[IncidentRow] = []
    outdated: list[TopicPartition] = []
    for row, state in _matched(rows[between], states):
        if row is not None and row.chunk is not None:
            same = row.state is state or row.state == state
            topic = state.partition.topic
            if not same or topic in topics or not brokers.isdisjoint(state.assignment):
                outdated.append(state.partition)
        fresh.append(_current(row, state))
    if not _same(rows[between], fresh):
        rows = (*rows[: between.start], *fresh, *rows[between.stop :])
    return Changes(rows, tuple(outdated))


def standing_changed(before: ClusterDescription, now: ClusterDescription) -> set[int]:
    """Brokers that were registered, removed, fenced or unfenced between the two."""
    then, since = ({broker.id: broker.fenced for broker in held.brokers} for held in (before, now))
    return {
        broker for broker in then.keys() | since.keys() if then.get(broker) != since.get(broker)
    }


def _between(
    rows: tuple[IncidentRow, ...], offline: Sequence[PartitionState], *, every: bool
) -> tuple[slice, list[PartitionState]]:
    """The rows that may have changed, and the states, sorted, that take their place.

    All of them where *every* row has to be looked at; else what the very same states surround.
    """
    if not every:
        was, now = differing([row.state for row in rows], offline)
        states = sorted(offline[now], key=_partition)
        names = [state.partition for state in states]
        names[:0] = [row.partition for row in rows[was.start - 1 : was.start]]
        names += [row.partition for row in rows[was.stop : was.stop + 1]]
        if names == sorted(names):
            return was, states
    return slice(0, len(rows)), sorted(offline, key=_partition)


_partition = attrgetter("partition")


def _matched(
    rows: Sequence[IncidentRow], states: Sequence[PartitionState]
) -> Iterator[tuple[IncidentRow | None, PartitionState]]:
    """Each state with the row of its partition; both are sorted by partition."""
    place = 0
    for state in states:
        while place < len(rows) and rows[place].partition < state.partition:
            place += 1
        row = rows[place] if place < len(rows) else None
        yield (row if row is not None and row.partition == state.partition else None), state


def _current(row: IncidentRow | None, state: PartitionState) -> IncidentRow:
    if row is None:
        return IncidentRow(state)
    return row if row.state is state or row.state == state else replace(row, state=state)


def _same(rows: Sequence[IncidentRow], fresh: Sequence[IncidentRow]) -> bool:
    return len(rows) == len(fresh) and all(old is new for old, new in zip(rows, fresh, strict=True))


FIRST_GO = 64
"""Partitions of the first go: a screenful is shown soon."""
GO = 1000


@dataclass(frozen=True, slots=True)
class Go:
    """What one go has read so far; the last of each go is final."""

    states: Sequence[PartitionState]
    judged: Triage
    """Of these partitions, in their order."""

    @property
    def final(self) -> bool:
        return self.judged.final


def read_replicas(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    states: Sequence[PartitionState],
    presence: Presence,
    native: NativeRpc,
    contents: ContentsReading,
    circumstances: Callable[[Evidence], Circumstances],
    stop: Callable[[], bool],
) -> Iterator[Go]:
    """Read the replicas of *states* in their order, go by go, from the brokers that are present.

    A broker that fails on the way is absent for the goes after it. Never raises for a broker.
    """
    wanted = [state.partition for state in states]
    groups = GroupBounds(
        client, snapshot, wanted, presence.until.sooner(patience.ONE_BROKER), presence.silent
    )
    groups.start()
    groups.wait(Deadline.after(patience.GROUP_BOUNDS))
    for part in _goes(states):

        def now(evidence: Evidence, part: Sequence[PartitionState] = part) -> Circumstances:
            if not evidence.awaited:
                # Note which brokers reported their replicas, and which did not.
                for broker, reason in evidence.silent.items():
                    if broker not in presence.silent:
                        presence.failed(broker, reason)
                holders = {broker for state in part for broker in state.assignment}
                presence.reported(holders - evidence.silent.keys())
            return circumstances(evidence)

        # A go looks through *part* alone.
        topics = {state.partition.topic for state in part}
        settings = {topic: known for topic, known in snapshot.settings.items() if topic in topics}
        for judged in read_and_judge(
            client,
            replace(snapshot, partitions=tuple(part), settings=settings),
            part,
            presence.until.sooner(patience.ONE_BROKER),
            native=native,
            contents=contents,
            circumstances=now,
            stop=stop,
            unasked=presence.silent,
            groups=groups,
            contents_last=True,
        ):
            yield Go(part, judged)


def _goes(states: Sequence[PartitionState]) -> Iterator[Sequence[PartitionState]]:
    yield states[:FIRST_GO]
    for start in range(FIRST_GO, len(states), GO):
        yield states[start : start + GO]


EVERYTHING_SECONDS = 30.0
"""How old a replica's figures may grow though nothing seems to have changed."""
REPLICAS_SHARE = 0.04
"""The largest share of time spent on figures that do not seem to have changed."""


class Pending:
    """Which rows' replicas are to be read; true while there are some.

    A row is pending when it has no evidence, when its evidence was read before all was to be read
    again, or when its partition has changed since.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.turn = 0
        """The reading of everything that counts: evidence of earlier ones is out of date."""
        self._outdated: set[TopicPartition] = set()
        self._left = 0
        """The number of rows that are left to read."""
        self._counted: tuple[IncidentRow, ...] = ()
        """The rows of which that was counted."""
        self._places: list[int] = []
        """Where the rows that were left then stand."""
        self._everything = False
        """All rows are being read again, until none is left."""
        self._due_at = 0.0
        self._spent = 0.0
        self._acls: frozenset[str] = frozenset()
        self._found: set[str] = set()

    def __bool__(self) -> bool:
        return self._left > 0

    @property
    def missing_acls(self) -> tuple[str, ...]:
        """Rows that the last reading of everything covered, and rows read since."""
        return tuple(sorted(self._acls | self._found))

    def update(self, changed: Changes, *, afresh: bool) -> None:
        """Take in what *changed*; all rows are pending when *afresh*, or when they are due."""
        self._outdated.update(changed.outdated)
        if afresh or (not self._everything and self._clock() >= self._due_at):
            self.turn += 1
            self._everything, self._spent, self._found = True, 0.0, set()
        # How many of rows are left; none of those that were read before and have not changed.
        if self._left or self._outdated or self._everything or changed.rows is not self._counted:
            self._places = list(self._pending(changed.rows))
            self._left, self._counted = len(self._places), changed.rows
        self._settle()

    def places(self, rows: Sequence[IncidentRow]) -> list[int]:
        """The places of pending rows in *rows*, which were updated, as they are to be read."""
        return sorted(self._places, key=lambda at: recovery_order(rows[at].partition)[0])

    def found(self, go: Go) -> None:
        """One go is read, when it is final."""
        self._found.update(go.judged.evidence.missing_acls)
        if go.final:
            self._left -= len(go.states)
            if self._outdated:
                self._outdated.difference_update([state.partition for state in go.states])

    def spent(self, seconds: float) -> None:
        """Take in how long a reading of replicas took."""
        self._spent += seconds
        self._settle()

    def _pending(self, rows: Iterable[IncidentRow]) -> Iterator[int]:
        """The places of those of *rows* that are to be read."""
        turn, outdated = self.turn, self._outdated
        topics = {partition.topic for partition in outdated}
        for at, row in enumerate(rows):
            chunk = row.chunk
            if chunk is None or chunk.turn < turn:
                yield at
            elif topics and row.state.partition.topic in topics and row.state.partition in outdated:
                # To look for a topic takes a tenth of what it takes to look for a partition.
                yield at

    def _settle(self) -> None:
        """All are read again once they have been left in peace for long enough."""
        if self._left > 0:
            return
        self._outdated.clear()
        if not self._everything:
            return
        self._everything = False
        self._acls = frozenset(self._found)
        self._due_at = self._clock() + max(EVERYTHING_SECONDS, self._spent / REPLICAS_SHARE)
