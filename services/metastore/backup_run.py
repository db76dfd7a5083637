"""Backs up one command topic: reads it from its beginning, and goes on as long as it is wanted.

Before each batch is written the leader is asked which topic it serves (M4): what was read from a
topic that was created anew never gets behind the commands of the one before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.errors import BreakglassError, ClusterError, StorageError
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.metastore.alarms import Alarm
from services.metastore.events import CaughtUp, Event, NotNoted, Tell
from services.metastore.evidence_log import note_alarm
from services.metastore.live_backup import LiveBackup, Origin, open_backup
from services.metastore.names import Style, newest
from services.metastore.private_files import private_folder
from services.metastore.side_file import SUFFIX
from services.metastore.side_reader import side_header
from services.metastore.topic_reader import LogCut, TopicReader
from services.metastore.topic_state import TopicState, read_topic_state, topic_id_at
from services.metastore.watch import Watch
from services.session import ReadAccess

POLL_SECONDS = 0.1
ASK_SECONDS = 10.0
ABSENT_SECONDS = 0.25
"""How often a topic that does not exist is looked for."""
AT_MOST = 10_000
"""Commands of one group."""
QUIET_SECONDS = 1.0
"""So long after the last command the side file is put on disk, too."""


@dataclass(frozen=True, slots=True)
class BackupJob:
    """What is backed up, and how."""

    topic: str
    location: Path
    style: Style = Style.KLIP
    follow: bool = False
    fail_on_difference: bool = False


@dataclass(slots=True)
class BackupOutcome:
    """What a run came to."""

    file: str = ""
    commands: int = 0
    """That topic and backup have in common."""
    appended: int = 0
    next_offset: int = 0
    alarms: int = 0
    shorter: bool = False
    """The topic ends before the backup does."""


class TopicChanged(Exception):
    """The topic is another one than a moment ago, or is gone."""


def run_backup(
    access: ReadAccess,
    connection: Mapping[str, Any],
    job: BackupJob,
    tell: Tell,
    stopped: Callable[[], bool] = lambda: False,
) -> BackupOutcome:
    """Back up the topic of *job* to its end, or until *stopped* where it is followed.

    *connection* is confluent-kafka's. *tell* is called from two threads, never at once.

    Raises:
        ConflictingRecord: the topic differs from the backup, and that is to end it.
        ClusterError: the topic does not exist, and is not waited for.
        AlreadyRunning, StorageError, Unreachable, NotAuthorized.
    """
    private_folder(job.location)
    noted = _Noting(job, tell)
    with access.reading() as client, Watch(access, job.topic, noted) as watch:
        client.describe(Deadline.after(ASK_SECONDS))
        run = _Run(client, connection, job, watch, noted, stopped)
        try:
            run.through()
        finally:
            run.outcome.alarms = watch.alarms
        return run.outcome


class _Noting:
    """Tells events on, one at a time, and puts alarms on disk."""

    def __init__(self, job: BackupJob, tell: Tell) -> None:
        self._job, self._tell = job, tell
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._tell(event)
            if isinstance(event, Alarm):
                self._note(event)

    def _note(self, alarm: Alarm) -> None:
        """A full disk is no reason to look away: it is told, and the watch goes on."""
        try:
            note_alarm(self._job.location, self._job.topic, alarm)
        except StorageError as error:
            self._tell(NotNoted(alarm.danger.value, str(error)))


class _Run:
    def __init__(
        self,
        client: ReadClient,
        connection: Mapping[str, Any],
        job: BackupJob,
        watch: Watch,
        tell: Tell,
        stopped: Callable[[], bool],
    ) -> None:
        self._client = client
        self._connection = connection
        self._job = job
        self._watch = watch
        self._tell = tell
        self._stopped = stopped
        self.outcome = BackupOutcome()

    def through(self) -> None:
        """One topic after the other, where it is created anew while it is followed."""
        self._watch.expect(_backed_up_id(self._job))
        while not self._stopped():
            self._watch.check()
            state = self._state()
            self._watch.judge(state)
            if state is None:
                self._without_topic()
                continue
            try:
                self._topic(state)
            except (TopicChanged, LogCut):
                if not self._job.follow:
                    raise ClusterError(
                        f"topic {self._job.topic} was changed while it was read: what was in it "
                        "before is in the backup; run the command again"
                    ) from None
            else:
                return

    def _state(self) -> TopicState | None:
        deadline = Deadline.after(ASK_SECONDS)
        return read_topic_state(self._client.sender, self._job.topic, deadline)

    def _without_topic(self) -> None:
        if not self._job.follow:
            raise ClusterError(
                f"topic {self._job.topic} does not exist, and it is not created here: check the "
                "service id, or restore it from a backup"
            )
        time.sleep(ABSENT_SECONDS)

    def _topic(self, state: TopicState) -> None:
        cluster = self._client.describe(Deadline.after(ASK_SECONDS)).cluster_id
        origin = Origin(self._job.topic, state.topic_id, cluster)
        with (
            open_backup(
                self._job.location,
                origin,
                self._tell,
                style=self._job.style,
                fail_on_difference=self._job.fail_on_difference,
            ) as backup,
            TopicReader(self._connection, self._job.topic) as reader,
        ):
            self._watch.expect(state.topic_id)
            self._read(reader, backup, state)

    def _read(self, reader: TopicReader, backup: LiveBackup, state: TopicState) -> None:
        caught_up, quiet_since = False, time.monotonic()
        while not self._stopped():
            self._watch.check()
            batch = reader.poll(POLL_SECONDS, AT_MOST)
            if batch.records or (batch.at_end and not caught_up):
                self._same_topic(state)
                backup.take(batch.records)
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > QUIET_SECONDS:
                backup.sync()
                self._same_topic(state)
                quiet_since = time.monotonic()
            self._note(backup, batch.next_offset)
            if batch.at_end and not caught_up:
                caught_up = True
                self._caught_up(backup, batch.next_offset)
            if caught_up and not self._job.follow:
                return

    def _caught_up(self, backup: LiveBackup, next_offset: int) -> None:
        missing = backup.reached_end()
        self._note(backup, next_offset)
        self.outcome.shorter = missing > 0
        self._tell(CaughtUp(self.outcome.file, self.outcome.commands, next_offset))

    def _same_topic(self, state: TopicState) -> None:
        """Return if the leader serves the topic that was begun with. Raises: TopicChanged."""
        deadline = Deadline.after(ASK_SECONDS)
        leader = state.leader
        try:
            if leader is None:
                raise ClusterError("the topic has no leader: wait until it has one")
            found = topic_id_at(self._client.sender, self._job.topic, leader, deadline)
        except BreakglassError:
            # That broker may be down while another leads now.
            now = self._state()
            found = None if now is None else now.topic_id
        if found != state.topic_id:
            raise TopicChanged

    def _note(self, backup: LiveBackup, next_offset: int) -> None:
        outcome = self.outcome
        outcome.file = "" if backup.name is None else str(backup.name)
        outcome.commands, outcome.appended = backup.lines, backup.appended
        outcome.next_offset = next_offset


def _backed_up_id(job: BackupJob) -> str | None:
    """The id of the topic that the newest backup is of."""
    name = newest([one.name for one in job.location.iterdir()], job.topic)
    if name is None:
        return None
    header = side_header(job.location / f"{name}{SUFFIX}")
    return None if header is None else header.topic_id
