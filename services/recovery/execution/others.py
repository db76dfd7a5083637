"""Who else acts on a cluster from this machine: what other journals and the lock tell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from breakglass.services.errors import BreakglassError
from breakglass.services.guard.journal_view import JournalView, read
from breakglass.services.guard.lock import operator, signature
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.preferred import STEP as PREFERRED
from breakglass.services.recovery.execution.restore_order import RESTORE
from breakglass.services.recovery.execution.routes import DESIGNATE, ELECT, REORDER
from breakglass.services.recovery.execution.undo_order import UNDO
from breakglass.services.state_folder import state_folder

_CHANGING = frozenset({REORDER, ELECT, DESIGNATE, PREFERRED, RESTORE, UNDO})


def others_at_work(own: Path, cluster_id: str, partition: TopicPartition) -> tuple[str, ...]:
    """Who else changed *partition* since the journal *own* was opened, as far as is known.

    Read are the journals beside it and those of the user's state folder, and who has signed
    that folder's lock. Operators on other machines leave neither here.
    """
    try:
        since = read(own).opened_at_ms
    except BreakglassError:
        return ()
    acted = [
        f"{view.who} (journal {view.path})"
        for view in _journals(own, cluster_id, since)
        if _acted(view, partition, since)
    ]
    return tuple(acted) or tuple(_holding(cluster_id))


def _journals(own: Path, cluster_id: str, since_ms: int) -> Iterator[JournalView]:
    """The other journals of the cluster that were written in since then."""
    from breakglass.services.guard.lock import file_name

    folders = {own.parent.resolve(), (state_folder() / "journal" / file_name(cluster_id)).resolve()}
    for path in sorted(path for folder in folders for path in folder.glob("*.jsonl")):
        try:
            if path.resolve() == own.resolve() or path.stat().st_mtime_ns // 10**6 < since_ms:
                continue
            view = read(path)
        except (OSError, BreakglassError):
            continue
        if view.cluster_id == cluster_id:
            yield view


def _acted(view: JournalView, partition: TopicPartition, since_ms: int) -> bool:
    return any(
        step.name in _CHANGING and step.request.at_ms >= since_ms
        for step in view.steps_of(partition)
    )


def _holding(cluster_id: str) -> Iterator[str]:
    """Who holds the lock of the user's state folder, if not this process."""
    signed = signature(cluster_id, state_folder() / "locks")
    if "who" in signed and (signed["who"], signed.get("pid")) != (operator(), os.getpid()):
        yield f"{signed['who']} (process {signed.get('pid')}, which holds the lock of this cluster)"
