"""Stores when and how a backup was last verified, in a file beside it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput
from breakglass.services.topic_backup.folder import Folder, LocalFolder, read_whole
from breakglass.services.topic_backup.layout import segment_of

NAME = "breakglass_verified.json"
MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Verified:
    """One verification of a topic's backup."""

    at_ms: int
    commit: int
    """The verified manifest's commit; later commits are not verified."""
    how: str
    """``files``, or ``content`` for files and every record against a topic."""
    against: str | None
    whole: bool
    state: str = ""
    """A digest of the segment files' sizes and modification times; empty if the store has none."""

    @property
    def verdict(self) -> str:
        return "whole" if self.whole else "DAMAGED or different"


def state_of(folder: Folder) -> str:
    """A digest of the sizes and modification times of the segment files in *folder*."""
    if not isinstance(folder, LocalFolder):
        return ""
    digest = sha256()
    for name in sorted(name for name in folder.names() if segment_of(name)):
        digest.update(f"{name} {folder.state(name)}\n".encode())
    return digest.hexdigest()


def newest_commit(folder: Folder) -> int:
    """The commit that was verified last; 0 if none was, or if the file cannot be read."""
    try:
        last = read(folder)
    except MalformedInput:
        return 0
    return last.commit if last is not None and isinstance(last.commit, int) else 0


def is_changed(folder: Folder, last: Verified) -> bool:
    """Whether a segment file changed since *last*."""
    return bool(last.state) and last.state != state_of(folder)


def note(folder: Folder, commit: int, how: str, against: str | None, *, whole: bool) -> Verified:
    """Record that the backup in *folder* was verified now; not if a later commit was before.

    Raises:
        StorageError: the folder cannot be written.
    """
    last = read(folder) if newest_commit(folder) > commit else None
    if last is not None:
        # The manifest is older than the one that was verified: the file is what shows that.
        return last
    verified = Verified(now_ms(), commit, how, against, whole, state_of(folder))
    folder.replace(NAME, [json.dumps(asdict(verified)).encode(), b"\n"])
    return verified


def read(folder: Folder) -> Verified | None:
    """The last verification; None if there was none.

    Raises:
        MalformedInput: the file is not a verification.
    """
    if folder.size(NAME) is None:
        return None
    content = read_whole(folder, NAME, MOST_BYTES)
    try:
        return Verified(**json.loads(content))
    except (ValueError, TypeError) as error:
        raise MalformedInput(
            f"{folder.where(NAME)}: no verification ({error}); remove it and verify again."
        ) from None
