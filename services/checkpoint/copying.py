"""Takes one partition's copy to its end: begun, tried again, committed, or failed with the reason.

What is copied and how is the source's affair; when, how often and with what result is decided by
`protocol.worker`.
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
"""Before the second try; twice as long before each further one."""
PASSING = (StorageError, Unreachable, PipelineError)
"""Errors after which copying is tried again."""


class PartitionCopier(Protocol):
    """One partition as far as the checkpoint."""

    def copy(self, where: str) -> ManifestDocument:
        """Write it below *where*, and say what was written.

        Raises:
            StorageError, Unreachable, PipelineError: it may be tried again.
            BreakglassError: it cannot be copied any more, as when retention was faster.
        """


def take_copy(
    copies: Copies,
    id: CopyId,
    position: int | None,
    source: PartitionCopier,
    wait: Callable[[float], None],
    tool_version: str = "unknown",
) -> Status:
    """Copy a partition, unless this node has done so or the partition has failed.

    *position* is the checkpoint's, exclusive; None where the source reads it off the log. A copy
    that the coordinator has noted as begun is taken up like one that was cut off.

    Raises:
        Refused: the checkpoint has failed or was deleted meanwhile.
        StorageError: the store takes neither the copy nor its failure.
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
        # A deletion does not wait for those who copy: they remove what they wrote behind it.
        copies.remove_if_deleted(id)
    return attempt.status


def _tried(
    copies: Copies, attempt: CopyAttempt, source: PartitionCopier, tool_version: str
) -> CopyAttempt | Copy:
    """The next attempt, or how it has ended: with a reason where that is to be recorded."""
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
    """What was written, or the failure to do so for good."""
    try:
        return source.copy(copies.contents(attempt.id).where())
    except PASSING:
        raise
    except BreakglassError as error:
        return Copy(attempt.id, Status.FAILED, attempt.position, reason=str(error))
