"""Puts a timeline or a ledger into a file of its own."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.regular_file import replace_regular


def save_timeline(text: str, folder: Path, name: str, suffix: str = ".txt") -> Path:
    """Write *text* to the file of that *name* and *suffix* in *folder*, in place of an older one.

    Only its owner can read it: topics, people and paths are in it.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / f"{name}{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_regular(path, f"{text}\n".encode(), 0o600)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): check that folder's rights and space"
        ) from error
    return path
