"""Backing up in tests, and reading back what is there by the format's own reader."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup import back_up
from breakglass.services.pipeline.backup_context import (
    BackupReport,
    BackupRun,
    BackupSettings,
    CopyProgress,
    Meter,
    Tell,
    TopicReport,
)
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.source import TopicSource, WantedTopics, read_sources
from breakglass.services.record_batches import Record
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.address import partition_of
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import listing, records_name
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.store.store import LocalStore, Store
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

SECONDS = DEADLINE_SECONDS


def unheard(_: CopyProgress) -> None:
    """Nobody listens."""


def once(action: Callable[[], None]) -> Tell:
    """Do *action* when the run first tells how far it is: before anything is copied."""
    waiting = [action]

    def tell(_: CopyProgress) -> None:
        if waiting:
            waiting.pop()()

    return tell


@dataclass(frozen=True, slots=True)
class BackUp:
    """Runs backups to one place."""

    client: ReadClient
    spark: Spark
    access: ReadAccess
    """How tasks reach the brokers."""
    root: Path
    elsewhere: Store | None = None
    """Instead of the folder *root*."""

    @property
    def store(self) -> Store:
        """The place."""
        return self.elsewhere or LocalStore(self.root)

    def __call__(self, *topics: str, tell: Tell = unheard, **settings: Any) -> BackupReport:
        how = BackupSettings(self.store, **settings)
        run = BackupRun(self.client, self.spark, self.access, how, Meter(tell))
        return back_up(run, WantedTopics(topics))

    def topic(self, topic: str, tell: Tell = unheard, **settings: Any) -> TopicReport:
        """Back up one topic, which must succeed."""
        (report,) = self(topic, tell=tell, **settings).topics
        assert report.error == "", report.error
        return report

    def await_decided(self, topic: str) -> None:
        """Wait until no transaction of the topic is open: commit markers come a little later."""

        def decided() -> bool:
            return not any(partition.held_back for partition in self.sources(topic).partitions)

        wait_until(decided, f"the transactions of {topic} to end")

    def sources(self, topic: str) -> TopicSource:
        """The topic as it is now."""
        (source,) = read_sources(self.client, WantedTopics((topic,)), Deadline.after(SECONDS))
        return source

    def folder(self, topic: str) -> LocalFolder:
        """The folder of a topic, or of a generation of it."""
        return LocalFolder(self.root / topic)

    def manifest(self, topic: str) -> TopicManifest:
        """The last commit, which must be there."""
        manifest = read_manifest(self.folder(topic))
        assert manifest is not None
        return manifest

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        """The records of the backup; nothing may have to be left out."""
        reader = partition_of(str(self.root / topic / str(partition)))
        records = list(reader.records())
        assert reader.left_out == []
        return records

    def bytes(self, topic: str, partition: int = 0) -> bytes:
        """The records files of a partition, one behind the other, without their magic bytes."""
        folder = self.folder(topic)
        held = listing(folder.names())[partition].segments
        names = [records_name(segment.prefix) for segment in held]
        return b"".join((folder.path / name).read_bytes()[1:] for name in names)


@contextmanager
def backing_up(access: ReadAccess, spark: Spark, root: Path) -> Iterator[BackUp]:
    """Backs up by *access* into the folder *root*."""
    with access.reading() as client:
        yield BackUp(client, spark, access, root)
