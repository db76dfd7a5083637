"""Calling something again and again while other work blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from services.errors import StorageError
from services.kafka.read_client import ReadClient
from services.pipeline.generations import NewGeneration
from services.pipeline.pace import Budget
from services.pipeline.report import CopyProgress
from services.pipeline.session import Spark
from services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
from services.topic_backup.store.form import StoredForm
from services.topic_backup.store.store import Store

if TYPE_CHECKING:
    from pyspark import SparkContext

    from services.session import ReadAccess


@contextmanager
def repeating(call: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call *call* every so many *seconds* in a thread of its own, until the block ends.

    A StorageError of one call only leaves that one out: files come and go meanwhile.
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
"""Of each partition: a run that is killed repeats at most so much."""

Tell = Callable[[CopyProgress], None]


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """How a backup is made."""

    store: Store
    max_segment_bytes: int = MAX_SEGMENT_BYTES
    offsets_a_job: int = OFFSETS_A_JOB
    form: StoredForm | None = None
    """That of new topics; None leaves each in the form it has."""
    bytes_per_second: float | None = None
    """At most, of all tasks of a job together; None: as fast as they can."""
    new_generation: NewGeneration | None = None
    """Which folder a new generation of a topic gets; None: as the generations before it."""
    records_crc: bool = False
    """Whether parts tell the CRC of their records, by which copies are compared."""


@dataclass(slots=True)
class Meter:
    """How far the copying is. For one thread at a time."""

    tell: Tell
    total: int = 0
    """Offsets of all topics."""
    _done: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)

    @property
    def seconds(self) -> float:
        """Since it was made, without what was left out."""
        return time.monotonic() - self._began

    def leave_out(self, seconds: float) -> None:
        """Take time off that was not spent on copying."""
        self._began += seconds

    def count(self, topic: str, offsets: int, size: int) -> None:
        """Note that so many offsets and bytes more are done."""
        self._done += offsets
        self._bytes += size
        self.say(topic, 0)

    def say(self, topic: str, under_way: int) -> None:
        """Tell how far it is, with the offsets *under_way* that are not committed yet."""
        done = min(self._done + under_way, self.total)
        self.tell(CopyProgress(topic, done, self.total, self._bytes, self.seconds))


@dataclass(frozen=True, slots=True)
class BackupRun:
    """One backup under way."""

    client: ReadClient
    spark: Spark
    access: ReadAccess
    """How tasks reach the brokers by themselves."""
    settings: BackupSettings
    meter: Meter
    budget: Budget | None = None
    """Of jobs that keep to a rate together, one after the other."""
    side_by_side: int | None = None
    """Among so many runs its jobs share the cores. None: nothing runs beside it."""

    def cores(self) -> int:
        """How many tasks of its jobs run at a time."""
        cores = int(self.context().defaultParallelism)
        return max(1, cores // (self.side_by_side or 1))

    def context(self) -> SparkContext:
        """What jobs are run by; waiting for its start is no part of the copying."""
        before = self.spark.seconds_waited
        context = self.spark.context()
        self.meter.leave_out(self.spark.seconds_waited - before)
        return context
