"""What a restore keeps of itself while it runs, so that it can be gone on with.

It is written before anything is changed, so that whatever is killed the settings that the topic
is to have in the end are known.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from services.errors import MalformedInput
from services.pipeline.restore.task import Spans
from services.regular_file import read_regular
from services.rights import make_folders, open_new
from services.topic_backup.folder import storage_errors

FILE = "restore.json"
LOGS = "partition-*.jsonl"

MOST_BYTES = 1024 * 1024 * 1024
"""No such file is larger."""


@dataclass(frozen=True, slots=True)
class RestoreState:
    """One topic's restore."""

    restore_id: str
    target: str
    source: str
    """Folder of the topic's backup."""
    folder: str
    """Where this file and the logs lie: reachable for every worker of Spark."""
    settings: Mapping[str, str]
    """Of its own, which the topic has in the end."""
    spans: Mapping[int, Spans]
    """Stored offsets that are restored, by partition."""
    transactional: bool
    alone: bool = True
    """Nobody else had records in the topic."""
    topic_id: str | None = None
    """None: it was to be created, and may or may not be there."""
    proven: bool = False
    """The records need no second look, and may expire from now on: settings come back."""
    verified: bool | None = None
    """What comparing them came to; None: it was left out."""
    ended: bool = False
    """Nothing is left to be done."""
    failed: str = ""
    """Why the topic can never be whole: it is to be deleted, and restored anew."""

    def log_of(self, partition: int) -> Path:
        """The file with what was committed of one partition."""
        return Path(self.folder) / f"partition-{partition}.jsonl"

    def begin(self) -> Self:
        """Put it in the place of an older one, whose logs are removed.

        Raises:
            StorageError: it cannot be written.
        """
        folder = Path(self.folder)
        with storage_errors(self.folder):
            make_folders(folder)
            (folder / FILE).unlink(missing_ok=True)
            for old in folder.glob(LOGS):
                old.unlink()
        return self.keep()

    def bound(self, topic_id: object) -> Self:
        """Keep the id of the topic that it restores into."""
        return replace(self, topic_id=str(topic_id)).keep()

    def proved(self, *, verified: bool | None) -> Self:
        """Keep that the records need no second look: from now on they may expire."""
        return replace(self, proven=True, verified=verified).keep()

    def done(self) -> Self:
        """Keep that nothing is left to be done. The map of offsets stays."""
        return replace(self, ended=True).keep()

    def failing(self, reason: str) -> Self:
        """Keep that the topic can never be whole, and why."""
        return replace(self, failed=reason).keep()

    def keep(self) -> Self:
        """Write it, durably and at once."""
        path = Path(self.folder) / FILE
        partial = path.with_suffix(".partial")
        with (
            storage_errors(str(path)),
            open(partial, "w", encoding="utf-8", opener=open_new) as file,
        ):
            json.dump(asdict(self), file)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        return self


def new_restore_id() -> str:
    """Names the transactions and the group of one restore."""
    return secrets.token_hex(8)


def read_state(folder: Path) -> RestoreState | None:
    """The state in *folder*; None where none was begun.

    Raises:
        MalformedInput: the file is no state.
    """
    path = folder / FILE
    with storage_errors(str(path)):
        try:
            text = read_regular(path, MOST_BYTES).decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        found = RestoreState(**json.loads(text))
        spans = {
            int(number): tuple((int(start), int(end)) for start, end in held)
            for number, held in found.spans.items()
        }
        return replace(found, spans=spans, settings=dict(found.settings))
    except (ValueError, TypeError, AttributeError) as error:
        raise MalformedInput(
            f"{path}: no state of a restore ({error}); move it away to start over."
        ) from None
