"""Follows a cluster and keeps the last bundles, so that the moment of a failure is on disk.

A bundle is captured when the state of the cluster changes, and again from time to time while it
stays. Of each state the first bundle and the newest are kept: neither a cluster that stays broken
for days nor a broker that comes and goes washes out the moment at which it broke.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Self

from breakglass.services.bundle.capture import BundleMaker, Capture
from breakglass.services.errors import BreakglassError, ClusterError, StorageError, Unreachable
from breakglass.services.file_lock import lock, open_lock_file
from breakglass.services.incident.incident import Incident
from breakglass.services.recovery.judgement.succession import quorum_lost
from breakglass.services.rights import make_folders

LOOK_SECONDS = 2.0
"""Seconds between two looks at the metadata."""
NAME = re.compile(r"breakglass-[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-([0-9a-f]{8})\.tar\.gz", re.ASCII)
"""Names of bundles that a watch wrote: the moment, and a digest of the state. No other file in the
folder is touched."""
_BEGUN = re.compile(r"\.breakglass-.*\.new", re.ASCII)
LOCK = ".breakglass-capture.lock"


class SavedBundle(NamedTuple):
    """A bundle in the folder."""

    name: str
    state: str
    size: int


@dataclass(frozen=True, slots=True)
class Keeping:
    """How much is kept."""

    bundles: int
    size: int
    """Bytes of all bundles; the newest is kept whatever its size."""

    def superseded(self, saved: Sequence[SavedBundle]) -> list[str]:
        """The names of the bundles, of *saved* in their order, that are not kept."""
        newest = {bundle.state: bundle for bundle in saved}
        first = {bundle.state: bundle for bundle in reversed(saved)}
        wanted = {*newest.values(), *first.values()}
        kept = [bundle for bundle in saved if bundle in wanted][-self.bundles :]
        while len(kept) > 1 and sum(bundle.size for bundle in kept) > self.size:
            del kept[0]
        names = {bundle.name for bundle in kept}
        return [bundle.name for bundle in saved if bundle.name not in names]


class BundleFolder:
    """The folder of one watch, which has its lock until it is closed. Bundles are 0600 in it."""

    def __init__(self, folder: Path, keeping: Keeping) -> None:
        """Raises: AlreadyRunning, StorageError."""
        self._folder, self._keeping = folder, keeping
        try:
            make_folders(folder)
            self._lock = open_lock_file(folder / LOCK)
        except OSError as error:
            raise StorageError(_unusable(folder, str(error.strerror))) from error
        try:
            lock(
                self._lock,
                lambda: f"another capture writes to {folder}: name another folder, or end that one",
                lambda reason: _unusable(folder, reason),
            )
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def save(self, maker: BundleMaker, state: str) -> Path:
        """Write the bundle of a cluster in *state*, then remove what is not kept.

        Raises:
            StorageError: it cannot be written; the bundles before it are still there.
        """
        for begun in self._folder.iterdir():
            # What a killed process had begun to write.
            if _BEGUN.fullmatch(begun.name):
                with suppress(OSError):
                    begun.unlink()
        moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
        path = self._folder / f"breakglass-{moment}Z-{state}.tar.gz"
        try:
            maker.write(path)
            for name in self._keeping.superseded(self.saved()):
                (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(_unusable(self._folder, str(error.strerror))) from error
        return path

    def saved(self) -> list[SavedBundle]:
        """The bundles in the folder, oldest first."""
        found = []
        for path in sorted(self._folder.iterdir()):
            match = NAME.fullmatch(path.name)
            if match is not None:
                found.append(SavedBundle(path.name, match[1], path.lstat().st_size))
        return found


def state_of(found: Incident | BreakglassError) -> str:
    """A digest of what a new bundle is captured for: brokers, quorum, offline partitions."""
    if isinstance(found, Incident):
        snapshot = found.snapshot
        facts = [
            *sorted((broker.id, str(broker.fenced)) for broker in snapshot.brokers),
            quorum_lost(snapshot.quorum),
            *(str(row.partition) for row in found.rows),
        ]
    else:
        facts = ["the cluster cannot be read"]
    return sha256(repr(facts).encode()).hexdigest()[:8]


def follow(
    capture: Capture,
    folder: BundleFolder,
    every: float,
    wait: Callable[[float], bool],
    tell: Callable[[str], None],
    seen: Callable[[Incident | BreakglassError], object] = lambda _: None,
) -> None:
    """Look at the cluster until *wait*, which takes seconds, returns true; save what changed.

    A bundle of an unchanged state is saved every *every* seconds. What cannot be saved is reported,
    and tried again. *seen* gets what each look found.

    Raises:
        BreakglassError: the cluster cannot be read at all, for another reason than silence.
    """
    before, whole, saved_at = "", False, time.monotonic() - every
    first = True
    while True:
        found = _found(capture, first=first)
        seen(found)
        state, complete = state_of(found), isinstance(found, Incident) and found.complete
        now, first = time.monotonic(), False
        if state != before or (complete and not whole) or now - saved_at >= every:
            try:
                path = folder.save(capture.bundle(found), state)
            except StorageError as error:
                tell(str(error))
            else:
                tell(f"{path}  {_told(found)}")
                before, whole, saved_at = state, complete, now
        if wait(LOOK_SECONDS):
            return


def _found(capture: Capture, *, first: bool) -> Incident | BreakglassError:
    try:
        return capture.look()
    except BreakglassError as error:
        if first and not (isinstance(error, Unreachable) and error.retriable):
            raise
        return error
    except Exception as error:
        if first:
            raise
        return ClusterError(f"the answers cannot be read ({type(error).__name__}: {error})")


def _told(found: Incident | BreakglassError) -> str:
    if not isinstance(found, Incident):
        return f"the cluster could not be read: {found}"
    return f"{len(found.rows):,} partitions offline"


def _unusable(folder: Path, reason: str) -> str:
    return f"{folder} cannot be used ({reason}): name a folder with room, for you alone."
