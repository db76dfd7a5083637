"""Backs up topics continuously: a stream of micro-batches, and regular runs beside it.

The stream copies records as producers write them. A run also finds new and deleted topics and
partitions, truncated or recreated logs, deletions by retention, and offsets of groups. Both start
where the manifest ends, so neither repeats the work of the other. Transient errors of the cluster
and a full disk do not end the backup: it reports that it lags, and continues.

Streams micro-batches: each copies and commits the new records of all topics in one job.

The stream asks the leaders for new records every second; a leader that does not answer delays no
other. A batch copies only what follows the last commit in the manifests. If the job of a batch
fails, each topic is copied separately, as in a run, so that a failing topic does not stop the
others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, NotNow, Unreachable, UsageError
from breakglass.services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    ask_brokers,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import LagAlarm
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.pipeline.backup import OpenTopic, back_up, begun, opened
from breakglass.services.pipeline.backup_context import (
    BackupReport,
    BackupRun,
    Generation,
    Meter,
    Tell,
    TopicReport,
    repeating,
)
from breakglass.services.pipeline.batches.tasks import copy_by_tasks, divided, range_of
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import CopyStretch, WantedTopics, read_sources
from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.store.form import has_manifest
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.summary import GapReason, added

BatchRanges = Mapping[TopicPartition, tuple[int, int]]
"""New offsets ``[start, end)`` by partition; never empty."""


def back_up_batch(run: BackupRun, batch: BatchRanges) -> BackupReport:
    """Copy and commit *batch*. A topic that fails does not stop the others.

    Raises:
        UsageError: a topic was deleted.
        Unreachable, NotAuthorized: the cluster does not answer, or an ACL is missing.
        StorageError: a folder cannot be unlocked.
    """
    names = tuple(sorted({partition.topic for partition in batch}))
    sources = read_sources(run.client, WantedTopics(names), Deadline.after(patience.JOB))
    run.meter.total = sum(end - start for start, end in batch.values())
    report = BackupReport(topics=[begun(run, source) for source in sources])
    with ExitStack() as stack:
        topics = []
        for source, topic in zip(sources, report.topics, strict=True):
            with _reported_in(topic):
                topics.append(stack.enter_context(opened(run, source, topic)))
        _copy(run, batch, topics)
    report.seconds = run.meter.seconds
    return report


@contextmanager
def _reported_in(report: TopicReport) -> Iterator[None]:
    try:
        yield
    except BreakglassError as error:
        report.error = str(error)


def _copy(run: BackupRun, batch: BatchRanges, topics: Sequence[OpenTopic]) -> None:
    # The offsets of each topic in the batch that are not committed yet.
    stretches = [(topic, [within(batch, stretch) for stretch in topic.todo]) for topic in topics]
    jobs = [(topic, [one for one in todo if one.offsets]) for topic, todo in stretches]
    some = [(topic, todo) for topic, todo in jobs if todo]
    parts = _parts(run, some) if some else None
    for topic, todo in some:
        with _reported_in(topic.report):
            if parts is None:
                topic.copy.copy(todo)
            else:
                topic.copy.take(todo, parts.get(topic.source.name, []))


def within(ranges: BatchRanges, stretch: CopyStretch) -> CopyStretch:
    """*stretch* up to the end of its range; empty for a partition without a range."""
    _, end = ranges.get(stretch.source.partition, (stretch.start, stretch.start))
    return replace(stretch, end=max(stretch.start, min(stretch.end, end)))


def _parts(
    run: BackupRun, jobs: Sequence[tuple[OpenTopic, Sequence[CopyStretch]]]
) -> dict[str, list[SegmentPart]] | None:
    """The parts of all stretches by topic; None if their job fails."""
    whole = [
        range_of(topic.source.identity, stretch.source, stretch.start, stretch.end)
        for topic, todo in jobs
        for stretch in todo
    ]
    targets = {topic.source.name: topic.copy.target() for topic, _ in jobs}
    cluster_id = jobs[0][0].source.identity.cluster_id
    try:
        with jvm_errors("copying a batch"):
            ranges = divided(whole, run.cores())
            return copy_by_tasks(run, ranges, cluster_id, targets, patience.LEADERLESS)
    except BreakglassError:
        # Whatever the error: the separate copies find it again and report it by topic.
        return None


TRIGGER_SECONDS = 1.0
"""How often the stream asks for new records."""

Ends = Mapping[TopicPartition, int]
"""The next offset of each partition."""


class Stream:
    """Runs in a separate thread while its block is open."""

    def __init__(
        self, run: BackupRun, ends: Ends, each: Callable[[BatchRanges], None], trigger: float
    ) -> None:
        """Stream the partitions from the offsets *ends* on; *each* gets every batch, in the thread.

        A batch starts *trigger* seconds after the previous batch started, or when that is done.
        """
        self._run = run
        self._ends = dict(ends)
        self._each = each
        self._trigger = trigger
        self._led: dict[int, dict[TopicPartition, int]] = {}
        """The partitions of each leader with their leader epochs; empty: not known yet."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="stream", daemon=True)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def running(self) -> bool:
        """Whether the stream runs, and Spark can copy its batches."""
        if not self._thread.is_alive():
            return False
        try:
            require_spark(self._run)
        except BreakglassError:
            return False
        return True

    def _follow(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            # The offsets from the previous batch to the stable ends of the leaders that answer.
            most = self._run.settings.offsets_a_job
            ranges = {
                partition: (self._ends[partition], min(end, self._ends[partition] + most))
                for partition, end in self._stable_ends().items()
                if end > self._ends[partition]
            }
            if ranges:
                self._each(ranges)
                self._ends.update({partition: end for partition, (_, end) in ranges.items()})
            self._over.wait(max(0.0, began + self._trigger - time.monotonic()))

    def _stable_ends(self) -> dict[TopicPartition, int]:
        try:
            self._led = self._led or self._leaders()
        except BreakglassError:
            # The next run asks the same and reports the error.
            return {}
        answers = ask_brokers(self._led, self._listed)
        found = {
            partition: end.offset
            for partition, end in answers.items()
            if isinstance(end, ListedOffset)
        }
        if found.keys() != self._ends.keys():
            self._led = {}
        return found

    def _listed(
        self, leader: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ListedOffset | Unknown]:
        """The stable ends that *leader* reports; none of partitions that it no longer leads."""
        return list_offsets(
            self._run.client.sender,
            leader,
            partitions,
            LATEST,
            Deadline.after(patience.BRIEF),
            replica_id=LEADER_ONLY,
            leader_epochs=self._led[leader],
            isolation_level=READ_COMMITTED,
        )

    def _leaders(self) -> dict[int, dict[TopicPartition, int]]:
        deadline = Deadline.after(patience.BRIEF)
        topics = sorted({partition.topic for partition in self._ends})
        self._run.client.describe(deadline)
        led: dict[int, dict[TopicPartition, int]] = {}
        for state in self._run.client.partitions(topics, deadline):
            if state.partition in self._ends and state.leader is not None:
                led.setdefault(state.leader, {})[state.partition] = state.leader_epoch
        return led


def require_spark(run: BackupRun) -> None:
    """Check that Spark's JVM answers.

    Raises PipelineError: the JVM has ended, so that no job can run.
    """
    context = run.context()
    with jvm_errors("backing up"):
        context.startTime  # noqa: B018


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
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    missing: dict[str, int] = field(default_factory=dict)
    partitions: int = 0
    lost: int = 0
    """Number of stretches that were removed before they could be copied, in doubt or damaged."""
    failures: list[str] = field(default_factory=list)
    """Topics that the last run could not back up."""

    @property
    def whole(self) -> bool:
        """Whether the backup has everything that existed at the last run."""
        return not (self.failures or self.lost or self.missing.get(GapReason.UNKNOWN))

    def add(self, report: BackupReport) -> None:
        self.records += report.records
        self.bytes += report.bytes
        self.seconds += report.seconds
        self.lost += sum(len(part.lost) + len(part.unproved) for part in report.partitions)
        self.lost += sum(len(topic.damages) + topic.other_log for topic in report.topics)
        self.missing = added(self.missing, report.missing)


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
            self._folders |= {topic.place for topic in report.topics if not topic.error}
            self.followed.runs += 1
            self.followed.add(report)
            self.followed.partitions = len(report.partitions)
            failures = [f"{topic.topic}: {topic.error}" for topic in report.topics if topic.error]
            self.followed.failures = failures
            self.told(report)
            # Report whether everything that existed at *began* has been copied.
            lacking = failures + [
                f"{topic.topic}-{number}: {reason}"
                for topic in report.topics
                for number, reason in topic.unread.items()
            ]
            if lacking:
                self.lag.behind(lacking[0])
            else:
                self._whole_at = began
                self.lag.up_to_date()
        whole = [topic for topic in report.topics if not topic.error]
        return {
            partition.partition: partition.end for topic in whole for partition in topic.partitions
        }

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
