"""A line of the backups as a JSON document, for tickets and scripts."""

from __future__ import annotations

from typing import Any

from breakglass.services.backup_watch.lines import (
    BackupPartitionLine,
    Lag,
    Line,
    PlaceLine,
    TopicLine,
)
from breakglass.services.model import Unknown
from breakglass.services.topic_backup.status import PartitionStatus


def document(line: Line) -> dict[str, Any]:
    """Everything that is known of *line*; what is not is null with its reason beside it."""
    match line:
        case PlaceLine():
            held = line.place.held.value
            if isinstance(held, Unknown):
                return {"url": line.place.url, "unread": held.reason}
            topics = [one.name for one in held.topics]
            return {"url": line.place.url, "newest_ms": held.newest_ms, "topics": topics}
        case TopicLine():
            return _topic(line)
        case BackupPartitionLine():
            return {"topic": line.held.name, **_partition(line.part), **_lag(line.lag)}


def _topic(line: TopicLine) -> dict[str, Any]:
    status = line.held.status
    if status is None:
        return {"topic": line.held.name, "state": line.state, "unread": line.held.unread}
    last = status.verified
    return {
        "topic": line.held.topic,
        "generation": line.held.generation,
        "folder": status.folder,
        "state": line.state,
        "commit": status.commit,
        "committed_at_ms": status.committed_at_ms,
        "verified_at_ms": last.at_ms if last else None,
        "verified_how": last.how if last else None,
        "verified_against": last.against if last else None,
        "verified_now": status.verified_now,
        **_lag(line.lag),
        "partitions": [_partition(one) for one in line.held.partitions],
    }


def _partition(part: PartitionStatus) -> dict[str, Any]:
    return {
        "partition": part.partition,
        "first_offset": part.first_offset,
        "last_offset": part.last_offset,
        "next_offset": part.next_offset,
        "records": part.records,
        "bytes": part.bytes,
        "segments": part.segments,
        "damage": list(part.damage),
        "gaps": part.gaps,
        "lost": part.lost,
    }


def _lag(lag: Lag) -> dict[str, Any]:
    return {"lag": None, "lag_unknown": lag.reason} if isinstance(lag, Unknown) else {"lag": lag}
