"""Where everything of a checkpoint lies in its store: Backup[N][p][b] of the ZEP, as folders.

::

    checkpoints/N/take.json           which partitions, asked for by whom; the id is taken by it
    checkpoints/N/started.json        where the checkpoint is in each partition, acknowledged
    checkpoints/N/cut.json            what is in it of each partition, and groups' offsets
    checkpoints/N/failure.json        the checkpoint as a whole has failed
    checkpoints/N/verified-T.json     every byte of it was read at that time: the newest counts
    checkpoints/N/deleted.json        deleted: stays, so that the id is never used again
    checkpoints/N/p/failure.json      the verdict on a partition, above all its copies
    checkpoints/N/p/b/ongoing.json    node b has begun to copy partition p
    checkpoints/N/p/b/manifest.json   and has ended: every file with its SHA-256, the sole commit
    checkpoints/N/p/b/failure.json    or has failed
    contents/N/p/b/...                what was copied

Each of them is written once and never changed, and each has one kind of writer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.checkpoint.protocol.values import CopyId

CHECKPOINTS, CONTENTS = "checkpoints", "contents"


class CheckpointFile(StrEnum):
    """What a file below ``checkpoints`` says."""

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
    """A file below ``checkpoints``: of a checkpoint, of a partition of it, or of a copy."""

    checkpoint: int
    partition: int | None
    node: int | None
    entry: CheckpointFile
    at_ms: int | None = None
    """When: of what is done again and again, a file each time."""

    def __str__(self) -> str:
        parts = [one for one in (self.checkpoint, self.partition, self.node) if one is not None]
        when = "" if self.at_ms is None else f"-{self.at_ms}"
        return "/".join([*map(str, parts), f"{self.entry}{when}.json"])

    @property
    def copy(self) -> CopyId | None:
        """The copy it is of."""
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
    """What a file is; None for one that is not of the layout, such as what a crash left."""
    match = _NAME.fullmatch(name)
    if match is None or match[4] not in set(CheckpointFile):
        return None
    numbers = [int(one) if one else None for one in (*match.groups()[:3], match[5])]
    checkpoint, partition, node, at_ms = numbers
    entry, depth = CheckpointFile(match[4]), sum(one is not None for one in numbers[:3]) - 1
    if checkpoint is None or entry not in _BY_DEPTH[depth]:
        return None
    if (at_ms is not None) != (entry is CheckpointFile.VERIFIED):
        return None
    return Name(checkpoint, partition, node, entry, at_ms)


def contents(id: CopyId) -> str:
    """The folder of what a copy holds."""
    return f"{CONTENTS}/{id.checkpoint}/{id.partition}/{id.node}"
