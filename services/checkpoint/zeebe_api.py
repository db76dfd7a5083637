"""Checkpoints as Zeebe's ``/actuator/backups`` has them: its documents, and their description.

``partitionId`` is the partition's number in the checkpoint, ``brokerId`` the node that copied,
``brokerVersion`` the release that copied followed by a plus and the checkpoint's level,
``checkpointPosition`` the offset of the cut (exclusive), ``snapshotId`` the saved state in the
copy, or ``START-END`` for a copy that needs none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

from breakglass.services.checkpoint.protocol.values import LARGEST_ASKED, LARGEST_ID, Status
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
from breakglass.services.checkpoint.wording import UNKNOWN, level_of, why_failed

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
    found: dict[str, Json] = {"backupId": checkpoint.id, "state": STATES[state_of(checkpoint)]}
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
    return "".join(
        f"Backup on partition {partition.number} failed due to {partition.failure}. "
        for partition in checkpoint.partitions
        if partition.failure is not None
    )


def _partition(
    partition: StoredPartition, checkpoint: StoredCheckpoint, *, brief: bool
) -> dict[str, Json]:
    found: dict[str, Json] = {"partitionId": partition.number, "state": STATES[partition.status]}
    reason, copy = why_failed(partition, checkpoint), partition.counting
    if reason is not None:
        found["failureReason"] = reason
    if copy is None:
        return found
    # The level as build metadata (Semantic Versioning, PEP 440): Zeebe has no key for a level.
    version, level, manifest = copy.tool_version, level_of(checkpoint), copy.manifest
    if version is not None:
        version = f"{version}{'.' if '+' in version else '+'}{level}"
    known: dict[str, str | int | None] = {"createdAt": _time(copy.created_at_ms)}
    if not brief:
        known |= {
            "lastUpdatedAt": _time(copy.updated_at_ms),
            "snapshotId": None
            if manifest is None
            else manifest.snapshot or f"{manifest.start}-{manifest.position}",
            "checkpointPosition": copy.position,
            "brokerId": copy.id.node,
        }
    known["brokerVersion"] = version
    return found | {key: value for key, value in known.items() if value is not None}


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


BACKUPS = "/actuator/backups"
LEVEL_HEADER, PROMISE_HEADER = "Breakglass-Level", "Breakglass-Promise"
_OF_PARTITIONS = [word for status, word in STATES.items() if status is not Status.INCOMPLETE]
_MOMENT = {"type": "string", "format": "date-time"}
_ID = {"type": "integer", "format": "int64", "minimum": 1, "maximum": LARGEST_ID}
_NUMBER = {"type": "integer", "format": "int32"}

_SCHEMAS: dict[str, Any] = {
    "TakeBackupRequest": {
        "type": "object",
        "required": ["backupId"],
        "properties": {"backupId": _ID | {"maximum": LARGEST_ASKED}},
    },
    "TakeBackupResponse": {
        "type": "object",
        "required": ["message"],
        "properties": {"message": {"type": "string"}},
    },
    "Error": {
        "type": "object",
        "required": ["message"],
        "properties": {"message": {"type": "string"}},
    },
    "BackupInfo": {
        "type": "object",
        "required": ["backupId", "state", "details"],
        "properties": {
            "backupId": _ID,
            "state": {"type": "string", "enum": list(STATES.values())},
            "failureReason": {"type": "string"},
            "details": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/PartitionBackupInfo"},
            },
        },
    },
    "PartitionBackupInfo": {
        "type": "object",
        "required": ["partitionId", "state"],
        "properties": {
            "partitionId": {**_NUMBER, "description": "The partition's number, from 1."},
            "state": {"type": "string", "enum": _OF_PARTITIONS},
            "failureReason": {"type": "string"},
            "createdAt": {**_MOMENT, "description": "When copying began."},
            "lastUpdatedAt": {**_MOMENT, "description": "When it ended."},
            "snapshotId": {
                "type": "string",
                "description": "The saved state in the copy, else START-END of its records.",
            },
            "checkpointPosition": {
                "type": "integer",
                "format": "int64",
                "description": "The offset of the cut, exclusive.",
            },
            "brokerId": {**_NUMBER, "description": "The node whose worker copied."},
            "brokerVersion": {
                "type": "string",
                "description": "The release that copied, a plus, and the checkpoint's level.",
                "example": "0.1.0+coordinated",
            },
        },
    },
}
_LEVEL = {
    "description": "What is promised about its consistency; Zeebe's body has no word for it.",
    "schema": {"type": "string", "enum": [*Level, UNKNOWN]},
}
_PROMISE = {
    "description": "The same in a sentence, as the other front ends say it.",
    "schema": {"type": "string"},
}
_PATH_ID = {"name": "backupId", "in": "path", "required": True, "schema": _ID}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Names the request: the same one sent again is accepted, not refused.",
    "schema": {"type": "string", "maxLength": 200},
}


def description(version: str) -> dict[str, Any]:
    """The whole description, for this release."""
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Breakglass checkpoints",
            "version": version,
            "description": "The backup management of Zeebe, over partitions of Kafka.",
        },
        "security": [{"token": []}],
        "paths": {
            BACKUPS: {"get": _LIST, "post": _TAKE},
            f"{BACKUPS}/{{backupId}}": {"get": _STATUS, "delete": _DELETE},
            "/metrics": {"get": _METRICS},
        },
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _json(schema: dict[str, Any], what: str) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _of(name: str, what: str) -> dict[str, Any]:
    return _json({"$ref": f"#/components/schemas/{name}"}, what)


def _errors(**more: str) -> dict[str, Any]:
    always = {
        "401": "The token is missing or another.",
        "405": "The path takes other methods: see the header Allow.",
        "500": "Something else is wrong, such as a damaged document in the store.",
        "503": "The store does not answer, or cannot be written.",
    }
    found = always | {status.removeprefix("on"): what for status, what in more.items()}
    return {status: _of("Error", what) for status, what in sorted(found.items())}


_LIST: dict[str, Any] = {
    "operationId": "list",
    "summary": "All checkpoints, the newest first",
    "responses": {
        "200": _json(
            {"type": "array", "items": {"$ref": "#/components/schemas/BackupInfo"}},
            "Without position, snapshot and node of each partition.",
        ),
        **_errors(),
    },
}
_TAKE: dict[str, Any] = {
    "operationId": "take",
    "summary": "Take a checkpoint",
    "parameters": [_KEY],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/TakeBackupRequest"}}
        },
    },
    "responses": {
        "202": _of("TakeBackupResponse", "Every partition has started."),
        **_errors(
            on400="The id is missing, or not above 0.",
            on403="The server is read-only.",
            on408="The body has not arrived.",
            on409="The id is not above all before it, or its checkpoint has failed.",
            on413="The body is too large: it holds one number.",
            on415="The body is not JSON.",
            on502="The brokers cannot be reached.",
            on504="Not every partition has started in time: the checkpoint has failed.",
        ),
    },
}
_STATUS: dict[str, Any] = {
    "operationId": "status",
    "summary": "One checkpoint",
    "parameters": [_PATH_ID],
    "responses": {
        "200": {
            **_of("BackupInfo", "With every partition."),
            "headers": {LEVEL_HEADER: _LEVEL, PROMISE_HEADER: _PROMISE},
        },
        **_errors(on400="The id is no number.", on404="There is none, or it was deleted."),
    },
}
_DELETE: dict[str, Any] = {
    "operationId": "delete",
    "summary": "Delete a checkpoint; again, or one that there never was, changes nothing",
    "parameters": [_PATH_ID],
    "responses": {
        "204": {"description": "There is none now."},
        **_errors(on400="The id is no number.", on403="The server is read-only."),
    },
}
_METRICS: dict[str, Any] = {
    "operationId": "metrics",
    "summary": "Figures for Prometheus",
    "responses": {
        "200": {
            "description": "Its text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **_errors(),
    },
}
