"""The paths of all files of a checkpoint in its store: Backup[N][p][b] of the ZEP, as folders.

::

    checkpoints/N/take.json           the requested partitions, and the request; reserves the id
    checkpoints/N/started.json        acknowledged: the checkpoint's position in each partition
    checkpoints/N/cut.json            the cut of each partition, and group offsets
    checkpoints/N/failure.json        the checkpoint as a whole has failed
    checkpoints/N/verified-T.json     verified at time T: the newest file counts
    checkpoints/N/deleted.json        deleted: this file stays, so that the id is never reused
    checkpoints/N/p/failure.json      the verdict on a partition, overrides its copies
    checkpoints/N/p/b/ongoing.json    node b has begun to copy partition p
    checkpoints/N/p/b/manifest.json   the only commit: every file of the copy with its SHA-256
    checkpoints/N/p/b/failure.json    the copy has failed
    contents/N/p/b/...                the content of the copy

Each file is written once and never changed, and has one kind of writer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.checkpoint.protocol.values import CopyId

CHECKPOINTS, CONTENTS = "checkpoints", "contents"


class CheckpointFile(StrEnum):
    """The kind of a file below ``checkpoints``."""

    TAKE = "take"
    STARTED = "started"
    CUT = "cut"
    FAILURE = "failure"
    VERIFIED = "verified"
    DELETED = "deleted"
    ONGOING = "ongoing"
    MANIFEST = "manifest"


_BY_DEPTH = (
    frozenset(
        {
            CheckpointFile.TAKE,
            CheckpointFile.STARTED,
            CheckpointFile.CUT,
            CheckpointFile.FAILURE,
            CheckpointFile.VERIFIED,
            CheckpointFile.DELETED,
        }
    ),
    frozenset({CheckpointFile.FAILURE}),
    frozenset({CheckpointFile.ONGOING, CheckpointFile.MANIFEST, CheckpointFile.FAILURE}),
)
_NUMBER = r"(0|[1-9][0-9]{0,18})"
_NAME = re.compile(
    rf"{_NUMBER}/(?:{_NUMBER}/(?:{_NUMBER}/)?)?([a-z]+)(?:-{_NUMBER})?\.json", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """A file below ``checkpoints``: of a checkpoint, of one of its partitions, or of a copy."""

    checkpoint: int
    partition: int | None
    node: int | None
    entry: CheckpointFile
    at_ms: int | None = None
    """The time, for a kind that is written repeatedly, one file each."""

    def __str__(self) -> str:
        parts = [
            number for number in (self.checkpoint, self.partition, self.node) if number is not None
        ]
        when = "" if self.at_ms is None else f"-{self.at_ms}"
        return "/".join([*map(str, parts), f"{self.entry}{when}.json"])

    @property
    def copy(self) -> CopyId | None:
        """The copy that the file belongs to."""
        if self.partition is None or self.node is None:
            return None
        return CopyId(self.checkpoint, self.partition, self.node)


def of_checkpoint(id: int, entry: CheckpointFile) -> Name:
    """The name of a file of a whole checkpoint."""
    return Name(id, None, None, entry)


def of_copy(id: CopyId, entry: CheckpointFile) -> Name:
    """The name of a file of a copy."""
    return Name(id.checkpoint, id.partition, id.node, entry)


def parsed(name: str) -> Name | None:
    """The meaning of a file name; None for a foreign file, such as the remainder of a crash."""
    match = _NAME.fullmatch(name)
    if match is None or match[4] not in set(CheckpointFile):
        return None
    numbers = [int(group) if group else None for group in (*match.groups()[:3], match[5])]
    checkpoint, partition, node, at_ms = numbers
    entry, depth = CheckpointFile(match[4]), sum(number is not None for number in numbers[:3]) - 1
    if checkpoint is None or entry not in _BY_DEPTH[depth]:
        return None
    if (at_ms is not None) != (entry is CheckpointFile.VERIFIED):
        return None
    return Name(checkpoint, partition, node, entry, at_ms)


def contents(id: CopyId) -> str:
    """The folder of a copy's content."""
    return f"{CONTENTS}/{id.checkpoint}/{id.partition}/{id.node}"
