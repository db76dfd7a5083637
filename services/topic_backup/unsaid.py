"""Notes what a run has committed and not yet said, so that a kill hides no loss.

A run says at its end what it found lost. What is lost stands in the manifest from its commit on,
where no later run finds it again: the note, written before that commit, is what the next run says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from breakglass.services.errors import MalformedInput
from breakglass.services.topic_backup.folder import Folder, read_whole
from breakglass.services.topic_backup.manifest import TopicManifest
from breakglass.services.topic_backup.summary import Gap, Unproved

NAME = "breakglass_unsaid.json"
MOST_BYTES = 256 * 1024 * 1024


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
        ends = (
            {part.partition: part.next_offset or 0 for part in manifest.partitions}
            if manifest
            else {}
        )
        lost = {
            number: [gap for gap in gaps if gap.end <= ends.get(number, 0)]
            for number, gaps in self.lost.items()
        }
        doubts = {
            number: [one for one in some if one.end <= ends.get(number, 0)]
            for number, some in self.unproved.items()
        }
        return Unsaid(lost, doubts, self.new_generation, self.other_log)


def note(folder: Folder, unsaid: Unsaid) -> None:
    """Write *unsaid*, durably, in place of an older note.

    Raises:
        StorageError: the note cannot be written.
    """
    folder.replace(NAME, [json.dumps(asdict(unsaid)).encode(), b"\n"])


def read(folder: Folder) -> Unsaid:
    """What the last run left unsaid; nothing if it has said all.

    Raises:
        MalformedInput: the file is no such note.
    """
    if folder.size(NAME) is None:
        return Unsaid()
    from pydantic import TypeAdapter, ValidationError

    content = read_whole(folder, NAME, MOST_BYTES)
    try:
        return TypeAdapter(Unsaid).validate_json(content)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise MalformedInput(
            f"{folder.where(NAME)}: no note of what a run has to tell ({reason}); remove it, then "
            "see `backup list` for what is lost."
        ) from None


def forget(folder: Folder) -> None:
    """Remove the note, once all of it is said.

    Raises:
        StorageError: the note cannot be removed.
    """
    if folder.size(NAME) is not None:
        folder.remove(NAME)
