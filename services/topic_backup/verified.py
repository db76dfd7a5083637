"""When and how a backup was verified last, kept beside it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from services.clock import now_ms
from services.errors import MalformedInput
from services.topic_backup.folder import Folder, storage_errors

NAME = "breakglass_verified.json"


@dataclass(frozen=True, slots=True)
class Verified:
    """One verification of a topic's backup."""

    at_ms: int
    commit: int
    """Of the manifest that was verified; a later one has not been."""
    how: str
    """``files``, or ``content`` for files and every record against a topic."""
    against: str | None
    whole: bool


def note(folder: Folder, commit: int, how: str, against: str | None, *, whole: bool) -> Verified:
    """Keep that the backup in *folder* was verified now.

    Raises:
        StorageError: the folder cannot be written.
    """
    verified = Verified(now_ms(), commit, how, against, whole)
    folder.replace(NAME, [json.dumps(asdict(verified)).encode(), b"\n"])
    return verified


def read(folder: Folder) -> Verified | None:
    """The last verification; None when there was none.

    Raises:
        MalformedInput: the file is something else.
    """
    if folder.size(NAME) is None:
        return None
    with folder.open(NAME) as file, storage_errors(folder.where(NAME)):
        content = file.read()
    try:
        return Verified(**json.loads(content))
    except (ValueError, TypeError) as error:
        raise MalformedInput(
            f"{folder.where(NAME)}: no verification ({error}); remove it and verify again."
        ) from None
