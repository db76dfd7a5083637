"""The state file of a restore, from which it can be resumed.

The restore writes the file before it changes anything, so that the final settings of the topic are
known after any kill.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from breakglass.services.errors import MalformedInput, Refused, UsageError
from breakglass.services.pipeline.restore.options import (
    PartitionPlan,
    RestoreOptions,
    partition_plan,
)
from breakglass.services.pipeline.restore.task import Spans
from breakglass.services.pipeline.source import TopicSource
from breakglass.services.pipeline.stored_segments import stored_segments
from breakglass.services.regular_file import read_regular
from breakglass.services.rights import make_folders, open_new
from breakglass.services.topic_backup.catalog import HeldTopic
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.folder_contents import RestorableTopic
from breakglass.services.topic_backup.store.store import LocalStore

FILE = "restore.json"
LOGS = "partition-*.jsonl"

MOST_BYTES = 1024 * 1024 * 1024
"""The maximum size of the file."""


@dataclass(frozen=True, slots=True)
class RestoreState:
    """The state of the restore of one topic."""

    restore_id: str
    target: str
    source: str
    folder: str
    """The folder of this file and the logs; every worker of Spark must reach it."""
    settings: Mapping[str, str]
    spans: Mapping[int, Spans]
    """The stored offsets to restore, by partition."""
    transactional: bool
    alone: bool = True
    """Whether the restore is the only writer of the topic."""
    topic_id: str | None = None
    """None: the topic was about to be created, and may or may not exist."""
    proven: bool = False
    """The records are proved, so they may expire and the settings can be restored."""
    verified: bool | None = None
    """The result of the comparison; None: not compared."""
    ended: bool = False
    failed: str = ""
    """Why the topic cannot be completed: it must be deleted and restored again."""

    def log_of(self, partition: int) -> Path:
        return Path(self.folder) / f"partition-{partition}.jsonl"

    def begin(self) -> Self:
        """Write the state in place of an older one, whose logs are removed.

        Raises StorageError: the file cannot be written.
        """
        folder = Path(self.folder)
        with storage_errors(self.folder):
            make_folders(folder)
            (folder / FILE).unlink(missing_ok=True)
            for old in folder.glob(LOGS):
                old.unlink()
        return self.keep()

    def bound(self, topic_id: object) -> Self:
        return replace(self, topic_id=str(topic_id)).keep()

    def proved(self, *, verified: bool | None) -> Self:
        """Store that the records are proved: from now on they may expire."""
        return replace(self, proven=True, verified=verified).keep()

    def done(self) -> Self:
        """Store that the restore is complete. The map of offsets stays."""
        return replace(self, ended=True).keep()

    def failing(self, reason: str) -> Self:
        """Store that the topic cannot be completed, and why."""
        return replace(self, failed=reason).keep()

    def keep(self) -> Self:
        """Write the state, durably and atomically."""
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
    """A random id, which names the transactions and the group of one restore."""
    return secrets.token_hex(8)


def read_state(folder: Path) -> RestoreState | None:
    """The state in *folder*; None if there is none.

    Raises MalformedInput: the file is not a state.
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
            int(number): tuple((int(start), int(end)) for start, end in spans)
            for number, spans in found.spans.items()
        }
        return replace(found, spans=spans, settings=dict(found.settings))
    except (ValueError, TypeError, AttributeError) as error:
        raise MalformedInput(
            f"{path} is not the state of a restore ({error}): move it away to start again."
        ) from None


def own_settings(root: Path, now: TopicSource) -> dict[str, str]:
    """The settings that the topic *now* has of its own; *root* has the states of all restores.

    A restore gives a topic others until its records are proved. If one is unfinished, the settings
    are those that it is to give back.
    """
    for _, state in unfinished_into(root, now):
        return dict(state.settings)
    return dict(now.identity.config)


def unfinished_into(root: Path, now: TopicSource) -> Iterator[tuple[Path, RestoreState]]:
    """The unfinished restores into the topic *now*, with their folders below *root*."""
    name = now.name
    # Of a restore, of put-backs, of checkpoints: a root has a folder for each topic ever restored.
    places = (name, f"{name}~tail-*", f"checkpoint-*/{name}")
    for path in sorted(path for place in places for path in root.glob(f"{place}/{FILE}")):
        state = read_state(path.parent)
        if (
            state is not None
            and not state.ended
            and (state.target, state.topic_id) == (name, str(now.identity.topic_id))
        ):
            yield path.parent, state


def require_alone(root: Path, now: TopicSource, own: Collection[Path]) -> None:
    """Check that no restore into the topic *now* but those in the folders *own* is unfinished.

    Raises Refused: another is, and its resume would write again what this one writes.
    """
    for folder, state in unfinished_into(root, now):
        if folder not in own and not state.failed:
            raise Refused(
                f"a restore into {now.name} from {state.source} is unfinished, and would write "
                "again what this one writes: while its process runs, wait for it (`breakglass "
                "journal list`); else run that one again with --resume first"
            )


def begun_restore(
    folder: Path, topic: HeldTopic, target: str, now: TopicSource | None, options: RestoreOptions
) -> RestoreState | None:
    """The unfinished restore into *target*, if any.

    Raises:
        UsageError: it should be resumed, and cannot be.
        Refused: another restore should start beside it, or it cannot be completed.
    """
    state = read_state(folder)
    topic_id = None if now is None else str(now.identity.topic_id)
    require_hopeful(state, topic_id)
    if now is not None:
        require_alone(folder.parent, now, [folder])
    if state is not None and state.ended:
        state = None
    if options.resume and now is not None and is_complete(folder, now):
        raise UsageError(
            f"the restore into {target} is complete, so nothing is left to resume: "
            "`breakglass backup verify` compares it again"
        )
    if options.resume:
        if state is None:
            raise UsageError(
                f"{folder} has no unfinished restore into {target}: start without --resume"
            )
        if state.source != source_of(topic):
            raise UsageError(
                f"the unfinished restore into {target} is from {state.source}: name that backup"
            )
        if state.topic_id not in (None, topic_id):
            raise UsageError(
                f"topic {target} was deleted after its restore started: start without --resume"
            )
        return state
    if state is None or topic_id is None or state.topic_id not in (None, topic_id):
        return None
    if state.topic_id is not None:
        raise Refused(
            f"a restore into {target} is unfinished: while its process runs, wait for it "
            "(`breakglass journal list`); else run again with --resume, or delete the topic to "
            "start again"
        )
    return state


def is_complete(folder: Path, now: TopicSource) -> bool:
    """Whether a restore into the topic *now* has ended, with every step done.

    Raises: as `read_state`.
    """
    state = read_state(folder)
    return state is not None and state.ended and state.topic_id == str(now.identity.topic_id)


def require_hopeful(state: RestoreState | None, topic_id: str | None) -> None:
    """Check that *state* does not say that the topic with that id cannot be completed.

    Raises Refused: it does.
    """
    if state is not None and state.failed and topic_id is not None and state.topic_id == topic_id:
        raise Refused(f"the restore into {state.target} has failed: {state.failed}")


def as_begun(
    held: RestorableTopic, begun: RestoreState, planned: Sequence[PartitionPlan]
) -> tuple[PartitionPlan, ...]:
    """The partitions as planned when the restore started, without later changes.

    Raises UsageError: fewer partitions or an earlier end are requested now.
    """
    now = {plan.partition: plan for plan in planned}
    for number, spans in begun.spans.items():
        end = spans[-1][1] if spans else 0
        if number not in now or now[number].end < end:
            raise UsageError(
                f"the unfinished restore goes to offset {end} of partition {number}: resume it "
                "with the --partitions and --until options that it was started with"
            )
    parts = {partition.partition: partition for partition in held.partitions}
    return tuple(
        partition_plan(number, stored_segments(held.folder, parts[number].segments), spans)
        for number, spans in begun.spans.items()
    )


def source_of(topic: HeldTopic) -> str:
    """The address of its folder, valid from any working directory."""
    return str(Path(topic.where).absolute()) if isinstance(topic.store, LocalStore) else topic.where
