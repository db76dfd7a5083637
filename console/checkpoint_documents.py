"""Checkpoints as the commands print them with --json: what is not known is null, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from breakglass.services.checkpoint.wording import promise

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.documents import VerifiedDocument
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
    from breakglass.services.checkpoint.watch import SoFar


def brief(found: StoredCheckpoint) -> dict[str, Any]:
    """One checkpoint as the list has it."""
    from breakglass.services.checkpoint.watch import whole_size
    from breakglass.services.checkpoint.wording import reasons

    return {
        "id": found.id,
        "level": None if found.take is None else found.take.level,
        "state": found.state,
        "promise": promise(found),
        "failure": "; ".join(reasons(found)) or None,
        "partitions": len(found.partitions),
        "completed": found.completed,
        "bytes": whole_size(found),
        "created_at_ms": found.created_at_ms,
        "acknowledged_at_ms": None if found.started is None else found.started.at_ms,
        "verified": None if found.verified is None else verification(found.verified),
    }


def document(found: StoredCheckpoint, moving: Mapping[int, SoFar] | None = None) -> dict[str, Any]:
    """One checkpoint with everything that is known of it; *moving*: how far its copies are."""
    cut, far = found.cut, moving or {}
    return {
        **brief(found),
        "details": [_partition(part, found, far.get(part.number)) for part in found.partitions],
        "groups": None
        if cut is None
        else {
            name: {"policy": group.policy, "offsets": dict(group.offsets)}
            for name, group in cut.groups.items()
        },
        "rolled_back": None if cut is None else sum(cut.rolled_back.values()),
        "in_transit": None if cut is None else sum(map(len, cut.in_transit.values())),
        "transactions_left_out": None if cut is None else cut.left_out,
    }


def verification(last: VerifiedDocument) -> dict[str, Any]:
    """When every byte was read last, and what came of it; damage by the partition's number."""
    return {
        "at_ms": last.at_ms,
        "whole": not last.damage,
        "files": last.files,
        "bytes": last.size,
        "damage": dict(last.damage),
    }


def _partition(part: StoredPartition, found: StoredCheckpoint, far: SoFar | None) -> dict[str, Any]:
    from breakglass.services.checkpoint.wording import why_failed

    copy, cut = part.counting, found.cut
    return {
        "number": part.number,
        "topic": None if part.subject is None else part.subject.topic,
        "partition": None if part.subject is None else part.subject.partition,
        "state": part.status,
        "failure": why_failed(part, found),
        "position": None if cut is None else cut.positions.get(part.number),
        "in_transit": None if cut is None else len(cut.in_transit.get(part.number, ())),
        "records": copy.manifest.records if copy and copy.manifest else None,
        "bytes": copy.size if copy else None,
        "so_far": None if far is None else _so_far(far),
        "node": copy.id.node if copy else None,
        "updated_at_ms": copy.updated_at_ms if copy else None,
    }


def _so_far(far: SoFar) -> dict[str, int | None]:
    return {
        "records": far.records,
        "records_expected_at_most": far.offsets,
        "bytes": far.bytes,
        "bytes_expected_about": far.bytes_expected,
    }
