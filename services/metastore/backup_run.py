"""Backs up one command topic: reads it from its beginning, and goes on as long as it is wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from breakglass.services.errors import StorageError
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
from breakglass.services.metastore.alarms import Alarm
from breakglass.services.metastore.backup_job import BackupJob, BackupOutcome
from breakglass.services.metastore.events import Event, NotNoted, Tell, of_lag
from breakglass.services.metastore.evidence_log import note_alarm
from breakglass.services.metastore.private_files import lock_file, locked, private_folder
from breakglass.services.metastore.status_file import write_status
from breakglass.services.metastore.topic_run import TopicRun
from breakglass.services.metastore.watch import MetastoreWatch
from breakglass.services.session import ReadAccess


def run_backup(
    access: ReadAccess,
    connection: Mapping[str, Any],
    job: BackupJob,
    tell: Tell,
    stopped: Callable[[], bool] = lambda: False,
) -> BackupOutcome:
    """Back up the topic of *job* to its end, or until *stopped* where it is followed.

    Once the cluster has answered, a topic that is followed is followed through everything that
    passes: brokers that are gone or hang, a network that is lost, a disk that is full.
    *connection* is confluent-kafka's. *tell* is called from two threads, never at once.

    Raises:
        ConflictingRecord: the topic differs from the backup, and that is to end it.
        ClusterError: the topic does not exist, and is not waited for.
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
        run = TopicRun(client, connection, job, watch, noted, lag, stopped)
        noted.status(None)
        try:
            run.through()
        finally:
            run.outcome.alarms = watch.alarms
        return run.outcome


class _Noting:
    """Tells events on, one at a time, and puts on disk what others have to learn of."""

    def __init__(self, job: BackupJob, tell: Tell) -> None:
        self._job, self._tell = job, tell
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._tell(event)
            if isinstance(event, Alarm):
                self._note(event)

    def lag(self, change: Behind | CaughtUpAgain) -> None:
        """Tell that the backup is behind, or is not any more."""
        self(of_lag(change))
        self.status(change if isinstance(change, Behind) else None)

    def status(self, behind: Behind | None) -> None:
        """Write down where the backup stands, if it goes on."""
        if self._job.follow:
            try:
                write_status(self._job.location, self._job.topic, behind)
            except StorageError as error:
                self(NotNoted("the status", str(error)))

    def _note(self, alarm: Alarm) -> None:
        """A full disk is no reason to look away: it is told, and the watch goes on."""
        try:
            note_alarm(self._job.location, self._job.topic, alarm)
        except StorageError as error:
            self._tell(NotNoted(alarm.danger.value, str(error)))
