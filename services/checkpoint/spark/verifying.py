"""Verifies a checkpoint in its store: reads and compares every byte that a restore would use.

No cluster is asked: the files are compared with what was committed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.restoring import RestoredCopy
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import VerifiedDocument
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.clock import now_ms
from breakglass.services.errors import Refused

SIDE_BY_SIDE = 4
Tell = Callable[[int, str], None]
"""Called for each partition: its number, and what is wrong with it."""


def verify(
    store: BackupStore,
    found: StoredCheckpoint,
    tell: Tell,
    clock: Callable[[], int] = now_ms,
) -> VerifiedDocument:
    """Read every file of *found*, and store the result.

    Raises:
        Refused: it is not completed.
        StorageError: the store does not answer; no result is stored.
    """
    if found.status is not Status.COMPLETED or found.cut is None:
        raise Refused(
            f"checkpoint {found.id} is {found.status}, and only a completed one can be verified: "
            f"see `breakglass checkpoint status {found.id}`"
        )
    copies = [RestoredCopy(store, found, partition) for partition in found.partitions]
    damage: dict[int, str] = {}
    with ThreadPoolExecutor(SIDE_BY_SIDE, "verify") as pool:
        for one, wrong in zip(copies, pool.map(RestoredCopy.wrong, copies), strict=True):
            tell(one.one.number, wrong)
            if wrong:
                damage[one.one.number] = wrong
    files = [file for copy in copies for file in copy.manifest.files]
    done = VerifiedDocument(
        clock(),
        {copy.one.number: copy.node for copy in copies},
        len(files),
        sum(file.size for file in files),
        damage,
    )
    store.note_verified(found.id, done)
    return done
