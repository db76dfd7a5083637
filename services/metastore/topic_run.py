"""Reads one command topic into its backup, through every temporary fault of the cluster.

Before each write the leader is asked which topic it serves (M4), so that commands of a recreated
topic are never appended to the backup of the old topic. After every fault and every change of the
leader, the topic is compared with the file from its beginning: a log that an election truncated
differs, and none of its commands are appended to the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, ClusterError
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import OffsetError
from breakglass.services.kafka.wire.broker_errors import OFFSET_NOT_AVAILABLE
from breakglass.services.kafka.wire.deadline import Deadline, persist
from breakglass.services.lag import LagAlarm
from breakglass.services.metastore.backup_job import BackupJob, BackupOutcome
from breakglass.services.metastore.events import (
    Begun,
    CaughtUp,
    Event,
    Shorter,
    Tell,
    Unrestorable,
)
from breakglass.services.metastore.live_backup import BackedUpTopic, LiveBackup
from breakglass.services.metastore.settings import newest
from breakglass.services.metastore.side_file import SUFFIX
from breakglass.services.metastore.side_reader import side_header
from breakglass.services.metastore.topic_reader import (
    LogCut,
    PolledCommands,
    TopicReader,
    stable_log,
    whole_fetches,
)
from breakglass.services.metastore.topic_state import (
    TopicState,
    log_cut,
    read_topic_state,
    stable_end,
    topic_id_at,
)
from breakglass.services.metastore.verification import LineCheck
from breakglass.services.metastore.watch import MetastoreWatch
from breakglass.services.model import Unknown, known
from breakglass.services.topic_backup.folder import LocalFolder

POLL_SECONDS = 0.1
AT_MOST = 10_000
"""Commands in each group."""
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
        connection: Mapping[str, Any],
        job: BackupJob,
        watch: MetastoreWatch,
        tell: Tell,
        lag: LagAlarm,
        stopped: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._connection = connection
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
        state = self._state()
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
                with TopicReader(self._connection, self._job.topic, start) as reader:
                    self._read(reader, backup, state)
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

    def _state(self) -> TopicState | None:
        deadline = Deadline.after(patience.REQUEST)
        return read_topic_state(self._client.sender, self._job.topic, deadline)

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
            batch = reader.poll(POLL_SECONDS, AT_MOST)
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
                caught_up = target is not None and _position(reader, batch) >= target
                if caught_up:
                    self._caught_up(backup, batch.next_offset, state)
            elif batch.records and caught_up:
                self._check_lines(backup)
            if self._job.follow:
                self._judge(state, _position(reader, batch), caught_up=caught_up)
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
        self.outcome.shorter = missing > 0
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


def _position(reader: TopicReader, batch: PolledCommands) -> int:
    """The next offset to read, after everything that consumers cannot see."""
    return max(batch.next_offset, reader.position())


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
