"""Small files beside a backup: what a run will change, what it has not said yet, what was verified.

`breakglass_pending.json` notes the files that a commit will change, so that a killed run can be
undone. The next run must not reuse files that were renamed but not committed: by then the topic may
have been recreated or its log truncated, so those files would belong to another log. Only a noted
run is undone; what Kafka Backup's connectors wrote after our last commit stays.

`breakglass_unsaid.json` notes what a run has committed and not yet said. What is lost stands in the
manifest from its commit on, where no later run finds it again: the note, written before that
commit, is what the next run says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput
from breakglass.services.topic_backup.folder import Folder, LocalFolder, read_whole, write_at
from breakglass.services.topic_backup.layout import MAX_INT64, segment_of
from breakglass.services.topic_backup.manifest import TopicManifest
from breakglass.services.topic_backup.summary import Gap, Unproved

PENDING = "breakglass_pending.json"
UNSAID = "breakglass_unsaid.json"
VERIFIED = "breakglass_verified.json"
PENDING_SCHEMA = 1
MOST_BYTES = 256 * 1024 * 1024

Sizes = Mapping[str, int | None]
"""The size of each file before the change, by name; None: the file did not exist."""


def _write(folder: Folder, name: str, document: object) -> None:
    """Write the note *name* durably, in place of an older one. Raises StorageError."""
    folder.replace(name, [json.dumps(document).encode(), b"\n"])


def forget(folder: Folder, name: str) -> None:
    """Remove the note *name*, if there is one.

    A note of a commit that a power cut brings back is older than the manifest, and harmless.

    Raises StorageError: the note cannot be removed.
    """
    if folder.size(name) is not None:
        folder.remove(name)


def note_pending(folder: LocalFolder, commit: int, before: Sizes) -> None:
    """Note that the files *before* change until manifest *commit* exists. Raises StorageError."""
    _write(folder, PENDING, {"schema": PENDING_SCHEMA, "commit": commit, "before": dict(before)})


def began_empty(folder: LocalFolder) -> bool:
    """Whether a noted run found an empty folder: without a manifest, nothing is backed up.

    Raises MalformedInput: the note cannot be read.
    """
    if folder.size(PENDING) is None:
        return False
    return all(size is None for size in _read_pending(folder)[1].values())


def take_back(folder: LocalFolder, committed: int) -> None:
    """Undo what a killed run changed, unless manifest number *committed* is its commit.

    Raises:
        MalformedInput: the note cannot be read.
        StorageError: a file cannot be cut or removed.
    """
    if folder.size(PENDING) is None:
        return
    commit, before = _read_pending(folder)
    if commit > committed:
        for name, size in before.items():
            now = folder.size(name)
            if now is not None and size is None:
                folder.remove(name)
            elif now is not None and size is not None and now > size:
                write_at(folder, name, size)
        folder.sync()
    forget(folder, PENDING)


def _read_pending(folder: LocalFolder) -> tuple[int, Sizes]:
    where = folder.where(PENDING)
    content = read_whole(folder, PENDING, MOST_BYTES)
    try:
        found: Any = json.loads(content)
        if found["schema"] != PENDING_SCHEMA:
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


@dataclass(frozen=True, slots=True)
class Unsaid:
    """What a run has to say of one topic."""

    lost: Mapping[int, Sequence[Gap]] = field(default_factory=dict)
    """Offsets that were removed before they were copied, by partition."""
    unproved: Mapping[int, Sequence[Unproved]] = field(default_factory=dict)
    new_generation: str = ""
    """Why it began a new generation."""
    other_log: bool = False
    """Whether the new generation is of another log."""

    def __bool__(self) -> bool:
        return any((*self.lost.values(), *self.unproved.values(), self.new_generation))

    def committed(self, manifest: TopicManifest | None) -> Unsaid:
        """What of it *manifest* has; the next run finds the rest again."""
        parts = manifest.partitions if manifest else ()
        ends = {part.partition: part.next_offset or 0 for part in parts}
        lost = {
            number: [gap for gap in gaps if gap.end <= ends.get(number, 0)]
            for number, gaps in self.lost.items()
        }
        doubts = {
            number: [one for one in some if one.end <= ends.get(number, 0)]
            for number, some in self.unproved.items()
        }
        return Unsaid(lost, doubts, self.new_generation, self.other_log)


def note_unsaid(folder: Folder, unsaid: Unsaid) -> None:
    """Note *unsaid*. Raises StorageError."""
    _write(folder, UNSAID, asdict(unsaid))


def read_unsaid(folder: Folder) -> Unsaid:
    """What the last run left unsaid; nothing if it has said all.

    Raises MalformedInput: the file is no such note.
    """
    if folder.size(UNSAID) is None:
        return Unsaid()
    from pydantic import TypeAdapter, ValidationError

    content = read_whole(folder, UNSAID, MOST_BYTES)
    try:
        return TypeAdapter(Unsaid).validate_json(content)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise MalformedInput(
            f"{folder.where(UNSAID)}: no note of what a run has to tell ({reason}); remove it, "
            "then see `backup list` for what is lost."
        ) from None


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


def _state_of(folder: Folder) -> str:
    if not isinstance(folder, LocalFolder):
        return ""
    digest = sha256()
    for name in sorted(name for name in folder.names() if segment_of(name)):
        digest.update(f"{name} {folder.state(name)}\n".encode())
    return digest.hexdigest()


def verified_commit(folder: Folder) -> int:
    """The commit that was verified last; 0 if none was, or if the file cannot be read."""
    try:
        last = read_verified(folder)
    except MalformedInput:
        return 0
    return last.commit if last is not None and isinstance(last.commit, int) else 0


def changed_since(folder: Folder, last: Verified) -> bool:
    """Whether a segment file changed since *last*."""
    return bool(last.state) and last.state != _state_of(folder)


def note_verified(
    folder: Folder, commit: int, how: str, against: str | None, *, whole: bool
) -> Verified:
    """Note that the backup in *folder* was verified now; not if a later commit was before.

    Raises StorageError: the folder cannot be written.
    """
    last = read_verified(folder) if verified_commit(folder) > commit else None
    if last is not None:
        # The manifest is older than the one that was verified: the file is what shows that.
        return last
    verified = Verified(now_ms(), commit, how, against, whole, _state_of(folder))
    _write(folder, VERIFIED, asdict(verified))
    return verified


def read_verified(folder: Folder) -> Verified | None:
    """The last verification; None if there was none.

    Raises MalformedInput: the file is not a verification.
    """
    if folder.size(VERIFIED) is None:
        return None
    content = read_whole(folder, VERIFIED, 1024 * 1024)
    try:
        return Verified(**json.loads(content))
    except (ValueError, TypeError) as error:
        raise MalformedInput(
            f"{folder.where(VERIFIED)}: no verification ({error}); remove it and verify again."
        ) from None
