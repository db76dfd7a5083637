"""The files of a copy: a topic backup as far as the cut, one of what was in transit, saved states.

::

    segments/TOPIC/...    the partition as far as the cut
    channel/TOPIC/...     records behind it that nobody sends again
    snapshot/states.json  what each group's owner of the partition had saved at the cut
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping

from breakglass.services.checkpoint.spark.records_digest import records_digest
from breakglass.services.checkpoint.store.documents import ManifestDocument, StoredFile
from breakglass.services.checkpoint.store.files import blobs_at, stored_file
from breakglass.services.errors import MalformedInput, StorageError
from breakglass.services.topic_backup.folder import Folder, read_bounded
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.store.blobs import Blobs
from breakglass.services.topic_backup.store.store import Store, open_store
from breakglass.services.topic_backup.summary import PartitionSummary

SEGMENTS, CHANNEL = "segments", "channel"
STATES = "snapshot/states.json"
MOST_STATES = 1024 * 1024 * 1024


def segments_store(where: str) -> Store:
    """Where the topic backup lies that ends with the cut."""
    return open_store(f"{where}/{SEGMENTS}")


def channel_store(where: str) -> Store:
    """Where that of the records in transit lies."""
    return open_store(f"{where}/{CHANNEL}")


def manifest_of(
    where: str,
    topic: str,
    number: int,
    position: int,
    *,
    start: int,
    cluster_id: str | None,
    incarnation: str | None,
    tool_version: str,
    states: Mapping[str, bytes],
    parts: Iterable[SegmentPart],
) -> ManifestDocument:
    """What lies below *where*; segments by the hashes that were taken while they were written.

    *parts* are the records as far as the cut, in order.

    Raises:
        StorageError: a file cannot be read.
    """
    held = blobs_at(where)
    if states:
        _write_states(held, states)
    folder = segments_store(where).folder(topic)
    summary = summary_of(folder, number)
    known = {
        (name := f"{SEGMENTS}/{topic}/{records_name(one.prefix)}"): StoredFile(
            name, one.records_bytes, one.sha256
        )
        for one in summary.segments
    }
    return ManifestDocument(
        created_at_ms=0,
        completed_at_ms=0,
        position=position,
        start=start,
        records=sum(one.count for one in summary.segments),
        records_digest=records_digest(parts),
        files=tuple(
            known[name] if name in known else stored_file(held, name)
            for name in sorted(held.names())
            if not _hidden(name)
        ),
        snapshot=STATES if states else None,
        cluster_id=cluster_id,
        incarnation=incarnation,
        tool_version=tool_version,
    )


def summary_of(folder: Folder, number: int) -> PartitionSummary:
    """What a copy holds of its partition.

    Raises:
        StorageError: it holds nothing, which is never so of one that was committed.
    """
    manifest = read_manifest(folder)
    found = None if manifest is None else manifest.partition(number)
    if found is None:
        raise StorageError(f"{folder.where()} holds nothing of partition {number}: copy it again.")
    return found


def read_states(where: str) -> dict[str, bytes]:
    """What each group's owner had saved; nothing where none saves anything.

    Raises:
        MalformedInput: the file is none of ours.
    """
    held = blobs_at(where)
    if held.size(STATES) is None:
        return {}
    with held.open(STATES) as file:
        content = read_bounded(file, held.where(STATES), MOST_STATES)
    try:
        return {
            str(group): base64.b64decode(state, validate=True)
            for group, state in json.loads(content).items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise MalformedInput(
            f"{held.where(STATES)}: no saved states ({error}); take the file from another copy."
        ) from None


def _write_states(held: Blobs, states: Mapping[str, bytes]) -> None:
    texts = {group: base64.b64encode(one).decode() for group, one in sorted(states.items())}
    held.create(STATES, json.dumps(texts).encode())


def _hidden(name: str) -> bool:
    """Whether it is a lock, or what a killed writer left."""
    return any(part.startswith(".") for part in name.split("/"))
