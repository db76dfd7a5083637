"""Settles one partition: which fate each offset of each replica has, and the sums. Pure.

Each readable replica's log is divided into entries. A record is KEPT if the leader's log is the
same up to the record (log matching, `judgement.lineage`), and PUT_BACK or RESCUED if a copy was
taken from any replica with the same record. Sums count each record once: a replica adds only the
records that earlier replicas lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from breakglass.services.model import ReplicaLog, Unknown
from breakglass.services.recovery.judgement.lineage import (
    Divergences,
    LogStretch,
    Parting,
    count_distinct,
    shared_with,
    without,
)
from breakglass.services.recovery.judgement.ranking import readable
from breakglass.services.recovery.ledger.entries import (
    Fate,
    FateSum,
    LedgerEntry,
    PartitionCase,
    Range,
    Ranges,
    ReplicaLedger,
    SettledLogs,
    Standing,
    common,
    covers,
    joined,
)

PRESENT = -1
"""The broker id of the current leader here: its log differs from that broker's log back then."""


def settled(case: PartitionCase) -> SettledLogs:
    """The fate of every record of the readable replicas of *case*."""
    return _Settling(case).settled()


class _Label(NamedTuple):
    fate: Fate
    reason: str = ""
    kept_then: bool = False
    """The election kept the record, whatever happened later."""


class _Layer(NamedTuple):
    """Offsets of one replica with a label, which counts where no earlier layer covers them."""

    ranges: Ranges
    label: _Label


class _Reach(NamedTuple):
    """Which offsets of a replica another log has, and for which offsets that is unknown."""

    ranges: Ranges = ()
    unsure: Ranges = ()
    why: str = ""


@dataclass
class _Tally:
    """Records counted once, in one order of the replicas."""

    counts: dict[Fate, dict[Standing, int]] = field(default_factory=dict)
    readable_to: int | None = None
    """The high watermark of the current leader; None: not known."""
    cut_off: int = 0
    gone: int = 0
    not_yet_readable: int = 0
    uncounted: list[str] = field(default_factory=list)

    @property
    def sums(self) -> dict[Fate, FateSum]:
        """The records of each fate, in the order of `Fate`."""
        return {fate: _sum(self.counts[fate]) for fate in Fate if fate in self.counts}

    def total(self, fate: Fate) -> int:
        """All records of one *fate*."""
        return sum(self.counts[fate].values()) if fate in self.counts else 0

    def add(self, label: _Label, standing: Standing, start: int, end: int) -> None:
        """Count the offsets ``[start, end)``."""
        records = end - start
        if self.readable_to is not None and label.fate is Fate.KEPT:
            self.not_yet_readable += max(0, end - max(start, self.readable_to))
        counted = self.counts.setdefault(label.fate, {})
        counted[standing] = counted.get(standing, 0) + records
        self.cut_off += 0 if label.kept_then else records
        self.gone += records if label.kept_then and label.fate is not Fate.KEPT else 0


def _sum(counted: Mapping[Standing, int]) -> FateSum:
    return FateSum(counted.get(Standing.COMMITTED, 0), counted.get(Standing.UNPROVEN, 0))


class _Settling:
    """The work on one case."""

    def __init__(self, case: PartitionCase) -> None:
        self._case = case
        self._whole = {
            log.broker: LogStretch(log, *span)
            for log in case.holdings.replicas
            if (span := _span(log)) is not None
        }
        """The whole log of each replica whose ends are known, by broker."""
        self._logs = [stretch.replica for stretch in self._whole.values()]
        self._between: Parting = Divergences(case.holdings.replicas).between
        chosen = None if case.leader is None else case.holdings.replica(case.leader)
        self._chosen = chosen
        self._led = None if chosen is None else readable(chosen)
        self._to_led: Parting = self._between
        self._to_now: Parting = self._between
        if self._led is not chosen and self._led is not None:
            others = self._case.holdings.replicas
            self._to_led = Divergences(
                [self._led if other.broker == self._led.broker else other for other in others]
            ).between
        self._unsure_of_now = ""
        self._now = case.now if isinstance(case.now, ReplicaLog) else None
        if self._now is not None:
            limit = chosen.corrupt_at if chosen is not None else None
            self._now = _clipped(replace(self._now, broker=PRESENT), limit)
            self._to_now = Divergences([*case.holdings.replicas, self._now]).between

    def settled(self) -> SettledLogs:
        labelled = {log.broker: list(self._labelled(log)) for log in self._logs}
        leader_first = sorted(self._logs, key=lambda log: log.broker != self._case.leader)
        tally = self._counted(leader_first, labelled)
        held = count_distinct(list(self._whole.values()), self._between)
        replicas = tuple(
            _replica(log, labelled.get(log.broker, ())) for log in self._case.holdings.replicas
        )
        sums = tally.sums
        differences = list(_uncovered(replicas))
        if not tally.uncounted and isinstance(held, int):
            again = self._counted(leader_first[::-1], labelled)
            differences += _contradictions(tally, again, held)
        decided = self._case.elected is True and self._led is not None and not tally.uncounted
        return SettledLogs(
            replicas,
            sums,
            held,
            tally.cut_off if decided else None,
            tuple(tally.uncounted),
            tuple(differences),
            tally.gone,
            self._unsure_of_now,
            self._not_yet_readable(tally),
        )

    def _not_yet_readable(self, tally: _Tally) -> int | Unknown | None:
        if self._now is None:
            return self._case.now if isinstance(self._case.now, Unknown) else None
        if isinstance(self._now.high_watermark, Unknown):
            return self._now.high_watermark
        if tally.uncounted:
            return Unknown(tally.uncounted[0])
        return tally.not_yet_readable

    def _counted(self, order: Sequence[ReplicaLog], labelled: dict[int, list[_Piece]]) -> _Tally:
        """Count each record once: of each log in *order*, the records that earlier logs lack."""
        # Where consumers stop to read the current leader's log (R30); None: not known.
        mark = None if self._now is None else self._now.high_watermark
        tally, counted = (
            _Tally(readable_to=mark if isinstance(mark, int) else None),
            list[LogStretch](),
        )
        for log in order:
            stretch = self._whole[log.broker]
            shared = shared_with(stretch, counted, self._between)
            if isinstance(shared, Unknown):
                tally.uncounted.append(f"b{log.broker}: {shared.reason}")
                continue
            counted.append(stretch)
            own = list(without(stretch, shared))
            for piece in labelled[log.broker]:
                for start, end in own:
                    low, high = max(start, piece.start), min(end, piece.end)
                    if high > low:
                        tally.add(piece.label, piece.standing, low, high)
        return tally

    def _labelled(self, log: ReplicaLog) -> Iterator[_Piece]:
        _, start, end = self._whole[log.broker]
        fates = [layer._replace(ranges=joined(layer.ranges)) for layer in self._layers(log)]
        committed = self._committed(log)
        rest = self._rest(log)
        ranges = [*(layer.ranges for layer in fates), committed]
        cuts = {at for some in ranges for span in some for at in span if start < at < end}
        last: _Piece | None = None
        for low, high in pairwise(sorted({start, end, *cuts})):
            label = next((fate.label for fate in fates if covers(fate.ranges, low)), rest)
            standing = Standing.COMMITTED if covers(committed, low) else Standing.UNPROVEN
            if last is not None and (last.label, last.standing) == (label, standing):
                last = last._replace(end=high)
                continue
            if last is not None:
                yield last
            last = _Piece(low, high, label, standing)
        if last is not None:
            yield last

    def _layers(self, log: ReplicaLog) -> Iterator[_Layer]:
        """The layers of *log*; the first layer that covers an offset counts."""
        case = self._case
        found = _Reach() if self._now is None else self._reach(log, self._now, self._to_now)
        self._unsure_of_now = self._unsure_of_now or found.why
        then, now = self._kept_then(log), found
        if self._now is not None:
            both = list(common(then.ranges, now.ranges))
            yield _Layer(both, _Label(Fate.KEPT, kept_then=True))
            yield _Layer(now.ranges, _Label(Fate.KEPT))
        else:
            yield _Layer(then.ranges, _Label(Fate.KEPT, kept_then=True))
        if case.elected is False and self._now is None:
            return
        for spans, fate in (
            (case.put_back, Fate.PUT_BACK),
            (case.rescued, Fate.RESCUED),
            (case.doubtful, Fate.UNKNOWN),
        ):
            # The offsets of log whose records are in one of spans, of whichever replica.
            by_word: dict[str, list[Range]] = {}
            for span in spans:
                end = span.end
                if span.broker != log.broker:
                    other = self._case.holdings.replica(span.broker)
                    parted = None if other is None else self._between(log, other)
                    if not isinstance(parted, int):
                        continue
                    end = min(end, parted)
                by_word.setdefault(span.says, []).append((span.start, end))
            for says, ranges in by_word.items():
                yield _Layer(ranges, _Label(fate, says))
        if self._now is not None:
            unsure = list(common(then.ranges, now.unsure))
            yield _Layer(unsure, _Label(Fate.KEPT, kept_then=True))
            yield _Layer(now.unsure, _Label(Fate.UNKNOWN, now.why))
            yield from self._gone(then)
        yield _Layer(then.unsure, _Label(Fate.UNKNOWN, then.why))
        led, start = self._now or self._led, log.log_start
        if led is not None and isinstance(led.log_start, int) and isinstance(start, int):
            why = f"before the start of the leader's log, {led.log_start:,}; {self._case.unsaved}"
            yield _Layer([(start, led.log_start)], _Label(Fate.LOST, why))

    def _gone(self, then: _Reach) -> Iterator[_Layer]:
        """The offsets that the election kept and the current leader lacks."""
        assert self._now is not None
        begins = self._now.log_start
        if isinstance(begins, int):
            why = f"kept by the election, deleted since: the leader's log begins at {begins:,} now"
            deleted = [(start, min(end, begins)) for start, end in then.ranges if start < begins]
            yield _Layer(deleted, _Label(Fate.LOST, why, kept_then=True))
        why = "kept by the election, not in the leader's log now: another leader came since"
        yield _Layer(then.ranges, _Label(Fate.LOST, why, kept_then=True))

    def _rest(self, log: ReplicaLog) -> _Label:
        """The label of offsets that no layer covers."""
        case = self._case
        if case.elected is False and self._now is None:
            return _Label(Fate.WAITING, "this journal elected no leader")
        if isinstance(case.elected, Unknown) and self._now is None:
            return _Label(Fate.UNKNOWN, case.elected.reason)
        led = self._now or self._led
        if led is None or isinstance(led.log_end, Unknown):
            who = "the leader is unknown" if case.leader is None else f"b{case.leader} leads"
            return _Label(Fate.UNKNOWN, f"{who}; that log was not read")
        if self._chosen is not None and self._chosen.corrupt_at is not None:
            limit = self._chosen.corrupt_at
            corrupt = f"the leader's log is corrupt at {limit:,}"
            if log.broker == self._chosen.broker:
                return _Label(Fate.LOST, f"{corrupt}; {case.unsaved}")
        between = self._to_now if self._now is not None else self._to_led
        parted = between(log, led)
        at = "" if isinstance(parted, Unknown) else f" from {parted:,} on"
        return _Label(Fate.LOST, f"the leader's log does not have it{at}; {case.unsaved}")

    def _kept_then(self, log: ReplicaLog) -> _Reach:
        """The part of *log* that the leader's log had when the election was agreed to."""
        if self._case.elected is not True or self._led is None:
            return _Reach()
        return self._reach(log, self._led, self._to_led)

    def _reach(self, log: ReplicaLog, led: ReplicaLog, between: Parting) -> _Reach:
        """Which offsets of *log* the log *led* has; remote storage has the records before it."""
        _, start, end = self._whole[log.broker]
        span = _span(led)
        if span is None:
            return _Reach()
        tiered = self._case.holdings.tiered
        parted: int | Unknown = span[1]
        if log.broker != led.broker:
            parted = between(log, led)
        both = max(start, span[0]), min(end, span[1])
        if isinstance(parted, Unknown):
            before = [] if tiered is False else [(start, span[0])]
            return _Reach((), [*before, both], parted.reason)
        low = start if tiered is True else both[0]
        held = [(low, min(both[1], parted))]
        if isinstance(tiered, Unknown):
            return _Reach(held, [(start, min(span[0], parted))], tiered.reason)
        return _Reach(held)

    def _committed(self, log: ReplicaLog) -> Ranges:
        """Where *log* is proved to be committed, by the high watermarks of all that have it."""
        committed = list[Range]()
        _, start, end = self._whole[log.broker]
        for holder in self._logs:
            _, low, high = self._whole[holder.broker]
            mark = holder.high_watermark
            parted = end if holder is log else self._between(log, holder)
            low, high = max(start, low), min(end, high)
            if isinstance(mark, int) and isinstance(parted, int):
                committed.append((low, min(high, mark, parted)))
        return joined(committed)


class _Piece(NamedTuple):
    start: int
    end: int
    label: _Label
    standing: Standing


def _replica(log: ReplicaLog, pieces: Sequence[_Piece]) -> ReplicaLedger:
    entries = tuple(
        LedgerEntry(piece.start, piece.end, piece.label.fate, piece.standing, piece.label.reason)
        for piece in pieces
    )
    return ReplicaLedger(log.broker, log.log_start, log.log_end, entries)


def _uncovered(replicas: Iterable[ReplicaLedger]) -> Iterator[str]:
    for replica in replicas:
        if isinstance(replica.start, int) and isinstance(replica.end, int):
            said = sum(entry.offsets for entry in replica.entries)
            if said != replica.end - replica.start:
                had = replica.end - replica.start
                yield f"b{replica.broker} had {had:,} offsets, and the fate of {said:,} is known"


def _contradictions(tally: _Tally, again: _Tally, held: int) -> Iterator[str]:
    said = sum(map(tally.total, tally.counts))
    if said != held:
        yield f"replicas held {held:,} records, and the fate of {said:,} is known"
    for fate in Fate:
        by_leader, by_others = tally.total(fate), again.total(fate)
        if by_leader != by_others:
            yield (
                f"{by_leader:,} records are {fate} by the leader's log, and "
                f"{by_others:,} by the others: what replicas said of their epochs does not fit"
            )


def _span(log: ReplicaLog) -> tuple[int, int] | None:
    """The log's offsets; None if they could not be read."""
    if isinstance(log.log_start, Unknown) or isinstance(log.log_end, Unknown):
        return None
    return log.log_start, max(log.log_start, log.log_end)


def _clipped(log: ReplicaLog, limit: int | None) -> ReplicaLog:
    if limit is None or isinstance(log.log_end, Unknown) or log.log_end <= limit:
        return log
    return replace(log, log_end=limit)
