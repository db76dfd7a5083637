"""Backups made for a test, and what a test does to them."""

from collections.abc import Iterable
from pathlib import Path

from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import (
    MANIFEST,
    records_name,
    segment_index_name,
    segment_prefix,
)
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest, read_manifest
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.summary import PartitionSummary
from breakglass.services.topic_backup.topic_writer import TopicWriter

ORDERS = TopicIdentity("orders")
FIRST = segment_prefix(0, 0)
RECORDS = records_name(FIRST)
INDEX = segment_index_name(FIRST)


def back_up(
    root: Path,
    records: Iterable[Record],
    *,
    max_segment_bytes: int = 2**30,
    identity: TopicIdentity = ORDERS,
) -> Path:
    """Commit *records* as partition 0 of orders; returns the topic's folder."""
    with TopicWriter(root, identity, max_segment_bytes=max_segment_bytes) as writer:
        partition = writer.partition(0)
        for record in records:
            partition.append(record)
        writer.commit()
    return root / identity.topic


def as_the_originals(topic: Path) -> Path:
    """Make the backup one of the original's, which has no manifest."""
    (topic / MANIFEST).unlink()
    return topic


def manifest_of(topic: Path) -> TopicManifest:
    """The last commit."""
    manifest = read_manifest(LocalFolder(topic))
    assert manifest is not None
    return manifest


def committed(topic: Path) -> PartitionSummary | None:
    """What the manifest says of partition 0; None without a manifest."""
    manifest = read_manifest(LocalFolder(topic))
    return manifest.partition(0) if manifest else None


def reading(topic: Path) -> PartitionReader:
    """A reader of partition 0."""
    return PartitionReader(LocalFolder(topic), 0, committed(topic))


def read(topic: Path) -> list[Record]:
    """Every record of partition 0."""
    return list(reading(topic).records())


def offsets(folder: LocalFolder, number: int = 0) -> list[int]:
    """The offsets of the records of a partition, as they were committed."""
    manifest = read_manifest(folder)
    held = manifest.partition(number) if manifest else None
    return [record.offset for record in PartitionReader(folder, number, held).records()]


def segments(topic: Path) -> list[str]:
    """The segments there are, by prefix."""
    names = sorted(path.name for path in topic.glob("segment_*_records"))
    return [name.removesuffix("_records") for name in names]


def append_to(path: Path, content: bytes) -> None:
    """Put *content* behind a file's end."""
    with path.open("ab") as file:
        file.write(content)


def overwrite(path: Path, at: int, content: bytes) -> None:
    """Put *content* over a file's bytes from *at* on."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def cut_to(path: Path, size: int) -> None:
    """Leave the first *size* bytes of a file."""
    with path.open("r+b") as file:
        file.truncate(size)
