"""Writes checkpoints as Zeebe's ``/actuator/backups`` does: BackupInfo, in JSON's own types.

``partitionId`` is the partition's number in the checkpoint, ``brokerId`` the node that copied,
``brokerVersion`` the release that copied followed by a plus and the checkpoint's level,
``checkpointPosition`` the offset of the cut (exclusive), ``snapshotId`` the saved state in the
copy, or ``START-END`` for a copy that needs none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.stored import (
    StoredCheckpoint,
    StoredCopy,
    StoredPartition,
)
from breakglass.services.checkpoint.wording import level_of, why_failed

Json: TypeAlias = "str | int | list[dict[str, Json]] | dict[str, Json]"
STATES = {
    Status.COMPLETED: "COMPLETED",
    Status.ONGOING: "IN_PROGRESS",
    Status.FAILED: "FAILED",
    Status.INCOMPLETE: "INCOMPLETE",
    Status.DOES_NOT_EXIST: "DOES_NOT_EXIST",
}


def backup_info(checkpoint: StoredCheckpoint, *, brief: bool = False) -> dict[str, Json]:
    """One checkpoint; with *brief*, as it appears in the list of all checkpoints."""
    found: dict[str, Json] = {
        "backupId": checkpoint.id,
        "state": STATES[state_of(checkpoint)],
    }
    reason = failure_reason(checkpoint)
    if reason:
        found["failureReason"] = reason
    found["details"] = [
        _partition(partition, checkpoint, brief=brief) for partition in checkpoint.partitions
    ]
    return found


def state_of(checkpoint: StoredCheckpoint) -> Status:
    """The state of a checkpoint; it is in progress from the request on, as ZEP-008 has it.

    Until it is acknowledged, its copies are recorded as begun one after the other.
    """
    found = checkpoint.status
    begun = checkpoint.take is not None and checkpoint.started is None
    if begun and found in (Status.INCOMPLETE, Status.DOES_NOT_EXIST):
        return Status.ONGOING
    return found


def failure_reason(checkpoint: StoredCheckpoint) -> str:
    """Why a checkpoint has failed, as a whole or by partition, in Zeebe's form.

    Empty if it has not failed. For people there is `wording.reasons`.
    """
    if checkpoint.failure:
        return checkpoint.failure
    failed = ((partition.number, partition.failure) for partition in checkpoint.partitions)
    return "".join(
        f"Backup on partition {number} failed due to {reason}. "
        for number, reason in failed
        if reason is not None
    )


def _partition(
    partition: StoredPartition, checkpoint: StoredCheckpoint, *, brief: bool
) -> dict[str, Json]:
    found: dict[str, Json] = {
        "partitionId": partition.number,
        "state": STATES[partition.status],
    }
    reason = why_failed(partition, checkpoint)
    if reason is not None:
        found["failureReason"] = reason
    copy, level = partition.counting, level_of(checkpoint)
    known = _copy(copy, level, brief=brief) if copy is not None else {}
    return found | {key: value for key, value in known.items() if value is not None}


def _copy(copy: StoredCopy, level: str, *, brief: bool) -> dict[str, str | int | None]:
    version = None if copy.tool_version is None else _with_level(copy.tool_version, level)
    always = {"createdAt": _time(copy.created_at_ms), "brokerVersion": version}
    if brief:
        return {**always}
    return {
        "createdAt": always["createdAt"],
        "lastUpdatedAt": _time(copy.updated_at_ms),
        "snapshotId": _snapshot(copy),
        "checkpointPosition": copy.position,
        "brokerId": copy.id.node,
        "brokerVersion": always["brokerVersion"],
    }


def _with_level(version: str, level: str) -> str:
    """The level as build metadata (Semantic Versioning, PEP 440): Zeebe has no key for a level."""
    return f"{version}{'.' if '+' in version else '+'}{level}"


def _snapshot(copy: StoredCopy) -> str | None:
    manifest = copy.manifest
    if manifest is None:
        return None
    return manifest.snapshot or f"{manifest.start}-{manifest.position}"


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
