"""Reads what the console shows of a ksqlDB service: metastore, history and backup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, ClusterError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.metastore.glance import behind_now
from breakglass.services.metastore.lines import (
    BackupLine,
    CommandPair,
    CommandRecord,
    ComparisonCounts,
    counted,
    pairs,
    read_lines,
)
from breakglass.services.metastore.log.reader import AppliedCommand, Degraded, Replay
from breakglass.services.metastore.log.validator import inconsistencies
from breakglass.services.metastore.log.writer import TopicsNow
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.metastore.settings import newest, service_of
from breakglass.services.metastore.topic import LogCut, TopicReader, dangers, read_topic_state
from breakglass.services.model import Unknown
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class NewestBackup:
    """The newest backup of the service in a folder."""

    file: Path
    lines: tuple[BackupLine, ...]
    counts: ComparisonCounts


@dataclass(frozen=True, slots=True)
class ServiceLook:
    """The result of one look at a service."""

    topic: str
    metastore: Metastore
    entries: tuple[AppliedCommand, ...]
    degraded: Degraded | None
    wrong: Mapping[str, str]
    """By object: what differs from when it was created."""
    alarms: tuple[str, ...]
    backup: NewestBackup | Unknown
    pairs: tuple[CommandPair, ...]


def command_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """The command topics among *topics*."""
    return tuple(sorted({topic for topic in topics if service_of(topic) is not None}))


class ServiceWatch:
    """Looks at one service repeatedly; each record of its topic is read only once."""

    def __init__(self, topic: str, folder: Path) -> None:
        """*folder* contains its backups."""
        self.topic = topic
        self._folder = folder
        self._topic_id = ""
        self._begin()

    def look(self, client: ReadClient) -> ServiceLook:
        """The service's current state. Raises: Unreachable, NotAuthorized, ClusterError."""
        deadline = Deadline.after(patience.COMMAND)
        client.describe(deadline)
        state = read_topic_state(client.sender, self.topic, deadline)
        # The topic was in the list of topics: without it, it is gone.
        expected = self._topic_id if state is None else None
        alarms = tuple([str(danger) for danger in dangers(state, self.topic, expected)])
        if (behind := behind_now(self._folder, self.topic)) is not None:
            alarms = (f"the backup is {behind}", *alarms)
        if state is not None:
            if state.topic_id != self._topic_id:
                self._begin()
                self._topic_id = state.topic_id
            self._read(client, deadline)
        metastore = self._replay.metastore.snapshot()
        wrong = inconsistencies(metastore, TopicsNow(client))
        backup, found = self._compared()
        return ServiceLook(
            self.topic,
            metastore,
            tuple(self._entries),
            self._replay.degraded,
            wrong,
            alarms,
            backup,
            found,
        )

    def _begin(self) -> None:
        self._reader: TopicReader | None = None
        self._seen: tuple[tuple[Path, int, int] | None, int] | None = None
        self._side_by_side: tuple[NewestBackup | Unknown, tuple[CommandPair, ...]] = (
            Unknown("not read yet"),
            (),
        )
        self._records: list[CommandRecord] = []
        self._entries: list[AppliedCommand] = []
        self._replay = Replay(self._entries.append)

    def _read(self, client: ReadClient, deadline: Deadline) -> None:
        if self._reader is None:
            self._reader = TopicReader(client, self.topic)
            self._ended = False
        self._reader.through(client)
        while True:
            try:
                batch = self._reader.poll(POLL_SECONDS)
            except LogCut:
                self._begin()
                self._topic_id = ""
                return
            for record in batch.records:
                self._records.append(record)
                self._replay.take(record)
            self._ended = self._ended or batch.at_end
            if self._ended and not batch.records:
                return
            if deadline.passed:
                raise ClusterError(f"topic {self.topic} does not come to an end: try again")

    def _compared(self) -> tuple[NewestBackup | Unknown, tuple[CommandPair, ...]]:
        """The comparison of topic and backup; the earlier result if neither has changed."""
        try:
            with storage_errors(str(self._folder)):
                seen = self._newest(), len(self._records)
                if seen != self._seen:
                    self._side_by_side, self._seen = self._compare(seen[0]), seen
        except BreakglassError as error:
            return Unknown(str(error)), ()
        return self._side_by_side

    def _newest(self) -> tuple[Path, int, int] | None:
        """The newest backup, its size, and its modification time."""
        names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
        name = newest(names, self.topic)
        if name is None:
            return None
        file = self._folder / str(name)
        stat = file.stat()
        return file, stat.st_size, stat.st_mtime_ns

    def _compare(
        self, found: tuple[Path, int, int] | None
    ) -> tuple[NewestBackup | Unknown, tuple[CommandPair, ...]]:
        if found is None:
            none = f"there is none in {self._folder}: `breakglass ksql backup`"
            return Unknown(none), tuple(pairs(self._records, ()))
        file = found[0]
        with open_regular(file) as data:
            lines = tuple(read_lines(data))
        both = tuple(pairs(self._records, lines))
        return NewestBackup(file, lines, counted(both)), both
