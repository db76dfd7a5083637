"""The cluster, Spark, settings and progress that every step of one backup shares."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from breakglass.services.errors import StorageError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.pipeline.part_writer import Budget
from breakglass.services.pipeline.report import CopyProgress, NewGeneration
from breakglass.services.pipeline.session import Spark
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import Store

if TYPE_CHECKING:
    from pyspark import SparkContext

    from breakglass.services.session import ReadAccess


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
