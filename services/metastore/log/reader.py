"""Reads the command topic as a log: to its end, applying every command, skipping none.

A command that cannot be applied ends the reading: the metastore stays at the previous command and
says why. Commands are not validated here, so a replay after a restart has the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from breakglass.services import patience
from breakglass.services.errors import ClusterError, Refused, TimedOut, Unreachable
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import EARLIEST
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.metastore.command import (
    Command,
    CommandId,
    InvalidCommand,
    InvalidCommandId,
)
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.metastore.settings import command_topic
from breakglass.services.metastore.topic import (
    LogCut,
    PolledCommands,
    StableLog,
    TopicReader,
    offset_at,
    stable_end,
    whole_fetches,
    worthwhile,
)
from breakglass.services.model import Unknown
from breakglass.services.session import ReadAccess

POLL_SECONDS = 0.01
"""Poll time without records: a writer waits for it while it fences other writers."""
MARK = "breakglass-command"
"""The header that distinguishes commands with the same bytes."""


class Degradation(StrEnum):
    """Why reading stopped, in ksqlDB's words (CommandRunner.CommandRunnerDegradedReason)."""

    INCOMPATIBLE_COMMAND = "INCOMPATIBLE_COMMAND"
    CORRUPTED = "CORRUPTED"


@dataclass(frozen=True, slots=True)
class Degraded:
    """Where reading stopped, and why."""

    why: Degradation
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.why.value} at offset {self.offset:,}: {self.reason}"


class LogDegraded(Refused):
    """Reading has stopped, so no statement can be validated."""


class AppliedCommand(NamedTuple):
    """A command that was applied."""

    offset: int
    id: CommandId
    command: Command
    timestamp_ms: int | None


class Replay:
    """Applies commands in order, until a command cannot be applied."""

    def __init__(self, seen: Callable[[AppliedCommand], None] | None = None) -> None:
        """*seen* receives each command after it was applied."""
        self.metastore = Metastore()
        self.degraded: Degraded | None = None
        self.commands = 0
        self._seen = seen

    def take(self, record: CommandRecord) -> bool:
        """Apply *record*; False if reading stops here or has stopped before."""
        if self.degraded is not None:
            return False
        try:
            key = CommandId.from_json(record.key)
            command = Command.from_json(record.value)
            self.metastore.apply(record.offset, key, command)
        except (InvalidCommandId, InvalidCommand) as error:
            self.degrade(Degradation.INCOMPATIBLE_COMMAND, record.offset, str(error))
            return False
        self.commands += 1
        if self._seen is not None:
            self._seen(AppliedCommand(record.offset, key, command, record.timestamp_ms))
        return True

    def degrade(self, why: Degradation, offset: int, reason: str) -> None:
        self.degraded = Degraded(why, offset, reason)


class CommandLog:
    """A reader of one service's commands, with the metastore up to its position."""

    def __init__(
        self,
        access: ReadAccess,
        service_id: str,
        seen: Callable[[AppliedCommand], None] | None = None,
    ) -> None:
        """*seen* receives every applied command."""
        self.service_id = service_id
        self.topic = command_topic(service_id)
        self._client: ReadClient = access.client("breakglass-command-log")
        self._replay = Replay(seen)
        self._reader: TopicReader | None = None
        self._leader: int | None = None
        self._epoch = -1
        self._topic_id: object = None
        self._marks: dict[str, int | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def metastore(self) -> Metastore:
        """The metastore up to the reader's position; `snapshot` it before changing it."""
        return self._replay.metastore

    @property
    def degraded(self) -> Degraded | None:
        """Why reading stopped; None while the log is read."""
        return self._replay.degraded

    @property
    def commands(self) -> int:
        return self._replay.commands

    @property
    def position(self) -> int:
        """The next offset, after transaction markers and aborted commands."""
        return 0 if self._reader is None else self._reader.position()

    def watch_for(self, mark: str) -> None:
        """Remember the offset of the command with this `MARK` when it is read."""
        self._marks[mark] = None

    def found(self, mark: str) -> int | None:
        """The offset of the command with this `MARK`, if it was read."""
        return self._marks.get(mark)

    def forget(self, mark: str) -> None:
        self._marks.pop(mark, None)

    def catch_up(self, deadline: Deadline) -> int:
        """Apply all commands that are committed now; returns the end that was reached.

        Raises:
            LogDegraded: a command cannot be applied, or the topic was replaced.
            TimedOut, Unreachable, NotAuthorized, ClusterError.
        """
        end = self.end(deadline)
        self.read_to(end, deadline)
        return end

    def read_to(self, end: int, deadline: Deadline) -> None:
        """Apply all commands before the offset *end*. Raises: as `catch_up`."""
        if self._reader is None:
            start = self._read_at_once(end, deadline)
            self._refuse_degraded()
            self._reader = TopicReader(self._client, self.topic, start)
        reader = self._reader
        while True:
            self._refuse_degraded()
            if reader.position() >= end:
                return
            if deadline.passed:
                raise TimedOut(
                    f"topic {self.topic} could be read up to offset {reader.position():,} in time "
                    f"and not to {end:,}: try again"
                )
            self._take(reader, deadline)

    def end(self, deadline: Deadline) -> int:
        """The offset after the last readable record, asked on a separate connection (M7).

        Raises: LogDegraded, TimedOut, NotAuthorized, ClusterError.
        """

        def ask() -> int:
            told = self._ask_end(deadline)
            if told is None or isinstance(told, Unknown):
                self._leader = None
                raise TimedOut("its leader is unknown" if told is None else told.reason)
            return told

        try:
            return until(deadline, ask)
        except Unreachable as error:
            self._leader = None
            raise TimedOut(
                f"the end of topic {self.topic} is unknown ({error}): try again"
            ) from error

    def _ask_end(self, deadline: Deadline) -> int | Unknown | None:
        soon = deadline.sooner(patience.BRIEF)
        # Find the leader, and check that the topic is still the one where reading began (M4).
        sender = self._client.sender
        if self._topic_id is None:
            self._client.describe(soon)
        partitions = read_partitions(sender, soon, [self.topic])
        if not partitions:
            if self._topic_id is None:
                raise ClusterError(f"topic {self.topic} does not exist: check the service id")
            self._corrupt("the topic was deleted")
            self._refuse_degraded()
        first = partitions[0]
        if self._topic_id is not None and first.topic_id != self._topic_id:
            self._corrupt("the topic was deleted and created again")
            self._refuse_degraded()
        self._topic_id, self._leader = first.topic_id, first.leader
        self._epoch = first.leader_epoch
        if self._leader is None:
            return None
        return stable_end(self._client.sender, self.topic, self._leader, soon)

    def _read_at_once(self, end: int, deadline: Deadline) -> int | None:
        """Apply what whole fetches can read; returns the next offset, or None: the log start."""
        position = None
        log = self._stable_log(end, deadline)
        if log is None:
            return None
        try:
            with closing(whole_fetches(self._client, log)) as batches:
                for batch in batches:
                    self._apply(batch)
                    position = batch.next_offset
                    if self.degraded is not None or deadline.passed:
                        break
        except LogCut as error:
            self._corrupt(str(error))
        return position

    def _stable_log(self, end: int, deadline: Deadline) -> StableLog | None:
        """The log before *end*; None if it is short, or if information for fetches is missing."""
        if self._leader is None or not worthwhile(end):
            return None
        soon = deadline.sooner(patience.BRIEF)
        try:
            start = offset_at(self._client.sender, self.topic, self._leader, EARLIEST, soon)
        except Unreachable:
            return None
        if isinstance(start, Unknown):
            return None
        return StableLog(self.topic, str(self._topic_id), self._leader, self._epoch, start, end)

    def _take(self, reader: TopicReader, deadline: Deadline) -> None:
        try:
            batch = reader.poll(POLL_SECONDS, deadline)
        except LogCut as error:
            self._corrupt(str(error))
            return
        except Unreachable as error:
            if not error.passes:
                raise
            return
        self._apply(batch)

    def _apply(self, batch: PolledCommands) -> None:
        take, marked = self._replay.take, self._marks
        for record in batch.records:
            if take(record) and marked and record.headers:
                for name, value in record.headers:
                    mark = (value or b"").decode("ascii", "replace")
                    if name == MARK and mark in self._marks and self._marks[mark] is None:
                        self._marks[mark] = record.offset

    def _corrupt(self, reason: str) -> None:
        if self._replay.degraded is None:
            self._replay.degrade(Degradation.CORRUPTED, self.position, reason)

    def _refuse_degraded(self) -> None:
        degraded = self._replay.degraded
        if degraded is not None:
            raise LogDegraded(
                f"topic {self.topic} is not read on, and nothing of it is skipped: {degraded}; "
                "restore it without that command from a backup, or use a newer release"
            )


def read_whole(
    access: ReadAccess,
    service_id: str,
    seconds: float,
    seen: Callable[[AppliedCommand], None] | None = None,
) -> CommandLog:
    """Read a log to its end, and no further; a degraded log is returned up to where it stopped.

    Raises: TimedOut, Unreachable, NotAuthorized, ClusterError.
    """
    with CommandLog(access, service_id, seen) as log:
        try:
            log.catch_up(Deadline.after(seconds))
        except LogDegraded as error:
            if log.degraded is None:
                raise ClusterError(str(error)) from error
        return log
