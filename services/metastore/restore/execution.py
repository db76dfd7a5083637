"""Restores a command topic, every command at its original offset, and proves it.

Writes restored commands to an empty topic, each at its original offset, by one commit.

Two transactions overlap (M3). One contains the commands and is committed once, at the end. The
other fills the gaps with pads that no reader ever sees, and is aborted once. Its abort marker takes
an offset too, so it is aborted at the last offset without a command.

Carries out a restore: snapshot, fence, new topic, every command at its offset, proof.

One commit makes all commands visible together; a crash before it leaves an empty topic and the
snapshot. Running the same command again resumes from the existing state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from uuid import UUID

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    EvidenceChanged,
    OutcomeUnknown,
    TimedOut,
)
from breakglass.services.guard.journal import Journal
from breakglass.services.guard.steps import RESTORE_COMMAND_TOPIC
from breakglass.services.kafka.admin_client import TopicClient
from breakglass.services.kafka.cluster.settings import MIN_ISR
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.metastore.backup_run import BackupJob, run_backup
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.writer import TRANSACTION_MS, Transactions
from breakglass.services.metastore.restore.plan import SNAPSHOT, MetastoreRestorePlan, PresentTopic
from breakglass.services.metastore.topic import (
    TopicReader,
    read_topic_state,
    stable_end,
    topic_id_at,
)
from breakglass.services.model import TopicPartition
from breakglass.services.session import ReadAccess


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
        self, sender: Sender, records: Sender, plan: MetastoreRestorePlan, tell: TellStep
    ) -> None:
        self._sender, self._tell, self._topic = sender, tell, plan.topic
        self._records = plan.source.records
        service = plan.settings.service_id
        offsets = [command.record.offset for command in plan.source.commands]
        self._steps = list(steps(offsets))
        lasts = min(SHORTEST_MS + STEP_MS * len(self._steps), TRANSACTION_MS)
        self._commands = Transactions(records, plan.topic, service, timeout_ms=lasts)
        self._pads: Transactions | None = None
        if needs_pads(offsets):
            pads = PADS_ID.format(service_id=service)
            self._pads = Transactions(records, plan.topic, pads, timeout_ms=lasts)

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
            if isinstance(step, CommandRange):
                for at in range(step.start, step.end, AT_ONCE):
                    records = self._records[at : min(at + AT_ONCE, step.end)]
                    got = self._commands.send(records)
                    _check(got, step.offset + at - step.start)
            elif isinstance(step, Pads):
                assert self._pads is not None
                for at in range(0, step.count, AT_ONCE):
                    some = min(AT_ONCE, step.count - at)
                    _check(self._pads.send([PAD] * some), step.offset + at)
            else:
                # Abort, and wait for the marker: the coordinator writes it after it has answered.
                assert self._pads is not None
                self._pads.abort()
                deadline = Deadline.after(patience.JOB)
                while (end := self._log_end(deadline)) <= step.offset:
                    wait(deadline, "the marker of the aborted transaction")
                if end != step.offset + 1:
                    raise _disturbed(step.offset, end - 1)
        self._tell("committing")
        # Commit; after a lost answer, ask the same producer again, then read the log (M1).
        try:
            self._commands.commit()
        except OutcomeUnknown:
            if not self._commands.commit_again():
                self._tell("the commit was not answered: the topic itself tells")

    def give_up(self) -> None:
        """Abort open transactions, so that the next writer need not wait for their timeout."""
        for transactions in (self._commands, self._pads):
            if transactions is not None:
                with suppress(BreakglassError):
                    transactions.abort()

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


@dataclass(slots=True)
class RestoredMetastore:
    """The result of a restore."""

    topic: str
    commands: int
    snapshot: str = ""
    """The backup of the replaced topic; empty if there was no topic."""
    topic_id: str = ""
    verified: bool = False
    differences: list[str] = field(default_factory=list)
    already: bool = False
    """Nothing was to be done."""

    @property
    def state(self) -> str:
        """``identical`` if the whole topic was compared and nothing differs; else what differs."""
        return "identical" if self.verified else f"DIFFERS: {'; '.join(self.differences[:3])}"


@dataclass(frozen=True, slots=True)
class RestoreWork:
    """The resources of a restore; exists only in an armed session."""

    access: ReadAccess
    client: ReadClient
    topics: TopicClient
    records: Sender
    journal: Journal
    snapshots: Path
    """The folder in which the restore creates its snapshot."""
    tell: TellStep


def restore(work: RestoreWork, plan: MetastoreRestorePlan) -> RestoredMetastore:
    """Make the topic's content equal to *plan*.

    Raises:
        EvidenceChanged: the topic was changed since the plan was made; nothing was deleted.
        Fenced: a server of the service took its transactional id; no command is visible.
        OutcomeUnknown: a request that changes the cluster was not answered; run the same command
            again.
    """
    if plan.done:
        return RestoredMetastore(plan.topic, len(plan.source.commands), verified=True, already=True)
    present = plan.present
    items = {
        TopicPartition(plan.topic, 0): (
            {
                "file": plan.source.file,
                "commands": len(plan.source.commands),
                "offsets": plan.source.offsets,
                "before": None if present is None else present.topic_id,
                "before_commands": 0 if present is None else present.commands,
                "replicas": plan.replicas,
                "min_insync": plan.min_insync,
                SNAPSHOT: plan.killed and plan.killed.snapshot,
            }
        )
    }
    request = work.journal.request(RESTORE_COMMAND_TOPIC, items)
    try:
        restored = _Restore(work, plan).run()
    except OutcomeUnknown as error:
        _close(work, plan, request, "unknown", str(error))
        raise
    except BaseException as error:
        _close(work, plan, request, "failed", str(error) or type(error).__name__)
        raise
    result = "succeeded" if restored.verified else "differs"
    _close(work, plan, request, result, "; ".join(restored.differences[:3]))
    return restored


def _close(
    work: RestoreWork, plan: MetastoreRestorePlan, request: int, result: str, reason: str
) -> None:
    outcome = {TopicPartition(plan.topic, 0): {"result": result, "reason": reason}}
    work.journal.outcome(request, outcome)


class _Restore:
    def __init__(self, work: RestoreWork, plan: MetastoreRestorePlan) -> None:
        self._work = work
        self._plan = plan
        self._report = RestoredMetastore(plan.topic, len(plan.source.commands))
        if plan.killed is not None:
            self._report.snapshot = plan.killed.snapshot
        self._snapshot_end = 0
        self._writer = RestoreWriter(work.client.sender, work.records, plan, work.tell)

    def run(self) -> RestoredMetastore:
        # Take both transactional ids before any deletion, so that a missing ACL is found early.
        plan, deadline = self._plan, Deadline.after(patience.COMMAND)
        self._work.client.describe(deadline)
        self._work.topics.create(
            plan.topic,
            1,
            _topic_settings(plan),
            deadline,
            replication_factor=plan.replicas,
            validate_only=True,
        )
        self._tell("taking the service's transactional id, so that no server can write")
        self._writer.fence()
        self._snapshot()
        self._replace_topic()
        if self._plan.source.commands:
            try:
                self._writer.write()
            except BaseException:
                self._writer.give_up()
                raise
        self._compare()
        return self._report

    def _snapshot(self) -> None:
        """Back up the existing topic; fenced writers can no longer append to it."""
        present = self._plan.present
        if present is None:
            return
        self._tell("backing up the current topic")
        folder = self._work.snapshots / str(now_ms())
        job = BackupJob(self._plan.topic, folder, checked=False)
        outcome = run_backup(self._work.access, job, lambda _: None)
        if outcome.commands != present.commands or outcome.next_offset < present.next_offset:
            raise EvidenceChanged(
                f"topic {self._plan.topic} held {present.commands:,} commands when this restore "
                f"was agreed to and holds {outcome.commands:,} now: look again, then start again"
            )
        self._snapshot_end = outcome.next_offset
        if outcome.file:
            self._report.snapshot = str(folder / outcome.file)
            named = {SNAPSHOT: self._report.snapshot}
            self._work.journal.note(f"snapshot {self._report.snapshot}", **named)
            self._tell(f"the current topic is backed up in {self._report.snapshot}")

    def _replace_topic(self) -> None:
        plan, deadline = self._plan, Deadline.after(patience.JOB)
        if plan.present is not None:
            self._unchanged(plan.present, deadline)
            self._tell(f"deleting topic {plan.topic}")
            self._work.topics.delete(plan.topic, UUID(plan.present.topic_id), deadline)
        # Wait until no broker knows the topic: a producer could still write to a stale broker.
        while any(self._ids()):
            wait(deadline, f"topic {self._plan.topic} to be deleted")
        self._tell(f"creating topic {plan.topic}")
        self._work.topics.create(
            plan.topic, 1, _topic_settings(plan), deadline, replication_factor=plan.replicas
        )
        self._report.topic_id = self._wait_led(deadline)

    def _unchanged(self, present: PresentTopic, deadline: Deadline) -> None:
        """Return if the topic has no records after the snapshot. Raises: EvidenceChanged."""
        sender, topic = self._work.client.sender, self._plan.topic
        state = read_topic_state(sender, topic, deadline)
        end = None
        if state is not None and state.leader is not None:
            end = stable_end(sender, topic, state.leader, deadline)
        if state is None or state.topic_id != present.topic_id or end != self._snapshot_end:
            raise EvidenceChanged(
                f"topic {topic} was changed after its snapshot was taken, so a server of the "
                "service is running: stop it, then start again"
            )

    def _wait_led(self, deadline: Deadline) -> str:
        while True:
            ids = self._ids()
            if None not in ids and len(set(ids)) == 1:
                state = read_topic_state(self._work.client.sender, self._plan.topic, deadline)
                if state is not None and state.leader is not None and state.topic_id in ids:
                    return state.topic_id
            wait(deadline, f"topic {self._plan.topic} to have a leader")

    def _ids(self) -> list[str | None]:
        deadline = Deadline.after(patience.COMMAND)
        client = self._work.client
        return [
            topic_id_at(client.sender, self._plan.topic, broker, deadline)
            for broker in client.describe(deadline).live
        ]

    def _compare(self) -> None:
        """Read the topic back, and compare every command, offset, timestamp and header."""
        self._tell("reading back and comparing")
        deadline = Deadline.after(patience.JOB)
        wanted = self._plan.source.records
        reader = TopicReader(self._work.client, self._plan.topic)
        read: list[CommandRecord] = []
        while len(read) < len(wanted):
            batch = reader.poll(0.5)
            read += batch.records
            if batch.at_end and not batch.records:
                if deadline.passed:
                    break
                time.sleep(LOOK_SECONDS)
        found = []
        for one, other in zip(wanted, read, strict=False):
            expected = (
                one
                if one.timestamp_ms is not None
                else one._replace(timestamp_ms=other.timestamp_ms)
            )
            if expected != other:
                found.append(f"the command of offset {one.offset:,} is another at {other.offset:,}")
        if len(wanted) != len(read):
            found.append(f"the topic holds {len(read):,} commands and the backup {len(wanted):,}")
        self._report.differences = [*found]
        self._report.verified = not self._report.differences

    def _tell(self, what: str) -> None:
        self._work.tell(what)


def _topic_settings(plan: MetastoreRestorePlan) -> dict[str, str]:
    """The settings that ksqlDB gives its command topic (KsqlInternalTopicUtils.ensureTopic)."""
    settings = {
        "retention.ms": "-1",
        "cleanup.policy": "delete",
        "unclean.leader.election.enable": "false",
    }
    if plan.min_insync is not None:
        settings[MIN_ISR] = plan.min_insync
    return settings
