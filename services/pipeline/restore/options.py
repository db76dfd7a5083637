"""The options of a restore of topics, and the settings of the target while it runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from breakglass.services.topic_backup.summary import SegmentSummary


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of a restore."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New name by old name; other topics keep their name."""
    partitions: Collection[int] = ()
    """The partitions to restore; empty: all."""
    generation: int | None = None
    """The generation to restore; None: the newest, if no older one reaches the limits."""
    until_offset: int | None = None
    """Leave out records from this offset on."""
    until_ms: int | None = None
    """In each partition, leave out everything from the first record with a later timestamp on."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Topic settings that override the saved settings; an empty value removes a setting."""
    groups: bool = False
    groups_at_ms: int | None = None
    """The time whose offsets are restored; by default the newest."""
    into_existing: bool = False
    """The target may already have records."""
    accepted_gaps: Collection[str] = ()
    """Offsets that are lost in the backup, as a refusal names them."""
    compacted: bool = False
    """Restore the latest value of each key alone."""
    resume: bool = False


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    """The settings of a restore."""

    master: str = "local[*,4]"
    records_a_transaction: int = 500_000
    transactional: bool = True
    verify: bool = True
    """Compare every record afterwards."""
    replication_factor: int = -1
    """The replication factor of new topics; -1: the brokers' default."""


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
"""Settings during a restore: no record is removed, and every timestamp and size is accepted (B7,
B8).

A stored record may be larger than the topic now allows."""
REMOVED_IN_4 = ("message.format.version", "message.timestamp.difference.max.ms")
"""Settings of older clusters that newer clusters refuse."""
DEFAULT_RETENTION_MS = 7 * 24 * 3600 * 1000
"""The default of brokers."""


def during(saved: Mapping[str, str]) -> dict[str, str]:
    """The settings with which the topic is created."""
    kept = {name: value for name, value in saved.items() if name not in REMOVED_IN_4}
    return {**kept, **OPEN}


def afterwards(saved: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings to restore, and the settings to reset to the broker's defaults."""
    back = {name: value for name, value in saved.items() if name in OPEN}
    return back, [name for name in OPEN if name not in saved]


def expired_at_once(
    saved: Mapping[str, str], segments: Sequence[SegmentSummary], now_ms: int
) -> int:
    """About how many records the broker removes once the saved settings apply again.

    Estimated by age and total size from the oldest segment on, as brokers do, but with the segments
    of the backup: those of the topic may have other boundaries.
    """
    if "delete" not in saved.get("cleanup.policy", "delete"):
        return 0
    retention = int(saved.get("retention.ms", DEFAULT_RETENTION_MS))
    oldest = now_ms - retention if retention >= 0 else None
    room = int(saved.get("retention.bytes", -1))
    left = sum(segment.records_bytes for segment in segments)
    gone = 0
    for segment in segments:
        old = (
            oldest is not None
            and segment.max_timestamp is not None
            and segment.max_timestamp < oldest
        )
        if not old and not 0 <= room <= left - segment.records_bytes:
            break
        gone += segment.count
        left -= segment.records_bytes
    return gone
