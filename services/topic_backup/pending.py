"""Notes the files that a commit will change, so that a killed run can be undone.

The next run must not reuse files that were renamed but not committed: by then the topic may have
been recreated or its log truncated, so those files would belong to another log. Only a noted run
is undone; what Kafka Backup's connectors wrote after our last commit stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from breakglass.services.errors import MalformedInput
from breakglass.services.topic_backup.folder import LocalFolder, read_whole, write_at
from breakglass.services.topic_backup.layout import MAX_INT64, segment_of

PENDING = "breakglass_pending.json"
SCHEMA = 1
MOST_BYTES = 256 * 1024 * 1024

Sizes = Mapping[str, int | None]
"""The size of each file before the change, by name; None: the file did not exist."""


def note(folder: LocalFolder, commit: int, before: Sizes) -> None:
    """Durably note that the files *before* change until manifest *commit* exists.

    Raises:
        StorageError: the note cannot be written.
    """
    document = {"schema": SCHEMA, "commit": commit, "before": dict(before)}
    folder.replace(PENDING, [json.dumps(document).encode(), b"\n"])


def began_empty(folder: LocalFolder) -> bool:
    """Whether a noted run found an empty folder: without a manifest, nothing is backed up.

    Raises:
        MalformedInput: the note cannot be read.
    """
    if folder.size(PENDING) is None:
        return False
    _, before = _read(folder)
    return all(size is None for size in before.values())


def forget(folder: LocalFolder) -> None:
    """Remove the note; if a power cut restores it, it is older than the manifest and harmless.

    Raises:
        StorageError: the note cannot be removed.
    """
    if folder.size(PENDING) is not None:
        folder.remove(PENDING)


def take_back(folder: LocalFolder, committed: int) -> None:
    """Undo what a killed run changed, unless manifest number *committed* is its commit.

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
        write_at(folder, name, size)


def _read(folder: LocalFolder) -> tuple[int, Sizes]:
    where = folder.where(PENDING)
    content = read_whole(folder, PENDING, MOST_BYTES)
    try:
        found = json.loads(content)
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}")
        before = {str(name): size for name, size in found["before"].items()}
        if not all(
            size is None or (type(size) is int and 0 <= size <= MAX_INT64)
            for size in before.values()
        ):
            raise ValueError("a size is none")
        if any(segment_of(name) is None for name in before):
            raise ValueError("a name is none of a segment")
        return int(found["commit"]), before
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedInput(
            f"{where}: no note of a commit ({error}); move it away, then what a killed run left "
            "is taken up."
        ) from None
