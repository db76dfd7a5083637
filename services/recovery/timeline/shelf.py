"""The journals of a state folder: listed in brief, each read once while unchanged, or by name."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema, UsageError
from breakglass.services.file_lock import is_locked
from breakglass.services.guard.journal import UnreadableJournal, read
from breakglass.services.guard.lock import file_name
from breakglass.services.recovery.timeline.account import Account, Brief, ExecutionState
from breakglass.services.state_folder import state_folder

PREFIX = file_name("")
Stamp = tuple[int, int]
"""Size and time of the last change of a file."""


@dataclass(frozen=True, slots=True)
class _Held:
    stamp: Stamp
    told: Brief | UnreadableJournal


class Shelf:
    """Journals below one state folder. May be used by many threads."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or state_folder()) / "journal"
        self._held: dict[Path, _Held] = {}
        self._reading = threading.Lock()

    def clusters(self) -> list[str]:
        """Ids of the clusters that there are journals of."""
        found = (folder.name for folder in self._folder.glob(f"{PREFIX}*") if folder.is_dir())
        return sorted(unquote(name.removeprefix(PREFIX)) for name in found)

    def briefs(self, cluster_ids: Iterable[str]) -> list[Brief | UnreadableJournal]:
        """The journals of these clusters, newest first."""
        folders = [self._folder / file_name(cluster_id) for cluster_id in cluster_ids]
        paths = [path for folder in folders for path in folder.glob("*.jsonl")]
        paths.sort(key=lambda path: (path.name, path), reverse=True)
        with self._reading:
            found = {path: self._read(path) for path in paths}
            self._held = {path: held for path, held in found.items() if held is not None}
            return [held.told for held in self._held.values()]

    def named(self, name: str) -> Account:
        """The journal of that path, or of that name in the state folder.

        Raises:
            UsageError: there is none, or more than one.
            StorageError, MalformedInput, UnsupportedSchema: it cannot be read.
        """
        if Path(name).is_file():
            return account_of(Path(name))
        paths = [path for path in self._folder.glob(f"{PREFIX}*/*.jsonl") if path.stem == name]
        if len(paths) != 1:
            many = "is the name of more than one journal: give its path"
            none = "is no journal: `breakglass journal list` shows their names"
            raise UsageError(f"{name!r} {many if paths else none}.")
        return account_of(paths[0])

    def _read(self, path: Path) -> _Held | None:
        """The journal at *path*, from memory while the file is the same; None if it is gone."""
        try:
            found = path.stat()
        except OSError:
            return None
        stamp = (found.st_size, found.st_mtime_ns)
        held = self._held.get(path)
        if held is None or held.stamp != stamp:
            return _Held(stamp, _told(path))
        if isinstance(held.told, UnreadableJournal) or held.told.ended is not None:
            return held
        # A writer may have come or gone without a word.
        return _Held(stamp, replace(held.told, state=_state(path)))


def account_of(path: Path) -> Account:
    """The account of the journal at *path*.

    Raises: StorageError, MalformedInput, UnsupportedSchema.
    """
    view = read(path)
    return Account(view, _state(path) if view.result is None else ExecutionState.ENDED)


def being_written(path: Path) -> bool:
    """Whether a process has that journal open to write in it, here or in another session."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_locked(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _told(path: Path) -> Brief | UnreadableJournal:
    try:
        return account_of(path).brief
    except (MalformedInput, UnsupportedSchema, StorageError) as error:
        return UnreadableJournal(path, str(error))


def _state(path: Path) -> ExecutionState:
    return ExecutionState.RUNNING if being_written(path) else ExecutionState.INTERRUPTED
