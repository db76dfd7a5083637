"""Backs up topics continuously: a stream of micro-batches, and regular runs beside it.

The stream copies records as producers write them. A run also finds new and deleted topics and
partitions, truncated or recreated logs, deletions by retention, and offsets of groups. Both start
where the manifest ends, so neither repeats the work of the other. Transient errors of the cluster
and a full disk do not end the backup: it reports that it lags, and continues.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, NotNow, Unreachable, UsageError
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import LagAlarm
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup import back_up
from breakglass.services.pipeline.backup_context import BackupRun, Meter, Tell, repeating
from breakglass.services.pipeline.generations import Generation
from breakglass.services.pipeline.report import BackupReport, TopicReport
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.pipeline.stream import (
    TRIGGER_SECONDS,
    BatchRanges,
    Ends,
    Stream,
    back_up_batch,
    require_spark,
)
from breakglass.services.topic_backup.store.form import has_manifest
from breakglass.services.topic_backup.store.store import LocalStore

EVERY_SECONDS = 10.0
LOOK_SECONDS = 0.2
SHAPE_SECONDS = 1.0
"""How often the topics and partitions are compared with those of the last run."""
OVERDUE_SECONDS = 10.0
"""A run that is this much overdue makes the backup lag."""

Shape = frozenset[tuple[TopicPartition, UUID | None, bool]]
"""Each partition, the id of its topic, and whether it has a leader."""


@dataclass(slots=True)
class Followed:
    """The totals of a continuous backup."""

    runs: int = 0
    batches: int = 0
    """Number of batches of the stream."""
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Time spent copying."""
    missing: dict[str, int] = field(default_factory=dict)
    partitions: int = 0
    """Number of partitions at the last run."""
    lost: int = 0
    """Number of stretches that were removed before they could be copied, or are in doubt."""
    failures: list[str] = field(default_factory=list)
    """Topics that the last run could not back up."""

    @property
    def whole(self) -> bool:
        """Whether the backup has everything that existed at the last run."""
        return not self.failures and not self.lost

    def add(self, report: BackupReport) -> None:
        """Add the report of one run or one batch."""
        self.records += report.records
        self.bytes += report.bytes
        self.seconds += report.seconds
        self.lost += sum(len(part.lost) + len(part.unproved) for part in report.partitions)
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
    """Back up the *wanted* topics continuously, with a run *every* so often, until *stop*.

    *begin* makes each run and each batch with its meter. The report callback gets the report of
    each, one at a time, from different threads. Transient errors do not end the backup: the next
    run asks the cluster again and retries failed topics. *lag* is notified when a lag starts and
    ends.

    Raises:
        UsageError: a named topic does not exist.
        NotAuthorized: an ACL is missing.
        PipelineError: Spark does not start, or has stopped.
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
    """Serialises the stream and the runs."""
    _broken: bool = False
    """Whether a batch failed, or the batches have been ended."""
    _shape: Shape = frozenset()
    _folders: set[Generation] = field(default_factory=set)
    """The folders with a commit."""
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
                    # Wait for the running batch to commit, and let no other begin.
                    with self._alone:
                        self._broken = True
            if failed or not ends:
                require_spark(self._begun())
                self._wait(self._other_shape)
                ends = ends if self.stop() else self._exact()

    def _beside(self, stream: Stream, streamed: Ends) -> Ends:
        """Make runs while *stream* copies; return the partitions to stream next."""
        while not self.stop():
            self._wait(lambda: not stream.running or self._other_shape())
            if self.stop():
                break
            ends = self._exact()
            if self._broken or not stream.running or ends.keys() != streamed.keys():
                return ends
        return streamed

    def _exact(self) -> Ends:
        """Make one run; return the next offset of each partition that can be streamed."""
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
            failures = [f"{topic.topic}: {topic.error}" for topic in report.topics if topic.error]
            self.followed.failures = failures
            self.told(report)
            self._note_lag(report, began)
        whole = [topic for topic in report.topics if not topic.error]
        return {
            partition.partition: partition.end for topic in whole for partition in topic.partitions
        }

    def _note_lag(self, report: BackupReport, began: float) -> None:
        """Report whether everything that existed at *began* has been copied."""
        lacking = [f"{topic.topic}: {topic.error}" for topic in report.topics if topic.error]
        lacking += [
            f"{topic.topic}-{number}: {reason}"
            for topic in report.topics
            for number, reason in topic.unread.items()
        ]
        if lacking:
            self.lag.behind(lacking[0])
        else:
            self._whole_at = began
            self.lag.up_to_date()

    def note_overdue(self) -> None:
        """Report a lag where a run, or the wait for a broker, takes too long."""
        late = time.monotonic() - self._whole_at
        if late > self.every + OVERDUE_SECONDS:
            self.lag.behind("a run is still not finished")

    def _gone(self) -> BackupReport | None:
        """A report of folders that lost their manifest: a new backup would hide the loss."""
        store = self._begun().settings.store
        lost = []
        for generation in sorted(self._folders):
            if not has_manifest(store.names(generation.name)):
                where = store.where(generation.name)
                reason = f"{where} no longer has its manifest: is the disk mounted?"
                lost.append(TopicReport(generation.topic, where, generation.number, error=reason))
        return BackupReport(topics=lost) if lost else None

    def _batch(self, batch: BatchRanges) -> None:
        """Copy one batch, in the thread of the stream."""
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
            self._broken = any(topic.error for topic in report.topics)
            self.followed.batches += 1
            self.followed.add(report)
            if report.records or self._broken:
                self.told(report)

    def _wait(self, over: Callable[[], bool]) -> None:
        """Wait until the next run is due, *over* is true, or the backup stops."""
        until = time.monotonic() + self.every
        while time.monotonic() < until and not self.stop() and not over():
            self._pause.wait(min(LOOK_SECONDS, self.every))

    def _other_shape(self) -> bool:
        """Whether topics or partitions have changed since the last run."""
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
        states = client.partitions(names, Deadline.after(patience.COMMAND))
        chosen = set(self.wanted.choose({state.partition.topic for state in states}))
        return frozenset(
            (state.partition, state.topic_id, state.leader is not None)
            for state in states
            if state.partition.topic in chosen
        )

    def _begun(self) -> BackupRun:
        return self.begin(Meter(self.tell))

    @property
    def _trigger(self) -> float:
        """Seconds between two batches: a batch that cannot append to files makes new files."""
        how = self._begun().settings
        appended = isinstance(how.store, LocalStore) and (how.form is None or how.form.plain)
        return TRIGGER_SECONDS if appended else max(TRIGGER_SECONDS, self.every)
