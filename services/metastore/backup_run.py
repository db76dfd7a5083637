"""Backs up one command topic from its beginning to its end, or continuously."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from breakglass.services.errors import StorageError
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
from breakglass.services.metastore.backup_job import BackupJob, BackupOutcome
from breakglass.services.metastore.events import Event, NotNoted, Tell, of_lag
from breakglass.services.metastore.private_files import lock_file, locked, private_folder
from breakglass.services.metastore.status_file import note_alarm, write_status
from breakglass.services.metastore.topic_run import TopicRun
from breakglass.services.metastore.topic_state import Alarm
from breakglass.services.metastore.watch import MetastoreWatch
from breakglass.services.session import ReadAccess


def run_backup(
    access: ReadAccess,
    connection: Mapping[str, Any],
    job: BackupJob,
    tell: Tell,
    stopped: Callable[[], bool] = lambda: False,
) -> BackupOutcome:
    """Back up the topic of *job* to its end, or follow the topic until *stopped*.

    Once the cluster has answered, a run that follows the topic survives all temporary faults:
    brokers that are down or hang, a lost network, a full disk. *connection* contains
    confluent-kafka's settings. Two threads call *tell*, never at the same time.

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
        run = TopicRun(client, connection, job, watch, noted, lag, stopped)
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
        """Report that the backup falls behind, or has caught up."""
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
