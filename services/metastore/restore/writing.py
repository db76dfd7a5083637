"""Writes the commands of a restore into an empty topic, each at its own offset, by one commit.

Nothing is visible before the commit, and what fills the gaps (`layout`) never is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from breakglass.services.errors import BreakglassError, ClusterError, OutcomeUnknown, TimedOut
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.restore.layout import (
    AbortPads,
    CommandRange,
    Pads,
    Step,
    needs_pads,
    steps,
)
from breakglass.services.metastore.restore.plan import MetastoreRestorePlan
from breakglass.services.metastore.topic_state import read_topic_state
from breakglass.services.metastore.transactions import TRANSACTION_MS, Transactions
from breakglass.services.model import TopicPartition

WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.05
PADS_ID = "{service_id}-breakglass-pads"
"""The second transactional id, of the transaction that fills gaps and is aborted."""
PAD = CommandRecord(0, None, b"breakglass pad")
SHORTEST_MS, STEP_MS = 60_000, 100
"""How long the transactions may be open: they hold up every reader if this process is killed."""
AT_ONCE = 1_000
"""Records of one flush."""

TellStep = Callable[[str], None]


class RestoreWriter:
    """Both transactions of one restore: that of the commands, and that of the pads."""

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
        offsets = [one.record.offset for one in plan.source.commands]
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
            Fenced: a server of the service took its transactional id; nothing can be seen.
            ClusterError: something else was written meanwhile; nothing can be seen.
            TimedOut: the marker of the aborted transaction did not come.
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
        """Abort what is open, so that whoever comes next need not wait until it times out."""
        for one in (self._commands, self._pads):
            if one is not None:
                with suppress(BreakglassError):
                    one.abort()

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
        """Abort, and wait for the marker: the coordinator writes it after it answered."""
        assert self._pads is not None
        self._pads.abort()
        deadline = Deadline.after(WAIT_SECONDS)
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
        """Commit; where the answer is lost, the same producer is asked again, then the log (M1)."""
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
    """A moment, for *what* is looked for again and again. Raises TimedOut after *deadline*."""
    if deadline.passed:
        raise TimedOut(f"waited too long for {what}: run the same command again")
    time.sleep(LOOK_SECONDS)
