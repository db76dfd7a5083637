"""What a commit is about to change, noted before the first change: so a killed one is taken back.

Files that have their name but no commit must not be taken up by the next run: by then the topic
may have been created anew, or its log cut, and they would be of another log than what follows.
Only a run that is noted here is taken back. What the original's connectors wrote behind our last
commit is not ours to remove.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from breakglass.services.errors import MalformedInput
from breakglass.services.topic_backup.folder import LocalFolder, read_whole
from breakglass.services.topic_backup.layout import MAX_INT64, segment_of

PENDING = "breakglass_pending.json"
SCHEMA = 1
MOST_BYTES = 256 * 1024 * 1024

Sizes = Mapping[str, int | None]
"""Bytes of each file before the change, by name; None: it was not there."""


def note(folder: LocalFolder, commit: int, before: Sizes) -> None:
    """Write down, durably, that the files *before* are changed until manifest *commit* is there.

    Raises:
        StorageError: it cannot be written.
    """
    document = {"schema": SCHEMA, "commit": commit, "before": dict(before)}
    folder.replace(PENDING, [json.dumps(document).encode(), b"\n"])


def began_empty(folder: LocalFolder) -> bool:
    """Whether a run is noted that found nothing here: without a manifest nothing is backed up.

    Raises:
        MalformedInput: the note cannot be read.
    """
    if folder.size(PENDING) is None:
        return False
    _, before = _read(folder)
    return all(size is None for size in before.values())


def forget(folder: LocalFolder) -> None:
    """Remove the note; one that a power cut brings back is older than the manifest, and harmless.

    Raises:
        StorageError: it cannot be removed.
    """
    if folder.size(PENDING) is not None:
        folder.remove(PENDING)


def take_back(folder: LocalFolder, committed: int) -> None:
    """Undo what a killed run changed, if manifest number *committed* is not yet its commit.

    Raises:
        MalformedInput: the note cannot be read.
        StorageError: a file cannot be cut or removed.
    """
    if folder.size(PENDING) is None:
        return
    commit, before = _read(folder)
    if commit > committed:
        for name, size in before.items():
            _restore(folder, name, size)
        folder.sync()
    forget(folder)


def _restore(folder: LocalFolder, name: str, size: int | None) -> None:
    now = folder.size(name)
    if now is None:
        return
    if size is None:
        folder.remove(name)
    elif now > size:
        file = folder.append(name, size)
        try:
            file.sync()
        finally:
            file.close()


def _read(folder: LocalFolder) -> tuple[int, Sizes]:
    where = folder.where(PENDING)
    content = read_whole(folder, PENDING, MOST_BYTES)
    try:
        found = json.loads(content)
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}")
        before = {str(name): size for name, size in found["before"].items()}
        if not all(size is None or _is_size(size) for size in before.values()):
            raise ValueError("a size is none")
        if any(segment_of(name) is None for name in before):
            raise ValueError("a name is none of a segment")
        return int(found["commit"]), before
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedInput(
            f"{where}: no note of a commit ({error}); move it away, then what a killed run left "
            "is taken up."
        ) from None


def _is_size(found: object) -> bool:
    return type(found) is int and 0 <= found <= MAX_INT64
