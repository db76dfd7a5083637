"""Counts partitions in trouble as the brokers' own metrics do, and asks each broker how it is.

Every partition is looked at once for as long as none has changed. The counts over time take
bounded memory: older moments are merged, and the peak of each stays. Reassignments under way are
counted by topic. All brokers are asked at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.health.figure import Figure
from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir, read_broker_log_dirs
from breakglass.services.kafka.wire.answers import unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionState, Reassignment, TopicPartition, Unknown
from breakglass.services.snapshot import Broker, ClusterSnapshot

MinIsr = Mapping[str, int | Unknown]
"""min.insync.replicas by topic; a topic that is absent was not read yet."""

NOT_READ = "min.insync.replicas was not read yet"


class Trouble(StrEnum):
    """The kinds of trouble that are counted."""

    OFFLINE = "offline"
    UNDER_MIN_ISR = "under min ISR"
    UNDER_REPLICATED = "under-replicated"


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """One moment of a cluster's partitions. A partition without leader counts as offline alone."""

    partitions: int
    offline: int
    under_min_isr: int
    """With a leader, and too few replicas in sync for acks=all."""
    under_replicated: int
    """With a leader, and not every replica in sync; those under min ISR among them."""
    unjudged: int = 0
    """Under-replicated, and perhaps under min ISR: *under_min_isr* is a lower bound then."""
    why_unjudged: str = ""

    def number(self, trouble: Trouble) -> int:
        """How many partitions are in *trouble*."""
        match trouble:
            case Trouble.OFFLINE:
                return self.offline
            case Trouble.UNDER_MIN_ISR:
                return self.under_min_isr
            case Trouble.UNDER_REPLICATED:
                return self.under_replicated


@dataclass(frozen=True, slots=True)
class BrokerCounts:
    """The replicas of one broker, counted in partitions."""

    replicas: int
    leads: int
    in_sync: int


def count(partitions: Sequence[PartitionState], min_isr: MinIsr) -> PartitionCounts:
    """Count *partitions*, by what is known of their topics' min.insync.replicas."""
    short = list(_short(partitions))
    judged = [_below_minimum(state, min_isr.get(state.partition.topic)) for state in short]
    unjudged = [verdict for verdict in judged if isinstance(verdict, Unknown)]
    return PartitionCounts(
        partitions=len(partitions),
        offline=sum([state.leader is None for state in partitions]),
        under_min_isr=sum(verdict is True for verdict in judged),
        under_replicated=len(short),
        unjudged=len(unjudged),
        why_unjudged=unjudged[0].reason if unjudged else "",
    )


def partitions_in(
    trouble: Trouble, partitions: Sequence[PartitionState], min_isr: MinIsr
) -> list[PartitionState]:
    """The partitions that `count` counts as in *trouble*."""
    if trouble is Trouble.OFFLINE:
        return [state for state in partitions if state.leader is None]
    short = _short(partitions)
    if trouble is Trouble.UNDER_REPLICATED:
        return list(short)
    judged = ((state, _below_minimum(state, min_isr.get(state.partition.topic))) for state in short)
    return [state for state, below in judged if below is True]


def topics_to_judge(partitions: Sequence[PartitionState]) -> frozenset[str]:
    """Topics whose min.insync.replicas decides anything: a full ISR is never under it."""
    return frozenset([state.partition.topic for state in _short(partitions)])


def held_by_broker(partitions: Sequence[PartitionState]) -> dict[int, BrokerCounts]:
    """The counts of each broker that occurs in *partitions*."""
    replicas = _spread(Counter([state.assignment for state in partitions]))
    in_sync = _spread(Counter([state.isr for state in partitions]))
    leads = Counter([state.leader for state in partitions])
    return {
        broker: BrokerCounts(number, leads[broker], in_sync[broker])
        for broker, number in replicas.items()
    }


def _spread(sets: Mapping[tuple[int, ...], int]) -> Counter[int]:
    """How often each broker occurs in *sets*: partitions are many, sets of brokers are few."""
    found: Counter[int] = Counter()
    for brokers, number in sets.items():
        for broker in brokers:
            found[broker] += number
    return found


def _short(partitions: Sequence[PartitionState]) -> Iterator[PartitionState]:
    """Partitions with a leader whose ISR is smaller than their replication factor."""
    for state in partitions:
        if state.leader is None or len(state.isr) >= len(state.assignment):
            continue
        # The factor it has by now: replicas that a reassignment adds do not count yet (KIP-455).
        adding = state.reassignment.adding if isinstance(state.reassignment, Reassignment) else ()
        if len(state.isr) < (len(state.assignment) - len(adding)):
            yield state


def _below_minimum(state: PartitionState, minimum: int | Unknown | None) -> bool | Unknown:
    """Whether its ISR is below the minimum, which no factor exceeds (Partition.effectiveMinIsr)."""
    if minimum is None:
        return Unknown(NOT_READ)
    if isinstance(minimum, Unknown):
        return minimum
    return len(state.isr) < min(minimum, len(state.assignment))


CAPACITY = 240


@dataclass(frozen=True, slots=True)
class Sample:
    """The highest counts of some time."""

    at_ms: int
    """When the time began, in milliseconds of the epoch."""
    offline: int
    under_min_isr: int
    under_replicated: int


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """A time in which nothing could be read."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class History:
    """Samples and gaps, oldest first; never more than `CAPACITY`."""

    moments: tuple[Sample | HistoryGap, ...] = ()

    @property
    def since_ms(self) -> int | None:
        """When the counting began; None before the first look."""
        return self.moments[0].at_ms if self.moments else None

    def counted(self, counts: PartitionCounts, now_ms: int) -> History:
        """The history with the counts of another look."""
        offline, minimum, replicated = (
            counts.offline,
            counts.under_min_isr,
            counts.under_replicated,
        )
        return self._with(Sample(now_ms, offline, minimum, replicated))

    def missed(self, now_ms: int) -> History:
        """The history with a look that failed; consecutive failures are one gap."""
        if self.moments and isinstance(self.moments[-1], HistoryGap):
            return self
        return self._with(HistoryGap(now_ms))

    def peak(self, of: Callable[[Sample], int]) -> int:
        """The highest value since the start."""
        return max((of(moment) for moment in self.moments if isinstance(moment, Sample)), default=0)

    def line(self, of: Callable[[Sample], int], width: int, now_ms: int) -> list[int | None]:
        """The highest value in each of at most *width* equal parts of the time until *now_ms*.

        A part without a look repeats the part before it; None where nothing was known.
        """
        if not self.moments or width < 1:
            return []
        parts = list(self._parts(min(width, len(self.moments)), now_ms))
        values: list[int | None] = []
        last: Sample | HistoryGap = self.moments[0]
        for part in parts:
            samples = [sample for sample in part or (last,) if isinstance(sample, Sample)]
            values.append(max(map(of, samples)) if samples else None)
            last = part[-1] if part else last
        return values

    def _parts(self, number: int, now_ms: int) -> Iterator[list[Sample | HistoryGap]]:
        begin = self.moments[0].at_ms
        span = max(now_ms - begin, 1)
        parts: list[list[Sample | HistoryGap]] = [[] for _ in range(number)]
        for moment in self.moments:
            place = (moment.at_ms - begin) * number // span
            parts[min(max(place, 0), number - 1)].append(moment)
        yield from parts

    def _with(self, moment: Sample | HistoryGap) -> History:
        moments = self.moments
        if len(moments) >= CAPACITY:
            moments = tuple(_merged(*moments[at : at + 2]) for at in range(0, len(moments), 2))
        return History((*moments, moment))


def _merged(
    first: Sample | HistoryGap, second: Sample | HistoryGap | None = None
) -> Sample | HistoryGap:
    """Two neighbours merged: the higher counts, because a peak must not fade with its age."""
    if not isinstance(second, Sample):
        return first
    if not isinstance(first, Sample):
        return Sample(first.at_ms, second.offline, second.under_min_isr, second.under_replicated)
    return Sample(
        first.at_ms,
        max(first.offline, second.offline),
        max(first.under_min_isr, second.under_min_isr),
        max(first.under_replicated, second.under_replicated),
    )


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A partition that is being moved."""

    partition: TopicPartition
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Moves:
    """All partitions that are being moved."""

    moves: tuple[PartitionMove, ...] = ()

    @property
    def by_topic(self) -> list[tuple[str, int]]:
        """Topics with the number of their partitions that move, most first."""
        counted = Counter(move.partition.topic for move in self.moves)
        return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def moves_of(partitions: Sequence[PartitionState]) -> Moves | Unknown:
    """Those of *partitions* that are being moved; Unknown: the controller did not answer."""
    moves: list[PartitionMove] = []
    for state in partitions:
        moving = state.reassignment
        if moving is None:
            continue
        if isinstance(moving, Unknown):
            return moving
        moves.append(PartitionMove(state.partition, moving.adding, moving.removing))
    return Moves(tuple(moves))


@dataclass(frozen=True, slots=True)
class ClusterTally:
    """Sums over the partitions of a snapshot."""

    partitions: tuple[PartitionState, ...]
    min_isr: MinIsr
    counts: PartitionCounts
    held: Mapping[int, BrokerCounts]
    moves: Moves | Unknown


def tally(
    partitions: tuple[PartitionState, ...], min_isr: MinIsr, before: ClusterTally | None = None
) -> ClusterTally:
    """Sum up *partitions*; what *before* has of the very same ones stands."""
    if before is None or before.partitions is not partitions:
        held, moves = held_by_broker(partitions), moves_of(partitions)
        return ClusterTally(partitions, min_isr, count(partitions, min_isr), held, moves)
    if before.min_isr == min_isr:
        return before
    return ClusterTally(partitions, min_isr, count(partitions, min_isr), before.held, before.moves)


LANE = "health"
"""A connection of its own: a broker that is slow with evidence is not silent."""

AT_ONCE = 64
"""Brokers asked at the same time; a silent broker occupies a thread."""


@dataclass(frozen=True, slots=True)
class LogDirsAnswer:
    """The answer of a broker, or why it gave none."""

    log_dirs: tuple[BrokerLogDir, ...] | Unknown
    why_silent: str = ""
    """``connection refused``; empty when it answered, even with a refusal."""


def ask_brokers(
    sender: Sender, brokers: Collection[int], deadline: Deadline
) -> dict[int, LogDirsAnswer]:
    """The answer of each of *brokers*; never raises for a broker."""
    if not brokers:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(brokers)), "health") as asking:
        asked = {broker: asking.submit(_ask, sender, broker, deadline) for broker in brokers}
        return {broker: answer.result() for broker, answer in asked.items()}


def _ask(sender: Sender, broker: int, deadline: Deadline) -> LogDirsAnswer:
    try:
        return LogDirsAnswer(read_broker_log_dirs(sender, broker, deadline, LANE))
    except Unreachable as error:
        return LogDirsAnswer(Unknown(f"b{broker} does not answer ({error.reason})"), error.reason)
    except BreakglassError as error:
        return LogDirsAnswer(unread(error))


LogDirs: TypeAlias = "Figure[tuple[BrokerLogDir, ...]]"
NOTHING = BrokerCounts(0, 0, 0)
NOT_ASKED = Unknown("it was not asked yet")
NO_LOG_DIRS: LogDirs = Figure(NOT_ASKED, 0)


@dataclass(frozen=True, slots=True)
class Voice:
    """The answer of a broker to this process."""

    why_silent: str | Unknown = NOT_ASKED
    """``connection refused``; empty while it answers."""
    asked_at_ms: int = 0
    log_dirs: LogDirs = NO_LOG_DIRS

    @property
    def silent(self) -> bool:
        """The broker was asked and did not answer."""
        return isinstance(self.why_silent, str) and self.why_silent != ""


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """The health of a broker."""

    id: int
    registration: Broker | None
    """None: replicas are assigned to it, and the cluster does not know it (R12)."""
    voice: Voice
    """The broker's own answer; the controller's view (*fenced*) may differ (R16)."""
    held: BrokerCounts

    @property
    def fenced(self) -> bool | Unknown:
        if self.registration is None:
            return Unknown(f"b{self.id} is not registered")
        return self.registration.fenced

    @property
    def offline_dirs(self) -> int | Unknown:
        """How many log directories the broker has taken offline."""
        dirs = self.voice.log_dirs.value
        return dirs if isinstance(dirs, Unknown) else sum(not log_dir.online for log_dir in dirs)

    @property
    def sound(self) -> bool:
        """Registered, unfenced, answering, every directory online: as far as is known."""
        dirs = self.offline_dirs
        broken = isinstance(dirs, int) and dirs > 0
        here = self.registration is not None and self.fenced is not True
        return here and not self.voice.silent and not broken


def brokers_of(
    snapshot: ClusterSnapshot, counts: Mapping[int, BrokerCounts], voices: Mapping[int, Voice]
) -> tuple[BrokerHealth, ...]:
    """The brokers that *snapshot* lists, and those of *counts* that are not listed."""
    listed = {broker.id: broker for broker in snapshot.brokers}
    return tuple(
        BrokerHealth(
            broker, listed.get(broker), voices.get(broker, Voice()), counts.get(broker, NOTHING)
        )
        for broker in sorted({*listed, *counts})
    )
