"""What a restore keeps of itself while it runs, so that it can be gone on with.

It is written before anything is changed, so that whatever is killed the settings that the topic
is to have in the end are known.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from services.errors import MalformedInput, Refused, UsageError
from services.pipeline.restore.options import RestoreOptions
from services.pipeline.restore.planned import PartitionPlan, partition_plan
from services.pipeline.restore.task import Spans
from services.pipeline.source import TopicSource
from services.pipeline.stored_segments import stored_segments
from services.regular_file import read_regular
from services.rights import make_folders, open_new
from services.topic_backup.catalog import HeldTopic
from services.topic_backup.folder import storage_errors
from services.topic_backup.held import RestorableTopic
from services.topic_backup.store.store import LocalStore

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
            f"{path}: no state of a restore ({error}); move it away to begin anew."
        ) from None


def begun_restore(
    folder: Path, one: HeldTopic, target: str, now: TopicSource | None, options: RestoreOptions
) -> RestoreState | None:
    """The restore into *target* that was begun and not ended.

    Raises:
        UsageError: it is to be gone on with, and cannot be.
        Refused: another one is to be begun beside it, or it has failed for good.
    """
    state = read_state(folder)
    topic_id = None if now is None else str(now.identity.topic_id)
    require_hopeful(state, topic_id)
    if state is not None and state.ended:
        state = None
    if options.resume:
        return _resumable(state, one, target, topic_id, folder)
    if state is None or topic_id is None or state.topic_id not in (None, topic_id):
        return None
    if state.topic_id is not None:
        raise Refused(
            f"a restore into {target} was begun and has not ended: go on with --resume; or delete "
            "the topic to begin anew"
        )
    return state


def require_hopeful(state: RestoreState | None, topic_id: str | None) -> None:
    """Return unless *state* is of the topic with that id, and that can never be whole.

    Raises:
        Refused: it is.
    """
    if state is not None and state.failed and topic_id is not None and state.topic_id == topic_id:
        raise Refused(f"the restore into {state.target} has failed: {state.failed}")


def _resumable(
    state: RestoreState | None, one: HeldTopic, target: str, topic_id: str | None, folder: Path
) -> RestoreState:
    if state is None:
        raise UsageError(
            f"no restore into {target} was begun and not ended, by {folder}: start without --resume"
        )
    if state.source != source_of(one):
        raise UsageError(
            f"the restore into {target} that was begun is of {state.source}: name that one"
        )
    if state.topic_id not in (None, topic_id):
        raise UsageError(
            f"topic {target} was deleted since its restore began: start without --resume"
        )
    return state


def as_begun(
    held: RestorableTopic, begun: RestoreState, planned: Sequence[PartitionPlan]
) -> tuple[PartitionPlan, ...]:
    """The partitions as they were planned when the restore was begun, whatever came since.

    Raises:
        UsageError: fewer are named by now, or an earlier end.
    """
    now = {one.partition: one for one in planned}
    for number, spans in begun.spans.items():
        end = spans[-1][1] if spans else 0
        if number not in now or now[number].end < end:
            raise UsageError(
                f"the restore that was begun goes to offset {end} of partition {number}: go on "
                "with the --partitions and --until options that it was begun with"
            )
    parts = {one.partition: one for one in held.partitions}
    return tuple(
        partition_plan(number, stored_segments(held.folder, parts[number].segments), spans)
        for number, spans in begun.spans.items()
    )


def source_of(one: HeldTopic) -> str:
    """The address of its folder, wherever this is run next time."""
    return str(Path(one.where).absolute()) if isinstance(one.store, LocalStore) else one.where
