"""What a bundle has from this machine: the status of backups, recent journals, what was seen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from breakglass.services import patience
from breakglass.services.backup_watch.location import TopicHeld
from breakglass.services.backup_watch.watch import BackupWatch, WatchedLocation, glance_of
from breakglass.services.bundle.documents import (
    BACKED_UP,
    BACKUPS,
    JOURNAL,
    OBSERVATIONS,
    BundledBackup,
    BundledBackups,
    BundledPlace,
)
from breakglass.services.bundle.making import BundleMaker
from breakglass.services.checkpoint.watch import CheckpointWatch, SeenStore
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.lock import file_name
from breakglass.services.health.backups import BackupGlance
from breakglass.services.incident.observations import Observations
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown
from breakglass.services.regular_file import read_regular
from breakglass.services.state_folder import state_folder

MOST_JOURNALS = 20
MOST_JOURNAL_BYTES = 32 << 20
"""Of one journal; a longer one is left out."""
JOURNAL_NAME = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z\.jsonl", re.ASCII)
_USER = re.compile(r"(?<=//)[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class BackupPlaces:
    """The places of backups whose status goes into a bundle."""

    topics: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    metastore: Path | None = None
    """None, or a folder that is there."""


def without_user(url: str) -> str:
    """*url* without the user and password that it may name."""
    return _USER.sub("", url)


def add_backups(maker: BundleMaker, places: BackupPlaces) -> None:
    """The status of topic backups, and a line for each kind of backup."""
    glances: dict[str, BackupGlance | Unknown] = {}
    found: list[BundledPlace] = []
    topics: list[BundledBackup] = []
    if places.topics:
        watch = BackupWatch(places.topics, jobs=lambda _: ())
        watch.glance(Deadline.after(patience.COMMAND))
        standing = watch.standing
        glances[watch.name] = glance_of(standing)
        for place in standing.places:
            found.append(_place(maker, place))
            topics += [_backup(found[-1].url, held) for held in place.topics]
    if places.checkpoints:
        glances["checkpoints"] = _checkpoints(CheckpointWatch(places.checkpoints).look())
    if places.metastore is not None:
        glances["metastore"] = _metastore(places.metastore)
    for name, glance in glances.items():
        if isinstance(glance, Unknown):
            maker.lacks(f"the status of {name}", glance.reason)
    maker.document(BACKUPS, BundledBackups(tuple(found), glances))
    maker.lines(BACKED_UP, topics)


def _place(maker: BundleMaker, place: WatchedLocation) -> BundledPlace:
    held, url = place.held, without_user(place.url)
    unread = held.value if isinstance(held.value, Unknown) else None
    if unread is not None:
        maker.lacks(f"the status of backups at {url}", unread.reason)
    return BundledPlace(url, unread, held.read_at_ms)


def _backup(url: str, held: TopicHeld) -> BundledBackup:
    return BundledBackup(url, held.topic, held.generation, held.newest, held.status, held.unread)


def _checkpoints(stores: Sequence[SeenStore]) -> BackupGlance | Unknown:
    from breakglass.services.checkpoint.protocol.values import Status

    unread = [store.held.reason for store in stores if isinstance(store.held, Unknown)]
    held = [
        found for store in stores if not isinstance(store.held, Unknown) for found in store.held
    ]
    if unread and not held:
        return Unknown("; ".join(unread))
    whole = [found for found in held if found.status is Status.COMPLETED]
    newest = max((found.take.created_at_ms for found in whole if found.take), default=None)
    return BackupGlance(f"{len(whole):,} of {len(held):,} completed", newest, "; ".join(unread))


def _metastore(folder: Path) -> BackupGlance | Unknown:
    from breakglass.services.metastore.glance import MetastoreGlance

    try:
        return MetastoreGlance(folder).glance(Deadline.after(patience.COMMAND))
    except BreakglassError as error:
        return Unknown(str(error))


def add_journals(maker: BundleMaker, cluster_id: str, folder: Path | None) -> None:
    """The newest journals of that cluster, and the elections that were seen to cost records."""
    state = folder or state_folder()
    journals = sorted((state / "journal" / file_name(cluster_id)).glob("*.jsonl"), reverse=True)
    for path in journals[:MOST_JOURNALS]:
        if JOURNAL_NAME.fullmatch(path.name):
            _add_file(maker, f"{JOURNAL}{path.name}", path)
    if len(journals) > MOST_JOURNALS:
        older = len(journals) - MOST_JOURNALS
        maker.lacks(f"{older:,} older journals", f"the newest {MOST_JOURNALS} are in the bundle")
    seen = Observations(cluster_id, folder).path
    if seen.exists():
        _add_file(maker, OBSERVATIONS, seen)


def _add_file(maker: BundleMaker, name: str, path: Path) -> None:
    try:
        data = read_regular(path, MOST_JOURNAL_BYTES)
        read_at_ms = path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        maker.lacks(name, f"it cannot be read ({error.strerror})")
        return
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        maker.lacks(f"the last line of {name}", "it was not written whole")
    maker.raw(name, [whole], read_at_ms)
