"""Copies one partition: begins, retries, and commits the copy or records why it failed.

The source decides what is copied and how; `protocol.worker` decides when, how often and with what
result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from breakglass.services.checkpoint.protocol import worker
from breakglass.services.checkpoint.protocol.values import Copy, CopyId, Status
from breakglass.services.checkpoint.protocol.worker import Begin, CopyAttempt
from breakglass.services.checkpoint.store.copies import Copies
from breakglass.services.checkpoint.store.documents import ManifestDocument
from breakglass.services.errors import BreakglassError, PipelineError, StorageError, Unreachable

PAUSE_SECONDS = 1.0
"""Before the first retry; doubled before each further retry."""
PASSING = (StorageError, Unreachable, PipelineError)
"""Errors after which the copy is retried."""


class PartitionCopier(Protocol):
    """One partition up to the checkpoint."""

    def copy(self, where: str) -> ManifestDocument:
        """Write the copy below *where*, and return what was written.

        Raises:
            StorageError, Unreachable, PipelineError: the copy may be retried.
            BreakglassError: the partition cannot be copied any more, for example because retention
                removed records.
        """


def take_copy(
    copies: Copies,
    id: CopyId,
    position: int | None,
    source: PartitionCopier,
    wait: Callable[[float], None],
    tool_version: str = "unknown",
) -> Status:
    """Copy a partition, unless this node has completed its copy or the partition has failed.

    *position* is the checkpoint's, exclusive; None where the source reads it from the log. A copy
    that the coordinator recorded as begun is resumed like an interrupted copy.

    Raises:
        Refused: the checkpoint has failed or was deleted during the copy.
        StorageError: the store accepts neither the copy nor the record of its failure.
    """
    attempt: CopyAttempt | Copy = CopyAttempt(id, position)
    try:
        while isinstance(attempt, CopyAttempt):
            if attempt.errors:
                wait(PAUSE_SECONDS * 2 ** (attempt.errors - 1))
            attempt = _tried(copies, attempt, source, tool_version)
        if attempt.reason is not None:
            copies.fail(id, attempt.reason, attempt.position)
    finally:
        # A deletion does not wait for workers that copy: they remove what they wrote after it.
        copies.remove_if_deleted(id)
    return attempt.status


def _tried(
    copies: Copies, attempt: CopyAttempt, source: PartitionCopier, tool_version: str
) -> CopyAttempt | Copy:
    """The next attempt, or how the copy ended, with a reason if a failure is to be recorded."""
    id = attempt.id
    try:
        match worker.begin(copies.partition(id.checkpoint, id.partition).backup, id):
            case Begin.SKIP:
                return Copy(id, Status.COMPLETED)
            case Begin.REFUSE:
                return Copy(id, Status.FAILED)
            case Begin.COPY_ANEW:
                copies.begin_again(id, attempt.position, tool_version)
            case Begin.COPY:
                copies.begin(id, attempt.position, tool_version)
        manifest = _copied(copies, attempt, source)
        if isinstance(manifest, Copy):
            return manifest
        copies.complete(id, manifest)
    except PASSING as error:
        return worker.after_error(attempt, str(error))
    return Copy(id, Status.COMPLETED)


def _copied(
    copies: Copies, attempt: CopyAttempt, source: PartitionCopier
) -> ManifestDocument | Copy:
    """What was written, or the permanent failure to write it."""
    try:
        return source.copy(copies.contents(attempt.id).where())
    except PASSING:
        raise
    except BreakglassError as error:
        return Copy(attempt.id, Status.FAILED, attempt.position, reason=str(error))
