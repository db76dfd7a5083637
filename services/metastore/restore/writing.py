"""Writes restored commands to an empty topic, each at its original offset, by one commit.

Two transactions overlap (M3). One contains the commands and is committed once, at the end. The
other fills the gaps with pads that no reader ever sees, and is aborted once. Its abort marker takes
an offset too, so it is aborted at the last offset without a command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, ClusterError, OutcomeUnknown, TimedOut
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.restore.plan import MetastoreRestorePlan
from breakglass.services.metastore.topic_state import read_topic_state
from breakglass.services.metastore.transactions import TRANSACTION_MS, Transactions
from breakglass.services.model import TopicPartition


@dataclass(frozen=True, slots=True)
class CommandRange:
    """Send the commands ``[start, end)`` of the list; they get the offsets from *offset* on."""

    start: int
    end: int
    offset: int


@dataclass(frozen=True, slots=True)
class Pads:
    """Send this number of records in the transaction to be aborted."""

    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class AbortPads:
    """Abort the transaction of the pads: its marker gets this offset."""

    offset: int


Step = CommandRange | Pads | AbortPads


def needs_pads(offsets: Sequence[int]) -> bool:
    """Whether there is a gap before the last command."""
    return bool(offsets) and offsets[-1] + 1 > len(offsets)


def steps(offsets: Sequence[int]) -> Iterator[Step]:
    """The sends to an empty log after which command i has the offset ``offsets[i]``.

    The abort marker fills the last gap. If the only gap is a single offset, a pad fills it, because
    a transaction without records leaves no marker; the marker then follows the last command.

    Raises ValueError for offsets that do not grow.
    """
    if any(one >= other for one, other in pairwise(offsets)) or (offsets and offsets[0] < 0):
        raise ValueError("offsets have to grow")
    free = offsets[-1] + 1 - len(offsets) if offsets else 0
    open_pads = free > 0
    at = 0
    for start, end in _runs(offsets):
        gap = offsets[start] - at
        free -= gap
        last = gap > 0 and free == 0
        pads = gap - 1 if last and at + gap - 1 > start else gap
        if pads:
            yield Pads(pads, at)
        if pads < gap:
            yield AbortPads(at + pads)
            open_pads = False
        at = offsets[start] + end - start
        yield CommandRange(start, end, offsets[start])
    if open_pads:
        yield AbortPads(at)


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of commands without a gap between them."""
    start = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] != offsets[index - 1] + 1:
            yield start, index
            start = index


LOOK_SECONDS = 0.05
PADS_ID = "{service_id}-breakglass-pads"
"""The second transactional id: its transaction fills gaps and is aborted."""
PAD = CommandRecord(0, None, b"breakglass pad")
SHORTEST_MS, STEP_MS = 60_000, 100
"""Timeout of the transactions: they block every reader if this process is killed."""
AT_ONCE = 1_000
"""Records for each flush."""

TellStep = Callable[[str], None]


class RestoreWriter:
    """The two transactions of one restore: the commands, and the pads."""

    def __init__(
        self,
        sender: Sender,
        connection: Mapping[str, Any],
        plan: MetastoreRestorePlan,
        tell: TellStep,
    ) -> None:
        self._sender, self._tell, self._topic = sender, tell, plan.topic
        self._records = plan.source.records
        service = plan.settings.service_id
        offsets = [command.record.offset for command in plan.source.commands]
        self._steps = list(steps(offsets))
        lasts = min(SHORTEST_MS + STEP_MS * len(self._steps), TRANSACTION_MS)
        self._commands = Transactions(connection, service, timeout_ms=lasts)
        self._pads: Transactions | None = None
        if needs_pads(offsets):
            pads = PADS_ID.format(service_id=service)
            self._pads = Transactions(connection, pads, timeout_ms=lasts)

    def fence(self) -> None:
        """Take both transactional ids, so that no server of the service can write."""
        if self._pads is not None:
            self._pads.init()
        self._commands.init()

    def write(self) -> None:
        """Write and commit everything.

        Raises:
            Fenced: a server of the service took its transactional id; no command is visible.
            ClusterError: another client wrote to the topic; no command is visible.
            TimedOut: the marker of the aborted transaction did not appear.
        """
        self._tell(f"writing {len(self._records):,} commands, none visible yet")
        self._commands.begin()
        if self._pads is not None:
            self._pads.begin()
        for step in self._steps:
            self._do(step)
        self._tell("committing")
        self._commit()

    def give_up(self) -> None:
        """Abort open transactions, so that the next writer need not wait for their timeout."""
        for transactions in (self._commands, self._pads):
            if transactions is not None:
                with suppress(BreakglassError):
                    transactions.abort()

    def _do(self, step: Step) -> None:
        if isinstance(step, CommandRange):
            for at in range(step.start, step.end, AT_ONCE):
                records = self._records[at : min(at + AT_ONCE, step.end)]
                got = self._commands.send(self._topic, records)
                _check(got, step.offset + at - step.start)
        elif isinstance(step, Pads):
            assert self._pads is not None
            for at in range(0, step.count, AT_ONCE):
                some = min(AT_ONCE, step.count - at)
                _check(self._pads.send(self._topic, [PAD] * some), step.offset + at)
        else:
            self._abort_pads(step)

    def _abort_pads(self, step: AbortPads) -> None:
        """Abort, and wait for the marker: the coordinator writes it after it has answered."""
        assert self._pads is not None
        self._pads.abort()
        deadline = Deadline.after(patience.JOB)
        while (end := self._log_end(deadline)) <= step.offset:
            wait(deadline, "the marker of the aborted transaction")
        if end != step.offset + 1:
            raise _disturbed(step.offset, end - 1)

    def _log_end(self, deadline: Deadline) -> int:
        from breakglass.services.kafka.replicas.list_offsets import (
            LATEST,
            LEADER_ONLY,
            list_offsets,
        )

        state = read_topic_state(self._sender, self._topic, deadline)
        if state is None or state.leader is None:
            return -1
        partition = TopicPartition(self._topic, 0)
        told = list_offsets(
            self._sender, state.leader, [partition], LATEST, deadline, replica_id=LEADER_ONLY
        )[partition]
        return getattr(told, "offset", -1)

    def _commit(self) -> None:
        """Commit; after a lost answer, ask the same producer again, then read the log (M1)."""
        try:
            self._commands.commit()
        except OutcomeUnknown:
            if not self._commands.commit_again():
                self._tell("the commit was not answered: the topic itself tells")


def _check(offsets: list[int], first: int) -> None:
    if offsets != list(range(first, first + len(offsets))):
        raise _disturbed(first, offsets[0])


def _disturbed(wanted: int, got: int) -> ClusterError:
    return ClusterError(
        f"the new topic has something at offset {wanted:,} that is not ours (a record of ours got "
        f"{got:,}): another writer is at work; nothing of this restore is visible, stop it and run "
        "the same command again"
    )


def wait(deadline: Deadline, what: str) -> None:
    """Sleep briefly between checks for *what*. Raises TimedOut after *deadline*."""
    if deadline.passed:
        raise TimedOut(f"waited too long for {what}: run the same command again")
    time.sleep(LOOK_SECONDS)
