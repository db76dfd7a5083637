"""The cluster, Spark, settings, progress and report that every step of one backup shares."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from breakglass.services.errors import StorageError, UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import folder_name, generations
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import LocalStore, Store
from breakglass.services.topic_backup.summary import Gap, GapReason, Unproved, added

if TYPE_CHECKING:
    from pyspark import SparkContext

    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.pipeline.part_writer import Budget
    from breakglass.services.pipeline.session import Spark
    from breakglass.services.session import ReadAccess


class NewGeneration(StrEnum):
    """The folder that a new generation of a topic gets."""

    BESIDE = "beside"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """One folder of a topic."""

    topic: str
    number: int = 1
    others_aside: bool = False
    """The older generations were renamed: this folder has the name of the topic."""

    @property
    def name(self) -> str:
        return self.topic if self.others_aside else folder_name(self.topic, self.number)


def name_before(one: Generation) -> str | None:
    """The folder's name of the generation before *one*; None if it is the first."""
    if one.number == 1:
        return None
    before = one.number - 1
    return f"{one.topic}~{before}" if one.others_aside else folder_name(one.topic, before)


def latest(store: Store, topic: str) -> Generation:
    """The newest generation of *topic* in *store*; the first generation if *store* has none."""
    found = generations([*store.folders(), topic])
    numbers = [number for of, number in found.values() if of == topic]
    others_aside = found[topic][1] > 1
    return Generation(topic, max(numbers), others_aside)


def following(newest: Generation, wanted: NewGeneration | None) -> Generation:
    """The generation after *newest*, named as *wanted* says, by default like the earlier ones.

    Raises UsageError: older generations were renamed, and *wanted* asks for a folder beside them.
    """
    if newest.others_aside and wanted is NewGeneration.BESIDE:
        raise UsageError(
            f"Older generations of {newest.topic} were set aside in this backup: give "
            "--new-generation replace, or back up to another place."
        )
    others_aside = newest.others_aside or wanted is NewGeneration.REPLACE
    return Generation(newest.topic, newest.number + 1, others_aside)


def require_replaceable(store: Store, form: StoredForm | None) -> None:
    """Check that Kafka Backup can read the folders of *store*, and that they can be renamed.

    Raises UsageError: the folders are in an object store, compressed or encrypted.
    """
    if not isinstance(store, LocalStore) or (form is not None and form != StoredForm()):
        raise UsageError(
            "--new-generation replace is for backups that Kafka Backup can read: a folder, "
            "without --compress and --key."
        )


def set_aside(store: Store, newest: Generation) -> None:
    """Rename the folder with the name of the topic, for the generation after *newest*.

    Raises:
        AlreadyRunning: another process writes to the folder.
        UsageError, StorageError: it cannot be renamed.
    """
    require_replaceable(store, None)
    assert isinstance(store, LocalStore)
    own = replace(newest, number=newest.number if newest.others_aside else 1)
    folder = LocalFolder(store.path / own.topic)
    aside = store.path / f"{own.topic}~{own.number}"
    with folder.lock(), storage_errors(str(aside)):
        folder.path.rename(aside)


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a copy."""

    topic: str
    done: int
    """Offsets that were copied or accounted for, over all topics."""
    total: int
    bytes: int
    """The size of the records as written."""
    seconds: float


@dataclass(slots=True)
class PartitionReport:
    """One partition after its backup."""

    partition: TopicPartition
    start: int
    """The offset where this run started."""
    end: int
    """Every offset before it is backed up or a known gap."""
    records: int = 0
    bytes: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    """Offsets without a record, by reason."""
    lost: list[Gap] = field(default_factory=list)
    """Offsets that were removed before this run could copy them, as far as they are listed."""
    unproved: list[Unproved] = field(default_factory=list)
    """What may not be as it was in the topic."""
    compared: str = ""
    """The offsets of the folder that were compared with the topic before the copy."""
    held_back: int = 0
    """Offsets left out because they follow the start of an open transaction."""


@dataclass(slots=True)
class TopicReport:
    """One topic after its backup."""

    topic: str
    folder: str
    generation: int = 1
    others_aside: bool = False
    """Its folder has the name of the topic, although it is not the first generation."""
    new_generation: str = ""
    """Why this run started a new generation; empty if it did not."""
    partitions: list[PartitionReport] = field(default_factory=list)
    unread: Mapping[int, str] = field(default_factory=dict)
    """Partitions that could not be copied, with the reason."""
    partitions_before: int | None = None
    """How many partitions the topic had at the last commit; None if that is unknown."""
    groups_not_read: Sequence[str] = ()
    """Groups whose coordinator did not answer: their offsets are those of an earlier run."""
    error: str = ""
    """Why the topic was not backed up, or only partly."""
    other_log: bool = False
    """Whether the new generation is of another log than the older folder."""
    damages: list[str] = field(default_factory=list)
    """What is damaged in the backup, each in a sentence: the run went on behind it."""

    @property
    def place(self) -> Generation:
        return Generation(self.topic, self.generation, self.others_aside)

    @property
    def passed_over(self) -> bool:
        """Whether Kafka Backup ignores the folder: it reads only the one named as the topic."""
        return self.generation > 1 and not self.others_aside


@dataclass(slots=True)
class BackupReport:
    """A whole run."""

    topics: list[TopicReport] = field(default_factory=list)
    seconds: float = 0.0
    """Time from the first copy to the last manifest, without the start of Spark."""
    unread_groups: tuple[str, ...] = ()
    """Why offsets of some groups were not backed up."""
    away: bool = False

    @property
    def partitions(self) -> list[PartitionReport]:
        return [partition for topic in self.topics for partition in topic.partitions]

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    @property
    def missing(self) -> dict[str, int]:
        return added(*(partition.missing for partition in self.partitions))

    @property
    def whole(self) -> bool:
        """Whether every committed record and the offsets of every group are in the backup.

        Offsets without a record whose reason is unknown may have been records.
        """
        lacking = any(
            topic.error or topic.unread or topic.groups_not_read or topic.other_log or topic.damages
            for topic in self.topics
        )
        absent = {GapReason.LOST, GapReason.UNKNOWN}
        lost = any(part.lost or not absent.isdisjoint(part.missing) for part in self.partitions)
        doubted = any(part.unproved for part in self.partitions)
        return not (lacking or self.away or lost or doubted)


@contextmanager
def repeating(call: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call *call* every *seconds* seconds in a separate thread, until the block ends.

    A call that raises StorageError is skipped: files appear and vanish while a job runs.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            try:
                call()
            except StorageError:
                continue

    thread = threading.Thread(target=run, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


OFFSETS_A_JOB = 2_000_000
"""The maximum number of offsets of each partition in a job, which a killed run repeats."""

Tell = Callable[[CopyProgress], None]


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """The options of a backup."""

    store: Store
    max_segment_bytes: int = MAX_SEGMENT_BYTES
    offsets_a_job: int = OFFSETS_A_JOB
    form: StoredForm | None = None
    """The form of new topics; None keeps the form that each topic has."""
    bytes_per_second: float | None = None
    """The maximum rate of all tasks of a job together; None: unlimited."""
    new_generation: NewGeneration | None = None
    """The folder that a new generation of a topic gets; None: like the earlier generations."""
    records_crc: bool = False
    """Whether parts include the CRC of their records, which is used to compare copies."""


@dataclass(slots=True)
class Meter:
    """Counts the progress of a copy. Not safe for several threads at once."""

    tell: Tell
    total: int = 0
    _done: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)

    @property
    def seconds(self) -> float:
        """Seconds since the meter was made, without those taken off by `leave_out`."""
        return time.monotonic() - self._began

    def leave_out(self, seconds: float) -> None:
        """Take off *seconds* that were not spent on copying."""
        self._began += seconds

    def count(self, topic: str, offsets: int, size: int) -> None:
        """Count more offsets and bytes as done."""
        self._done += offsets
        self._bytes += size
        self.say(topic, 0)

    def say(self, topic: str, under_way: int) -> None:
        """Report the progress, including the *under_way* offsets that are not committed yet."""
        done = min(self._done + under_way, self.total)
        self.tell(CopyProgress(topic, done, self.total, self._bytes, self.seconds))


@dataclass(frozen=True, slots=True)
class BackupRun:
    """One running backup."""

    client: ReadClient
    spark: Spark
    access: ReadAccess
    """The connection with which tasks reach the brokers."""
    settings: BackupSettings
    meter: Meter
    budget: Budget | None = None
    """Shared by successive jobs that keep to one rate."""
    side_by_side: int | None = None
    """The number of runs that share the cores. None: no other run."""

    def cores(self) -> int:
        """The number of tasks of a job that run at a time."""
        cores = int(self.context().defaultParallelism)
        return max(1, cores // (self.side_by_side or 1))

    def context(self) -> SparkContext:
        """The context that runs jobs; the meter leaves out the wait for its start."""
        before = self.spark.seconds_waited
        context = self.spark.context()
        self.meter.leave_out(self.spark.seconds_waited - before)
        return context
