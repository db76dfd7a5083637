"""The step of a restore of topics, as journals name it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from services.topic_backup.summary import SegmentSummary

RECORDS = "restore records"


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What is asked of a restore."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New name by old one; a topic that is not named keeps its own."""
    partitions: Collection[int] = ()
    """Only these; all by default."""
    until_offset: int | None = None
    """Records from this offset on are left out."""
    until_ms: int | None = None
    """In each partition, everything from the first record later than this is left out."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Topic settings over those that were saved; an empty one leaves a saved one out."""
    groups: bool = False
    """Consumer groups get their offsets, too."""
    groups_at_ms: int | None = None
    """As they were at that time; the newest ones by default."""
    into_existing: bool = False
    """The target may hold records already."""
    accepted_gaps: Collection[str] = ()
    """Offsets that the backup cannot give back, as a refusal named them."""
    resume: bool = False
    """The target is that of a restore that was ended before its time."""


NEVER = str(2**63 - 1)
OPEN: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": NEVER,
    "message.timestamp.after.max.ms": NEVER,
    "max.message.bytes": str(2**31 - 1),
}
"""Nothing is removed, and every timestamp and size is taken, while records are put back (B7, B8).

A record may be larger than the topic allows by now.
"""
REMOVED_IN_4 = ("message.format.version", "message.timestamp.difference.max.ms")
"""Settings of older clusters that a newer one refuses."""
DEFAULT_RETENTION_MS = 7 * 24 * 3600 * 1000
"""Of a broker that says nothing else."""


def during(saved: Mapping[str, str]) -> dict[str, str]:
    """What the topic is created with."""
    kept = {name: value for name, value in saved.items() if name not in REMOVED_IN_4}
    return {**kept, **OPEN}


def afterwards(saved: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings that are put back, and those that become the broker's defaults again."""
    back = {name: value for name, value in saved.items() if name in OPEN}
    return back, [name for name in OPEN if name not in saved]


def expired_at_once(
    saved: Mapping[str, str], segments: Sequence[SegmentSummary], now_ms: int
) -> int:
    """About how many records the saved settings let the broker remove once they are back.

    From the oldest on, as brokers do, for their age and for the size of what lies behind; by the
    segments of the backup, where the topic's own may be cut elsewhere.
    """
    if "delete" not in saved.get("cleanup.policy", "delete"):
        return 0
    oldest = now_ms - retention if (retention := _retention_ms(saved)) >= 0 else None
    room = int(saved.get("retention.bytes", -1))
    left = sum(one.records_bytes for one in segments)
    gone = 0
    for one in segments:
        old = oldest is not None and one.max_timestamp is not None and one.max_timestamp < oldest
        if not old and not 0 <= room <= left - one.records_bytes:
            break
        gone += one.count
        left -= one.records_bytes
    return gone


def _retention_ms(saved: Mapping[str, str]) -> int:
    return int(saved.get("retention.ms", DEFAULT_RETENTION_MS))
