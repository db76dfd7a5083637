"""Writes statements to the command topic by the transactional protocol, one writer at a time.

The nine steps of the protocol have gaps that this writer closes. A statement is also validated
before any writer is fenced, so that a rejected statement disturbs no other writer. A fenced writer
restarts after a random wait. After a failed commit only the log shows the outcome (M1), so the
writer reads it to its end under the same transactional id before it retries. A statement is done
when the writer's own reader has passed it (M2).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import uuid4

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, ClusterError, OutcomeUnknown, Unreachable
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.producer import Fenced, TransactionFailed
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.metastore.command import CommandId
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.reader import MARK, CommandLog
from breakglass.services.metastore.log.validator import NothingToDo, Planned, Validator
from breakglass.services.metastore.transactions import Transactions
from breakglass.services.model import Unknown

TRANSACTION_MS = 10_000
"""How long a killed writer blocks readers, unless another writer takes its place."""
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
SLOW_WAIT = 8.0
"""Longest pause after a slow attempt, in its durations: else writers fence each other forever."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A statement in the log that the writer's own reader has passed."""

    id: CommandId | None
    """None: nothing was to be done."""
    offset: int | None
    query_id: str | None
    attempts: int
    seconds: float
    reason: str = ""
    """Why nothing was to be done."""


@dataclass(slots=True)
class _Attempts:
    """The attempts to write one statement."""

    text: str
    properties: Mapping[str, Any]
    mark: str
    deadline: Deadline
    began: float
    """Seconds, on the monotonic clock."""
    count: int = 0
    planned: Planned | None = None
    uncertain: bool = False
    """A commit with an unknown outcome was sent."""


class CommandWriter:
    """Submits statements; exists only in armed sessions. Not thread-safe."""

    def __init__(self, log: CommandLog, sender: Sender, validator: Validator) -> None:
        self._log = log
        self._sender = sender
        self._validator = validator

    def submit(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        *,
        seconds: float = patience.JOB,
    ) -> Submitted:
        """Write *text* as a command, within *seconds*.

        Raises:
            StatementRejected: the statement is invalid; nothing was written.
            LogDegraded: the log cannot be read to its end; nothing was written.
            OutcomeUnknown: the statement may be in the log: check before retrying.
            Fenced, TimedOut: other writers interfere, or brokers do not answer; nothing was
                written.
            NotAuthorized, ClusterError: the cluster refused; nothing was written.
        """
        began = time.monotonic()
        deadline = Deadline.after(seconds)
        one = _Attempts(text, properties or {}, uuid4().hex, deadline, began)
        self._log.watch_for(one.mark)
        try:
            return self._until_decided(one)
        finally:
            self._log.forget(one.mark)

    def _until_decided(self, one: _Attempts) -> Submitted:
        longest = FIRST_WAIT
        while True:
            one.count += 1
            began = time.monotonic()
            try:
                return self._attempt(one)
            except (Fenced, TransactionFailed, Unreachable, OutcomeUnknown) as error:
                if one.deadline.passed:
                    self._give_up(one, error)
            except BreakglassError as error:
                self._give_up(one, error)
            took = time.monotonic() - began
            time.sleep(min(random.uniform(0, longest), one.deadline.remaining()))
            longest = min(2 * longest, max(LONGEST_WAIT, SLOW_WAIT * min(took, 1.0)))

    def _give_up(self, one: _Attempts, error: BreakglassError) -> NoReturn:
        if not one.uncertain:
            raise error
        raise OutcomeUnknown(
            f"whether the statement is in topic {self._log.topic} is unknown ({error}): look for a "
            f"command with the header {MARK}={one.mark} before trying again"
        ) from error

    def _attempt(self, one: _Attempts) -> Submitted:
        self._log.catch_up(one.deadline)
        if self._log.found(one.mark) is not None:
            return self._done(one)
        if not one.uncertain:
            told = self._validated(one)
            if isinstance(told, NothingToDo):
                return self._nothing(one, told)
        producer = Transactions(
            self._sender,
            self._log.topic,
            self._log.service_id,
            timeout_ms=TRANSACTION_MS,
            seconds=min(patience.REQUEST, max(one.deadline.remaining(), 1.0)),
        )
        producer.init()
        producer.begin()
        try:
            return self._in_transaction(one, producer)
        except BaseException:
            with suppress(BreakglassError):
                producer.abort()
            raise

    def _in_transaction(self, one: _Attempts, producer: Transactions) -> Submitted:
        """The log can no longer change: a later writer fences this one, so its commit fails."""
        self._log.catch_up(one.deadline)
        if self._log.found(one.mark) is not None:
            producer.abort()
            return self._done(one)
        one.uncertain = False
        planned = self._validated(one)
        if isinstance(planned, NothingToDo):
            producer.abort()
            return self._nothing(one, planned)
        headers = ((MARK, one.mark.encode()),)
        record = CommandRecord(0, planned.id.to_json(), planned.value, None, headers)
        (offset,) = producer.send([record])
        one.planned, one.uncertain = planned, True
        try:
            producer.commit()
        except OutcomeUnknown:
            if not producer.commit_again():
                raise
        self._log.read_to(offset + 1, one.deadline)
        if self._log.found(one.mark) is None:
            raise ClusterError("the commit was confirmed and the command is not in the log")
        return self._done(one)

    def _validated(self, one: _Attempts) -> Planned | NothingToDo:
        snapshot = self._log.metastore.snapshot()
        return self._validator.validate(one.text, snapshot, one.properties)

    def _done(self, one: _Attempts) -> Submitted:
        assert one.planned is not None
        seconds = time.monotonic() - one.began
        offset = self._log.found(one.mark)
        return Submitted(one.planned.id, offset, one.planned.query_id, one.count, seconds)

    def _nothing(self, one: _Attempts, told: NothingToDo) -> Submitted:
        seconds = time.monotonic() - one.began
        return Submitted(None, None, None, one.count, seconds, told.reason)


class TopicsNow:
    """Asks the cluster on each call."""

    def __init__(self, client: ReadClient) -> None:
        self._client = client
        self._known = False

    def __call__(self, topic: str) -> bool | Unknown:
        """Whether *topic* exists; Unknown with the reason if the cluster does not answer."""
        deadline = Deadline.after(patience.BRIEF)
        try:
            if not self._known:
                self._client.describe(deadline)
                self._known = True
            return bool(read_partitions(self._client.sender, deadline, [topic]))
        except BreakglassError as error:
            return Unknown(str(error))
