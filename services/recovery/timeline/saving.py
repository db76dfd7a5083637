"""Puts a timeline or a ledger into a file of its own."""

from __future__ import annotations

import os
from pathlib import Path

from breakglass.services.errors import StorageError


def save_timeline(text: str, folder: Path, name: str, suffix: str = ".txt") -> Path:
    """Write *text* to the file of that *name* and *suffix* in *folder*, in place of an older one.

    Only its owner can read it: topics, people and paths are in it.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / f"{name}{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as out:
            out.write(text + "\n")
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): check that folder's rights and space"
        ) from error
    return path
