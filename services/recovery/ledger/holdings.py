"""Writes to a journal, and reads from it, the replicas' logs when an election was agreed to.

The journal is written before the election, and is the only record of the logs that the election
cuts off. So each partition of the plan lists every replica's offsets, leader epochs and high
watermark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeGuard

from breakglass.services.guard.journal import Details
from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    LogContents,
    PartitionEvidence,
    ReplicaLog,
    Role,
    Unknown,
)

REPLICAS = "replicas"
"""The field of a partition in a plan; journals of earlier releases lack it."""
READ_AGAIN = "what replicas hold, read again"
"""The text of the note in which a resumed journal lists the replicas' logs again."""
NOT_WRITTEN = Unknown(
    "the journal does not say what replicas held: an earlier release wrote it, or another program"
)
MALFORMED = Unknown("what the journal says of this replica cannot be read")
MARK_UNKNOWN = Unknown("its high watermark was not known when the election was agreed to")
MOST_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Holdings:
    """The logs of one partition's replicas at one moment."""

    replicas: tuple[ReplicaLog, ...]
    """The replicas in the order of the assignment; an unreadable one has an Unknown log end."""
    compacted: bool | Unknown = False
    tiered: bool | Unknown = False

    @property
    def approximate(self) -> bool:
        """Whether offsets may not be records: the topic is, or may be, compacted."""
        return self.compacted is not False

    def replica(self, broker: int) -> ReplicaLog | None:
        return next((log for log in self.replicas if log.broker == broker), None)

    def with_later(self, later: Holdings) -> Holdings:
        """These logs, with those that only *later* could read.

        A replica that was already read stays unchanged, because the consent was based on it.
        """
        found = {log.broker: log for log in later.replicas}
        return replace(
            self,
            replicas=tuple(
                found.get(log.broker, log) if isinstance(log.log_end, Unknown) else log
                for log in self.replicas
            ),
        )


def holdings_of(evidence: PartitionEvidence) -> Holdings:
    """What *evidence* says of the partition's logs."""
    settings = evidence.settings
    return Holdings(evidence.replicas, settings.compacted, settings.tiered)


def written_holdings(evidence: PartitionEvidence) -> dict[str, Any]:
    """The partition's logs as fields of a journal's item; `read_holdings` reads them back."""
    settings = evidence.settings
    fields: dict[str, Any] = {REPLICAS: [written_log(log) for log in evidence.replicas]}
    if settings.compacted is not False:
        fields["compacted"] = settings.compacted
    if settings.tiered is not False:
        fields["tiered"] = settings.tiered
    return fields


def written_log(log: ReplicaLog) -> dict[str, Any]:
    """One replica's fields; a missing field is Unknown, with the reason that is written."""
    written: dict[str, Any] = {"broker": log.broker}
    if isinstance(log.log_end, Unknown):
        return {**written, "unread": log.log_end.reason}
    written["end"] = log.log_end
    if isinstance(log.log_start, Unknown):
        return {**written, "why": log.log_start.reason}
    written["start"] = log.log_start
    if isinstance(log.high_watermark, int):
        written["mark"] = log.high_watermark
    if isinstance(log.epochs, Unknown):
        return {**written, "why": log.epochs.reason}
    written["epochs"] = [[range_.epoch, range_.start, range_.end] for range_ in log.epochs.ranges]
    if log.epochs.complete_from > log.log_start:
        written["complete_from"] = log.epochs.complete_from
    if log.corrupt_at is not None:
        written["corrupt_at"] = log.corrupt_at
    return written


def read_holdings(item: Details) -> Holdings | Unknown:
    """The replicas' logs that a journal's item lists; Unknown if it lists none."""
    listed = item.get(REPLICAS)
    if not isinstance(listed, list) or not listed:
        return NOT_WRITTEN
    logs = [log_of(one) for one in listed]
    if any(log is None for log in logs):
        return MALFORMED
    return Holdings(
        tuple(log for log in logs if log is not None),
        _setting(item.get("compacted", False)),
        _setting(item.get("tiered", False)),
    )


def _setting(value: object) -> bool | Unknown:
    return value if isinstance(value, bool) else Unknown(_reason(value, "unknown"))


def _reason(value: object, name: str) -> str:
    told = value.get(name) if isinstance(value, Mapping) else None
    return told if isinstance(told, str) and told else "not known when it was agreed to"


def log_of(written: object) -> ReplicaLog | None:
    """The replica of the fields of `written_log`; None if not even the broker can be read."""
    broker = written.get("broker") if isinstance(written, Mapping) else None
    if not isinstance(written, Mapping) or not valid_offset(broker):
        return None
    start, end = written.get("start"), written.get("end")
    if not valid_offset(end):
        return _log(broker, Unknown(_reason(written, "unread")))
    if start is None:
        return _log(broker, end, Unknown(_reason(written, "why")))
    if not valid_offset(start) or start > end:
        return _log(broker, MALFORMED)
    mark = written.get("mark")
    return _log(
        broker,
        end,
        start,
        mark if valid_offset(mark) else MARK_UNKNOWN,
        _epochs(written, start, end),
        written.get("corrupt_at"),
    )


def _epochs(written: Details, start: int, end: int) -> EpochHistory | Unknown:
    listed = written.get("epochs")
    if listed is None:
        return Unknown(_reason(written, "why"))
    complete_from = written.get("complete_from", start)
    whole = isinstance(listed, list) and all(
        isinstance(one, list) and len(one) == 3 and all(map(valid_offset, one)) for one in listed
    )
    if not whole or not valid_offset(complete_from):
        return MALFORMED
    ranges = tuple(EpochRange(*one) for one in listed)
    rising = all(
        one.epoch < other.epoch and one.end <= other.start for one, other in pairwise(ranges)
    )
    if not rising or any(range_.empty or range_.end > end for range_ in ranges):
        return MALFORMED
    return EpochHistory(ranges, complete_from)


def valid_offset(value: object) -> TypeGuard[int]:
    """Whether it is a number that Kafka could have."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_OFFSET


def _log(
    broker: int,
    log_end: int | Unknown,
    log_start: int | Unknown | None = None,
    mark: int | Unknown | None = None,
    epochs: EpochHistory | Unknown | None = None,
    corrupt_at: object = None,
) -> ReplicaLog:
    """A replica with only its log; a value that is None is Unknown."""
    why = log_end if isinstance(log_end, Unknown) else log_start
    unknown = why if isinstance(why, Unknown) else MALFORMED
    found = ReplicaLog(
        broker=broker,
        role=Role.STALE,
        fenced=unknown,
        reachable=isinstance(log_end, int),
        log_start=unknown if log_start is None else log_start,
        high_watermark=unknown if mark is None else mark,
        log_end=log_end,
        leader_epoch=unknown,
        epochs=unknown if epochs is None else epochs,
        newest_ms=unknown,
    )
    if not valid_offset(corrupt_at):
        return found
    return replace(found, contents=LogContents(corrupt_at, corrupt_at, corrupt_at))
