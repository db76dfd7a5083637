"""Chooses the latest record of each key, as compaction does, for a restore of these alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from breakglass.services.pipeline.batches.columns import NULL
from breakglass.services.pipeline.batches.stored_columns import stored_columns
from breakglass.services.pipeline.restore.task import Spans, runs_within
from breakglass.services.pipeline.stored_segments import StoredSegment

DIGEST_BYTES = 16
"""Longer keys are remembered by a digest of this size."""


@dataclass(frozen=True, slots=True)
class LatestRecords:
    """The latest record of each key of one partition."""

    spans: Spans
    """Offsets in which every stored record is the latest of its key, and no deletion."""
    older: int
    """Records after which their key has another one."""
    deleted: int
    """Deletions that are the latest of their key."""
    keyless: int
    """Records without key, which compaction removes as well."""

    @property
    def left_out(self) -> dict[str, int]:
        """The records that are not restored, by reason."""
        counts = {
            "a later record has their key": self.older,
            "they delete their key": self.deleted,
            "they have no key": self.keyless,
        }
        return {reason: count for reason, count in counts.items() if count}


def latest_records(stored: Sequence[StoredSegment], spans: Spans) -> LatestRecords:
    """The latest record of each key in *spans* of the *stored* segments; reads every record.

    Raises:
        MalformedInput, DamagedBackup, StorageError: the records cannot be read.
    """
    latest: dict[bytes, int] = {}
    """The number of the latest record of each key, counted over all records."""
    offsets, deletions, count, keyless = [], [], 0, 0
    for run in runs_within(stored, spans):
        columns = stored_columns(run)
        content = run.data.tobytes()
        ends = columns.keys.begins + columns.keys.lengths
        for number, (begin, end, length) in enumerate(
            zip(
                columns.keys.begins.tolist(),
                ends.tolist(),
                columns.keys.lengths.tolist(),
                strict=True,
            )
        ):
            if length == NULL:
                keyless += 1
                continue
            key = content[begin:end]
            if length > DIGEST_BYTES:
                key = blake2b(key, digest_size=DIGEST_BYTES + 1).digest()
            latest[key] = count + number
        offsets.append(columns.offsets)
        deletions.append(columns.values.lengths == NULL)
        count += len(columns)
    if not count:
        return LatestRecords((), 0, 0, 0)
    wanted = np.zeros(count, bool)
    wanted[np.fromiter(latest.values(), np.int64, len(latest))] = True
    deleting = wanted & np.concatenate(deletions)
    kept = wanted & ~deleting
    at = np.concatenate(offsets)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(np.int8)))
    return LatestRecords(
        tuple(
            (int(at[first]), int(at[last - 1]) + 1)
            for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        ),
        count - len(latest) - keyless,
        int(deleting.sum()),
        keyless,
    )
