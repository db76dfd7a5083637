"""Stores of checkpoints that tests look at: real files, under an address of their own."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from breakglass.console.app import BreakglassApp
from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupCut,
    GroupPolicy,
    Level,
    ManifestDocument,
    NumberedPartition,
    StoredFile,
    TakeDocument,
    VerifiedDocument,
)
from breakglass.services.checkpoint.watch import CheckpointWatch, SeenStore
from breakglass.services.model import Unknown
from tests.kit.incidents import nothing_offline
from tests.screens.consoles import console_on

NOW_MS = 1_700_000_000_000
MINUTE = 60_000
BANK, FAR = "/checkpoints/bank", "s3://far/bank"
SUBJECTS = tuple(NumberedPartition(number, "bank", number - 1) for number in (1, 2, 3))
GROUPS = {"tellers": GroupPolicy.EXACTLY_ONCE}


def from_then() -> Callable[[], int]:
    """Times from half an hour ago on, a second apart."""
    seconds = itertools.count(NOW_MS - 30 * MINUTE, 1_000)
    return lambda: next(seconds)


def bank(folder: Path) -> BackupStore:
    """Completed and verified, failed, being copied, and a vector that is damaged by now."""
    store = BackupStore(str(folder), from_then())
    taken(store, 1, Level.COORDINATED)
    copied(store, 1, 1, 2, 3)
    taken(store, 2, Level.VERIFIED)
    store.fail_checkpoint(2, "not drained in time: group tellers lags: bank-0 at 55 of 60")
    taken(store, 3, Level.VECTOR)
    copied(store, 3, 1, 2, 3)
    verified(store, 1)
    verified(store, 3, {2: "contents/3/2/0/segments/bank/records is missing"})
    taken(store, 4, Level.COORDINATED)
    copied(store, 4, 1)
    store.copies.fail(CopyId(4, 2, 0), "retention was faster")
    taken(store, 5, Level.COORDINATED)
    copied(store, 5, 1)
    for number in (2, 3):
        store.copies.begin(CopyId(5, number, 0), 100 + number, "1.0")
    return store


def taken(store: BackupStore, id: int, level: Level) -> None:
    at_ms = NOW_MS - 30 * MINUTE + id * MINUTE
    take = TakeDocument(id, level, SUBJECTS, f"request {id}", at_ms, groups=GROUPS)
    assert store.reserve(take) is None
    store.start(id, {subject.number: 110 for subject in SUBJECTS})
    positions = {subject.number: 100 + subject.number for subject in SUBJECTS}
    groups = {"tellers": GroupCut(GroupPolicy.EXACTLY_ONCE, positions)}
    store.decide(id, CutDocument(at_ms, positions, groups, {2: (105, 107)}, {1: 4}))


def copied(store: BackupStore, id: int, *numbers: int) -> None:
    for number in numbers:
        copy = CopyId(id, number, 0)
        store.copies.begin(copy, 100 + number, "1.0")
        file = store.copies.put(copy, "segments/bank/records", b"r" * 5_000 * number)
        store.copies.complete(copy, _manifest(100 + number, file))


def verified(store: BackupStore, id: int, damage: Mapping[int, str] | None = None) -> None:
    nodes = dict.fromkeys((1, 2, 3), 0)
    found = VerifiedDocument(NOW_MS - 5 * MINUTE, nodes, 3, 30_000, damage or {})
    store.note_verified(id, found)


def _manifest(position: int, file: StoredFile) -> ManifestDocument:
    return ManifestDocument(0, 0, position, 0, position, "a" * 64, (file,))


@dataclass(frozen=True, slots=True)
class Canned(CheckpointWatch):
    stores: list[SeenStore] = field(default_factory=list)

    def look(self) -> tuple[SeenStore, ...]:
        return tuple(self.stores)


def canned(*stores: SeenStore) -> Canned:
    return Canned(clock=lambda: NOW_MS, stores=list(stores))


def seen(store: BackupStore, url: str = BANK) -> SeenStore:
    return SeenStore(url, store.all(), NOW_MS)


def unread() -> SeenStore:
    return SeenStore(FAR, Unknown(f"{FAR}: no answer; try again."), NOW_MS)


def checkpoints_of(watch: CheckpointWatch, **options: Any) -> BreakglassApp:
    console = console_on(nothing_offline(), **options)
    plugged = replace(console.context, checkpoints=watch)
    return BreakglassApp(plugged, theme=console.theme, start="checkpoints")
