"""Backing up without an end: a stream of micro-batches, and now and then a run like any other.

The stream copies records as they come. A run looks at everything anew: topics and partitions that
came or went, logs that were cut or created again, what retention took, groups' offsets. Both go
on where the manifest ends, so neither takes what the other did; what the stream cannot do, the
next run does. Faults of the cluster and a full disk pass: the backup is behind, says so, and goes
on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from services.errors import BreakglassError, NotNow, Unreachable, UsageError
from services.kafka.wire.deadline import Deadline
from services.lag import LagAlarm
from services.model import TopicPartition
from services.pipeline.backup import back_up
from services.pipeline.backup_context import BackupRun, Meter, Tell, repeating
from services.pipeline.generations import Generation
from services.pipeline.report import BackupReport, TopicReport
from services.pipeline.source import WantedTopics
from services.pipeline.stream import (
    TRIGGER_SECONDS,
    BatchRanges,
    Ends,
    Stream,
    back_up_batch,
    require_spark,
)
from services.topic_backup.store.form import has_manifest
from services.topic_backup.store.store import LocalStore

EVERY_SECONDS = 10.0
LOOK_SECONDS = 0.2
SHAPE_SECONDS = 1.0
"""How often it is looked whether there are other topics or partitions."""
ASK_SECONDS = 30.0
OVERDUE_SECONDS = 10.0
"""So much later than a run was due to end, the backup is behind."""

Shape = frozenset[tuple[TopicPartition, UUID | None, bool]]
"""The partitions there are, of which topic, and whether each has a leader."""


@dataclass(slots=True)
class Followed:
    """Everything that was backed up."""

    runs: int = 0
    batches: int = 0
    """Of the stream."""
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Of copying."""
    missing: dict[str, int] = field(default_factory=dict)
    partitions: int = 0
    """At the last run."""
    failures: list[str] = field(default_factory=list)
    """The last run's: what could not be backed up."""

    def add(self, report: BackupReport) -> None:
        """Take in what one run or one batch copied."""
        self.records += report.records
        self.bytes += report.bytes
        self.seconds += report.seconds
        for reason, count in report.missing.items():
            self.missing[reason] = self.missing.get(reason, 0) + count


def follow(
    begin: Callable[[Meter], BackupRun],
    wanted: WantedTopics,
    tell: Tell,
    stop: Callable[[], bool],
    *,
    every: float = EVERY_SECONDS,
    told: Callable[[BackupReport], None] = lambda _: None,
    lag: LagAlarm | None = None,
) -> Followed:
    """Back up what is *wanted* as it comes, with a run every so many seconds, until *stop*.

    *begin* gives each run and each batch its meter; *told* hears of each, one at a time, from
    different threads. What passes is waited for: a cluster that does not answer is asked again, and
    what goes wrong with a topic is tried again with the next run. *lag* is told since when.

    Raises:
        UsageError: a topic named does not exist.
        NotAuthorized: an ACL is missing.
        PipelineError: Spark does not start, or has ended.
    """
    following = _Following(begin, wanted, tell, stop, every, told, lag or LagAlarm(lambda _: None))
    with repeating(following.note_overdue, SHAPE_SECONDS):
        following.run()
    return following.followed


@dataclass(slots=True)
class _Following:
    begin: Callable[[Meter], BackupRun]
    wanted: WantedTopics
    tell: Tell
    stop: Callable[[], bool]
    every: float
    told: Callable[[BackupReport], None]
    lag: LagAlarm
    followed: Followed = field(default_factory=Followed)
    _alone: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever copies."""
    _broken: bool = False
    """Whether a batch could not be copied, or nobody is to copy one any more."""
    _shape: Shape = frozenset()
    _folders: set[Generation] = field(default_factory=set)
    """What was committed."""
    _pause: threading.Event = field(default_factory=threading.Event)
    _whole_at: float = field(default_factory=time.monotonic)
    """When the last run that copied everything began."""

    def run(self) -> None:
        ends = self._exact()
        while not self.stop():
            self._broken = failed = False
            before = self.followed.batches
            if ends:
                with Stream(self._begun(), ends, self._batch, self._trigger) as stream:
                    ends = self._beside(stream, ends)
                    failed = not stream.running and self.followed.batches == before
                    self._end_batches()
            if failed or not ends:
                require_spark(self._begun())
                self._wait(self._other_shape)
                ends = ends if self.stop() else self._exact()

    def _beside(self, stream: Stream, streamed: Ends) -> Ends:
        """Make runs while *stream* copies what they find there; returns what is to be streamed."""
        while not self.stop():
            self._wait(lambda: not stream.running or self._other_shape())
            if self.stop():
                break
            ends = self._exact()
            if self._broken or not stream.running or ends.keys() != streamed.keys():
                return ends
        return streamed

    def _exact(self) -> Ends:
        """One run; returns from where on which partitions can be streamed."""
        with self._alone:
            gone, began = self._gone(), time.monotonic()
            try:
                self._shape = self._look()
                report = gone or back_up(self._begun(), self.wanted)
            except BreakglassError as error:
                if not error.passes:
                    raise
                self.followed.failures = [str(error)]
                self.lag.behind(error)
                return {}
            self._folders |= {
                Generation(topic.topic, topic.generation, topic.others_aside)
                for topic in report.topics
                if not topic.error
            }
            self.followed.runs += 1
            self.followed.add(report)
            self.followed.partitions = len(report.partitions)
            failures = [f"{one.topic}: {one.error}" for one in report.topics if one.error]
            self.followed.failures = failures
            self.told(report)
            self._note_lag(report, began)
        whole = [one for one in report.topics if not one.error]
        return {one.partition: one.end for topic in whole for one in topic.partitions}

    def _note_lag(self, report: BackupReport, began: float) -> None:
        """Everything that there was at *began* is copied, or something is not."""
        lacking = [f"{one.topic}: {one.error}" for one in report.topics if one.error]
        lacking += [
            f"{one.topic}-{number}: {reason}"
            for one in report.topics
            for number, reason in one.unread.items()
        ]
        if lacking:
            self.lag.behind(lacking[0])
        else:
            self._whole_at = began
            self.lag.up_to_date()

    def note_overdue(self) -> None:
        """Say that it is behind where a run, or the wait for a broker, takes too long."""
        late = time.monotonic() - self._whole_at
        if late > self.every + OVERDUE_SECONDS:
            self.lag.behind("a run has not come to its end yet")

    def _gone(self) -> BackupReport | None:
        """What to tell when a folder has lost its commit: a backup from the start would hide it."""
        store = self._begun().settings.store
        lost = []
        for generation in sorted(self._folders):
            if not has_manifest(store.names(generation.name)):
                where = store.where(generation.name)
                reason = f"{where} no longer holds its manifest: is the disk mounted?"
                lost.append(TopicReport(generation.topic, where, generation.number, error=reason))
        return BackupReport(topics=lost) if lost else None

    def _batch(self, batch: BatchRanges) -> None:
        """Copy one batch, in a thread of the stream's."""
        with self._alone:
            if self._broken:
                return
            try:
                report = self._gone() or back_up_batch(self._begun(), batch)
            except BreakglassError as error:
                self.followed.failures = [str(error)]
                self._broken = True
                self.lag.behind(error)
                return
            self._broken = any(one.error for one in report.topics)
            self.followed.batches += 1
            self.followed.add(report)
            if report.records or self._broken:
                self.told(report)

    def _end_batches(self) -> None:
        """Let the batch under way come to its commit, and no other begin."""
        with self._alone:
            self._broken = True

    def _wait(self, over: Callable[[], bool]) -> None:
        """Until the next run is due, or *over*, or it is to stop."""
        until = time.monotonic() + self.every
        while time.monotonic() < until and not self.stop() and not over():
            self._pause.wait(min(LOOK_SECONDS, self.every))

    def _other_shape(self) -> bool:
        """Whether there are other topics or partitions than at the last run."""
        if not self._alone.acquire(blocking=False):
            return False
        try:
            return self._look() != self._shape
        except (NotNow, Unreachable, UsageError):
            return False
        finally:
            self._alone.release()

    def _look(self) -> Shape:
        client = self._begun().client
        names = () if self.wanted.pattern else self.wanted.names
        states = client.partitions(names, Deadline.after(ASK_SECONDS))
        chosen = set(self.wanted.choose({one.partition.topic for one in states}))
        return frozenset(
            (one.partition, one.topic_id, one.leader is not None)
            for one in states
            if one.partition.topic in chosen
        )

    def _begun(self) -> BackupRun:
        return self.begin(Meter(self.tell))

    @property
    def _trigger(self) -> float:
        """Seconds between two batches: where nothing is appended each makes files of its own."""
        how = self._begun().settings
        appended = isinstance(how.store, LocalStore) and (how.form is None or how.form.plain)
        return TRIGGER_SECONDS if appended else max(TRIGGER_SECONDS, self.every)
