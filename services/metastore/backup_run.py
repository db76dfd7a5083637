"""Backs up a command topic once, or follows it: the job, a second look at the topic, one run.

The topic is read from its beginning and compared with the backup before anything is appended. The
watch asks the brokers what a consumer that has caught up does not notice: settings that lose
commands, deleted records, a log that was cut back, a topic that is gone or was created again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, ClusterError, StorageError
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import OffsetError
from breakglass.services.kafka.wire.answers import OFFSET_NOT_AVAILABLE
from breakglass.services.kafka.wire.deadline import Deadline, persist
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
from breakglass.services.metastore.events import (
    Begun,
    CaughtUp,
    Event,
    NotNoted,
    Shorter,
    Tell,
    Unrestorable,
    of_lag,
)
from breakglass.services.metastore.glance import note_alarm, write_status
from breakglass.services.metastore.live_backup import BackedUpTopic, LiveBackup
from breakglass.services.metastore.settings import Style, lock_file, locked, newest, private_folder
from breakglass.services.metastore.side_file import SUFFIX, LineCheck, side_header
from breakglass.services.metastore.topic import (
    Alarm,
    Danger,
    LogCut,
    PolledCommands,
    TopicReader,
    TopicState,
    dangers,
    log_cut,
    read_topic_state,
    stable_end,
    stable_log,
    topic_id_at,
    whole_fetches,
)
from breakglass.services.model import Unknown, known
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.folder import LocalFolder


@dataclass(frozen=True, slots=True)
class BackupJob:
    """What is backed up, and how."""

    topic: str
    location: Path
    style: Style = Style.KLIP
    follow: bool = False
    fail_on_difference: bool = False
    checked: bool = True
    """Say which commands a restore refuses; reading them again takes longer than comparing them."""


@dataclass(slots=True)
class BackupOutcome:
    """The result of a run."""

    file: str = ""
    commands: int = 0
    """The number of commands that topic and backup have in common."""
    appended: int = 0
    next_offset: int = 0
    alarms: int = 0
    shorter: bool = False
    """The topic ends before the backup does."""
    lacking: int = 0
    """Commands of the backup that the topic lacks at its end."""
    refused: int = 0
    """Lines of the file that `verify` and a restore refuse."""


EVERY_SECONDS = 0.2
BLIND_SECONDS = 2.0
"""Seconds without an answer after which an alarm is raised."""


class MetastoreWatch:
    """While entered, a thread that checks the topic and reports alarms."""

    def __init__(
        self,
        access: ReadAccess,
        topic: str,
        tell: Tell,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._topic = topic
        self._tell = tell
        self._clock = clock
        self._expected: str | None = None
        self._raised: set[Alarm] = set()
        self._added: set[Alarm] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._heard = clock()
        self.newest: TopicState | None = None
        """The last state; None if the topic does not exist, and before the first look."""
        self.reason = ""
        """Why the last look failed; empty if it succeeded."""
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="metastore-watch", daemon=True)
        self.alarms = 0
        """The number of reported alarms."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(patience.ALARM + 1)

    def expect(self, topic_id: str | None) -> None:
        self._expected = topic_id

    def check(self) -> None:
        """Raise the error that ended the watch, so that nobody relies on a dead watch."""
        if self._failure is not None:
            raise self._failure

    @property
    def blind_seconds(self) -> float:
        """Seconds since the topic was last checked successfully."""
        return self._clock() - self._heard

    def add(self, alarm: Alarm) -> None:
        """Report an alarm from elsewhere, once, and count it."""
        with self._lock:
            if alarm not in self._added:
                self._added.add(alarm)
                self.alarms += 1
                self._tell(alarm)

    def judge(self, state: TopicState | None) -> None:
        """Report the dangers of *state* that were not reported yet."""
        self._heard = self._clock()
        self.newest, self.reason = state, ""
        self._raise(set(dangers(state, self._topic, self._expected)))

    def _raise(self, found: set[Alarm]) -> None:
        with self._lock:
            fresh = sorted(found - self._raised, key=lambda alarm: list(Danger).index(alarm.danger))
            self._raised = found
            self.alarms += len(fresh)
            for alarm in fresh:
                self._tell(alarm)

    @property
    def raised(self) -> frozenset[Alarm]:
        return frozenset(self._raised)

    def _run(self) -> None:
        try:
            client: ReadClient | None = None
            while not self._stop.wait(EVERY_SECONDS):
                try:
                    if client is None:
                        client = self._access.client("breakglass-metastore-watch")
                        client.describe(Deadline.after(patience.ALARM))
                    state = read_topic_state(
                        client.sender, self._topic, Deadline.after(patience.ALARM)
                    )
                except BreakglassError as error:
                    self.reason = str(error)
                    self._blind(str(error))
                    if client is not None:
                        client.close()
                        client = None
                else:
                    self.judge(state)
            if client is not None:
                client.close()
        except BaseException as error:  # noqa: BLE001 -- a thread ends here, `check` raises it
            self._failure = error

    def _blind(self, reason: str) -> None:
        silent = self.blind_seconds
        if silent >= BLIND_SECONDS and not any(
            alarm.danger is Danger.WATCH_BLIND for alarm in self._raised
        ):
            alarm = Alarm(
                Danger.WATCH_BLIND,
                f"topic {self._topic} could not be looked at for {silent:.0f} s ({reason}): what "
                "happened to it since then is unknown",
            )
            self._raise({*self._raised, alarm})


POLL_SECONDS = 0.1
MOST_TOLD = 20
"""Commands that are named as refused by a restore; all of them are counted."""
QUIET_SECONDS = 1.0
"""Delay after the last command before the side file is synced, too."""
BEHIND_SECONDS = 2.0
"""Delay without knowledge of the log end before the backup counts as behind."""


class TopicChanged(ClusterError):
    """The topic was replaced or deleted, or another broker leads it now."""

    passes = True


class TopicRun:
    """Reads one topic to its end, or follows it."""

    def __init__(
        self,
        client: ReadClient,
        job: BackupJob,
        watch: MetastoreWatch,
        tell: Tell,
        lag: LagAlarm,
        stopped: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._job = job
        self._watch = watch
        self._tell = tell
        self._lag = lag
        self._stopped = stopped
        self._clock = clock
        self._cluster_id = ""
        self._compared = ""
        """The topic that this run has compared completely with the backup."""
        self._check = LineCheck()
        self._appended = 0
        self._good_at = clock()
        self.outcome = BackupOutcome()

    def through(self) -> None:
        """Continue after temporary faults, if the topic is followed.

        Raises:
            WrongCluster: the addresses now lead to another cluster.
            NotAuthorized, AuthenticationFailed, StorageError, ConflictingRecord: only the operator
                can end the fault.
        """
        self._cluster_id = self._client.describe(Deadline.after(patience.REQUEST)).cluster_id
        self._watch.expect(backed_up_id(self._job.topic, self._job.location))
        if self._job.follow:
            persist(self._once, self._lag.behind, self._stopped)
            return
        try:
            self._once()
        except (TopicChanged, LogCut):
            raise ClusterError(
                f"topic {self._job.topic} was changed while it was read: what was in it before is "
                "in the backup; run the command again"
            ) from None

    def _once(self) -> None:
        """Compare the whole topic with the backup, then append until something changes."""
        self._watch.check()
        self._require_same_cluster()
        deadline = Deadline.after(patience.REQUEST)
        state = read_topic_state(self._client.sender, self._job.topic, deadline)
        self._watch.judge(state)
        if state is None:
            absent = TopicChanged if self._job.follow else ClusterError
            raise absent(
                f"topic {self._job.topic} does not exist, and it is not created here: check the "
                "service id, or restore it from a backup"
            )
        origin = BackedUpTopic(self._job.topic, state.topic_id, self._cluster_id)
        with closing(
            LiveBackup(
                LocalFolder(self._job.location),
                origin,
                lambda event: self._told(event, state),
                style=self._job.style,
                fail_on_difference=self._job.fail_on_difference,
            )
        ) as backup:
            self._watch.expect(state.topic_id)
            try:
                start = self._read_at_once(backup, state)
                self._read(TopicReader(self._client, self._job.topic, start), backup, state)
            finally:
                self._appended += backup.appended

    def _read_at_once(self, backup: LiveBackup, state: TopicState) -> int | None:
        """Take what whole fetches can read; returns the next offset, or None: the log start.

        Raises: TopicChanged, LogCut.
        """
        position: int | None = None
        log = stable_log(self._job.topic, state)
        if log is None:
            return None
        with closing(whole_fetches(self._client, log)) as batches:
            for batch in batches:
                self._watch.check()
                self._take(backup, batch, state)
                position = batch.next_offset
                self._note(backup, position)
                if self._job.follow:
                    self._judge(state, position, caught_up=False)
                if self._stopped():
                    break
        return position

    def _require_same_cluster(self) -> None:
        found = self._client.describe(Deadline.after(patience.REQUEST)).cluster_id
        require_same_cluster(self._cluster_id, found)

    def _told(self, event: Event, state: TopicState) -> None:
        """Forward the event. A topic that was complete in the backup and now differs was cut."""
        self._tell(event)
        differs = isinstance(event, Shorter) or (isinstance(event, Begun) and event.difference)
        if differs and self._compared == state.topic_id:
            self._watch.add(log_cut(self._job.topic, str(event)))

    def _read(self, reader: TopicReader, backup: LiveBackup, state: TopicState) -> None:
        target: int | None = None
        ended = caught_up = False
        quiet_since = self._clock()
        while not self._stopped():
            self._watch.check()
            batch = reader.poll(POLL_SECONDS)
            ended = batch.at_end or (ended and not batch.records)
            if batch.records or (batch.at_end and not caught_up):
                self._take(backup, batch, state)
                quiet_since = self._clock()
            elif self._clock() - quiet_since > QUIET_SECONDS:
                backup.sync()
                self._require_same_topic(state)
                quiet_since = self._clock()
            self._note(backup, batch.next_offset)
            if ended and not caught_up:
                target = self._stable_end(state) if target is None else target
                caught_up = target is not None and batch.next_offset >= target
                if caught_up:
                    self._caught_up(backup, batch.next_offset, state)
            elif batch.records and caught_up:
                self._check_lines(backup)
            if self._job.follow:
                self._judge(state, batch.next_offset, caught_up=caught_up)
            elif caught_up:
                return

    def _take(self, backup: LiveBackup, batch: PolledCommands, state: TopicState) -> None:
        """Write *batch* if it is from the log that was compared with the backup."""
        self._require_same_topic(state)
        if batch.leader_epoch > state.leader_epoch:
            raise _moved(state.leader, batch.leader_epoch)
        backup.take(batch.records)

    def _stable_end(self, state: TopicState) -> int | None:
        """The log end for consumers; None while a new leader does not know it yet.

        Until then, the new leader lets consumers read less than the former leader did.
        """
        if state.leader is None:
            return None
        deadline = Deadline.after(patience.REQUEST)
        found = stable_end(self._client.sender, self._job.topic, state.leader, deadline)
        if isinstance(found, OffsetError) and found.code == OFFSET_NOT_AVAILABLE:
            return None
        return found if known(found) else 0

    def _caught_up(self, backup: LiveBackup, next_offset: int, state: TopicState) -> None:
        missing = backup.reached_end()
        self._note(backup, next_offset)
        self.outcome.shorter, self.outcome.lacking = missing > 0, missing
        self._compared = "" if missing else state.topic_id
        self._check_lines(backup)
        self._tell(CaughtUp(self.outcome.file, self.outcome.commands, next_offset))

    def _check_lines(self, backup: LiveBackup) -> None:
        """Tell which of the file's commands a restore refuses: they are kept as they are."""
        if backup.path is None or not self._job.checked:
            return
        for finding in self._check.look(backup.path):
            if self._check.refused <= MOST_TOLD:
                self._tell(Unrestorable(backup.path.name, finding.line, finding.message))
        self.outcome.refused = self._check.refused

    def _judge(self, state: TopicState, position: int, *, caught_up: bool) -> None:
        """Record whether everything was read. Raises TopicChanged if the leader has changed."""
        seen = self._watch.newest
        if seen is not None and seen.leader is not None and seen.leader_epoch > state.leader_epoch:
            raise _moved(seen.leader, seen.leader_epoch)
        reason = self._lack(seen, position, caught_up=caught_up)
        if not reason:
            self._good_at = self._clock()
            self._lag.up_to_date()
        elif self._clock() - self._good_at > BEHIND_SECONDS:
            self._lag.behind(reason)

    def _lack(self, seen: TopicState | None, position: int, *, caught_up: bool) -> str:
        """Why it is unknown whether everything was read; empty if everything was read."""
        if self._watch.blind_seconds > BEHIND_SECONDS:
            return f"the topic cannot be looked at ({self._watch.reason or 'no answer'})"
        if seen is None:
            return "the topic is gone"
        end = seen.stable_end
        if isinstance(end, Unknown):
            return end.reason
        if not caught_up or position < end:
            return f"the topic ends at offset {end:,}, and it was read up to {position:,}"
        return ""

    def _require_same_topic(self, state: TopicState) -> None:
        """Return if the leader serves the topic of the run's start. Raises: TopicChanged."""
        topic, sender = self._job.topic, self._client.sender
        try:
            if state.leader is None:
                raise ClusterError("the topic has no leader: wait until it has one")
            found = topic_id_at(sender, topic, state.leader, Deadline.after(patience.LOOK))
        except BreakglassError:
            # That broker may be down while another broker leads now.
            now = read_partitions(sender, Deadline.after(patience.REQUEST), [topic])
            found = str(now[0].topic_id) if now else None
        if found != state.topic_id:
            raise TopicChanged(f"topic {topic} is gone, or was created again")

    def _note(self, backup: LiveBackup, next_offset: int) -> None:
        outcome = self.outcome
        outcome.file = "" if backup.name is None else str(backup.name)
        outcome.commands, outcome.appended = backup.lines, self._appended + backup.appended
        outcome.next_offset = next_offset


def _moved(leader: int | None, epoch: int) -> TopicChanged:
    who = "another broker" if leader is None else f"b{leader}"
    return TopicChanged(
        f"{who} leads the topic in leader epoch {epoch}, so its log is compared with the backup "
        "again"
    )


def backed_up_id(topic: str, location: Path) -> str | None:
    """The id of the topic in the newest backup in *location*."""
    name = newest([path.name for path in location.iterdir()], topic)
    if name is None:
        return None
    header = side_header(location / f"{name}{SUFFIX}")
    return None if header is None else header.topic_id


def run_backup(
    access: ReadAccess, job: BackupJob, tell: Tell, stopped: Callable[[], bool] = lambda: False
) -> BackupOutcome:
    """Back up the topic of *job* to its end, or follow the topic until *stopped*.

    Once the cluster has answered, a run that follows the topic survives all temporary faults:
    brokers that are down or hang, a lost network, a full disk. Two threads call *tell*, never at
    the same time.

    Raises:
        ConflictingRecord: the topic differs from the backup, and a difference is to end the run.
        ClusterError: the topic does not exist, and the run does not wait for it.
        AlreadyRunning, StorageError, Unreachable, NotAuthorized, WrongCluster.
    """
    private_folder(job.location)
    noted = _Noting(job, tell)
    lag = LagAlarm(noted.lag)
    with (
        locked(lock_file(job.location, job.topic)),
        access.reading() as client,
        MetastoreWatch(access, job.topic, noted) as watch,
    ):
        run = TopicRun(client, job, watch, noted, lag, stopped)
        noted.status(None)
        try:
            run.through()
        finally:
            run.outcome.alarms = watch.alarms
        return run.outcome


class _Noting:
    """Forwards events, one at a time, and writes to disk what other processes need."""

    def __init__(self, job: BackupJob, tell: Tell) -> None:
        self._job, self._tell = job, tell
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._tell(event)
            if isinstance(event, Alarm):
                self._note(event)

    def lag(self, change: Behind | CaughtUpAgain) -> None:
        self(of_lag(change))
        self.status(change if isinstance(change, Behind) else None)

    def status(self, behind: Behind | None) -> None:
        """Write the backup's status to disk, if the run continues."""
        if self._job.follow:
            try:
                write_status(self._job.location, self._job.topic, behind)
            except StorageError as error:
                self(NotNoted("the status", str(error)))

    def _note(self, alarm: Alarm) -> None:
        """A full disk must not end the watch: report it and continue."""
        try:
            note_alarm(self._job.location, self._job.topic, alarm)
        except StorageError as error:
            self._tell(NotNoted(alarm.danger.value, str(error)))
