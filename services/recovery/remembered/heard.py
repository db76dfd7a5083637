"""What was heard of a replica earlier, as a value and as fields of a line. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.ledger.holdings import log_of, valid_offset, written_log

Key = tuple[str, TopicPartition]
"""Topic id and partition: a topic that was created again is another one."""


@dataclass(frozen=True, slots=True)
class HeardLog:
    """A replica's log as its broker reported it once."""

    log: ReplicaLog
    """With when it was read, and the leader epoch that its broker knew."""
    leader_epoch: int
    """The partition's leader epoch then, by the metadata."""
    offline: bool
    """The partition had no leader then."""

    @property
    def at_ms(self) -> int:
        return self.log.observed_at_ms

    def silent_since(self, state: PartitionState) -> bool:
        """Whether the partition, now in *state*, had no leader from then until now."""
        return self.offline and state.offline and self.leader_epoch == state.leader_epoch


Heard = Mapping[int, HeardLog]
"""By broker."""


def key_of(state: PartitionState) -> Key:
    """What the partition is remembered by."""
    return str(state.topic_id), state.partition


def leaders_of(broker: int, states: Iterable[PartitionState]) -> str:
    """The leaders, by their epochs, that *broker* would follow: another text once one is another.

    A disk that was found to lose nothing under others may lose something now.
    """
    led = sorted(
        f"{state.topic_id} {state.partition.partition} {state.leader_epoch}"
        for state in states
        if state.leader is not None and broker in state.assignment and broker not in state.isr
    )
    return hashlib.sha256("\n".join(led).encode()).hexdigest()[:16]


def heard_in(evidence: PartitionEvidence) -> dict[int, HeardLog]:
    """The logs that were read for *evidence*."""
    state = evidence.state
    return {
        replica.broker: HeardLog(replica, state.leader_epoch, state.offline)
        for replica in evidence.replicas
        if not isinstance(replica.log_end, Unknown)
    }


def same_logs(heard: Heard, before: Heard) -> bool:
    """Whether *before* has the logs of *heard*, from the same silence or the same leader."""
    return all(
        (then := before.get(broker)) is not None and _figures(now) == _figures(then)
        for broker, now in heard.items()
    )


def _figures(heard: HeardLog) -> tuple[object, ...]:
    log = heard.log
    epochs = None if isinstance(log.epochs, Unknown) else log.epochs
    return heard.leader_epoch, heard.offline, log.log_start, log.log_end, epochs, log.corrupt_at


def written_heard(heard: Iterable[HeardLog]) -> list[dict[str, Any]]:
    """*heard* as a list of JSON objects; `read_heard` reads it back."""
    return [
        {
            **written_log(one.log),
            "at_ms": one.at_ms,
            "known_epoch": None
            if isinstance(one.log.leader_epoch, Unknown)
            else one.log.leader_epoch,
            "leader_epoch": one.leader_epoch,
            "offline": one.offline,
        }
        for one in heard
    ]


def read_heard(listed: object) -> dict[int, HeardLog] | None:
    """The logs that a list of JSON objects has; None where any of it is malformed."""
    if not isinstance(listed, list):
        return None
    found = [_heard(one) for one in listed]
    if any(one is None for one in found):
        return None
    return {one.log.broker: one for one in found if one is not None}


def _heard(fields: object) -> HeardLog | None:
    log = log_of(fields)
    if log is None or not isinstance(fields, Mapping) or isinstance(log.log_end, Unknown):
        return None
    at_ms, epoch, known = (fields.get(name) for name in ("at_ms", "leader_epoch", "known_epoch"))
    if not valid_offset(at_ms) or not valid_offset(epoch):
        return None
    if known is not None and not valid_offset(known):
        return None
    knew = Unknown("its broker did not say") if known is None else known
    log = replace(log, observed_at_ms=at_ms, leader_epoch=knew)
    return HeardLog(log, epoch, fields.get("offline") is True)
