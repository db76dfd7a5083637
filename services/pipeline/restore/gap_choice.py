"""What a backup cannot give back: refused, unless each stretch of offsets is named."""

from __future__ import annotations

from collections.abc import Sequence

from services.errors import Refused
from services.pipeline.restore.options import RestoreOptions
from services.topic_backup.held import RestorableTopic
from services.topic_backup.summary import PartitionSummary
from services.topic_backup.verification import has_lost_manifest

MOST_NAMED = 20


def require_manifest(held: RestorableTopic) -> None:
    """Return unless the manifest of *held* is gone.

    Raises:
        Refused: side files tell that there was one.
    """
    if held.manifest is None and has_lost_manifest(held.folder.names()):
        where = held.folder.where()
        raise Refused(
            f"the manifest of {where} is gone, so what it should hold is not known: take it from "
            f"another copy, or write what can be proved with `breakglass backup reindex {where} "
            "--to DIR` and restore that"
        )


def accepted_gaps(
    held: RestorableTopic, topic: str, chosen: Sequence[PartitionSummary], options: RestoreOptions
) -> tuple[str, ...]:
    """The offsets that the restore of *chosen* leaves out, all of them accepted.

    Raises:
        Refused: one was not named; the message names them all.
    """
    numbers = {part.partition for part in chosen}
    lost = [one for one in held.lost if one.partition in numbers and one.what.offsets]
    phrases = tuple(dict.fromkeys(one.phrase(topic) for one in lost))
    agreed = {" ".join(one.split()) for one in options.accepted_gaps}
    missing = [one for one in phrases if one not in agreed]
    if not missing:
        return phrases
    why = {one.phrase(topic): f"{one.what.file}: {one.what.reason}" for one in lost}
    told = "; ".join(f"{one} ({why[one]})" for one in missing[:MOST_NAMED])
    options_to_add = " ".join(f'--accept-gaps "{one}"' for one in missing)
    raise Refused(
        f"the backup of {topic} is damaged and cannot give back {told}: bring the files back from "
        f"another copy, or restore the rest with {options_to_add}"
    )
