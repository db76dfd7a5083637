"""Carries out a restore: snapshot, fence, new topic, every command at its offset, proof.

One commit makes all commands visible together; a crash before it leaves an empty topic and the
snapshot. Running the same command again resumes from the existing state.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import EvidenceChanged, OutcomeUnknown
from breakglass.services.guard.steps import RESTORE_COMMAND_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.topic_client import TopicClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.metastore.backup_job import BackupJob
from breakglass.services.metastore.backup_run import run_backup
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.restore.plan import MetastoreRestorePlan, PresentTopic
from breakglass.services.metastore.restore.writing import (
    LOOK_SECONDS,
    RestoreWriter,
    TellStep,
    wait,
)
from breakglass.services.metastore.topic_reader import TopicReader
from breakglass.services.metastore.topic_state import read_topic_state, stable_end, topic_id_at
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.record import ExecutionJournal
from breakglass.services.session import ReadAccess


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


@dataclass(frozen=True, slots=True)
class RestoreWork:
    """The resources of a restore; exists only in an armed session."""

    access: ReadAccess
    client: ReadClient
    topics: TopicClient
    connection: Mapping[str, Any]
    journal: ExecutionJournal
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
    items = {TopicPartition(plan.topic, 0): _item(plan)}
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


def _item(plan: MetastoreRestorePlan) -> dict[str, Any]:
    present = plan.present
    return {
        "file": plan.source.file,
        "commands": len(plan.source.commands),
        "offsets": plan.source.offsets,
        "before": None if present is None else present.topic_id,
        "before_commands": 0 if present is None else present.commands,
    }


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
        self._snapshot_end = 0
        self._writer = RestoreWriter(work.client.sender, work.connection, plan, work.tell)

    def run(self) -> RestoredMetastore:
        self._fence()
        self._snapshot()
        self._replace_topic()
        if self._plan.source.commands:
            self._write()
        self._compare()
        return self._report

    def _fence(self) -> None:
        """Take both transactional ids before any deletion, so that a missing ACL is found early."""
        plan, deadline = self._plan, Deadline.after(patience.COMMAND)
        self._work.client.describe(deadline)
        self._work.topics.may_create(
            plan.topic, 1, _topic_settings(plan), deadline, replication_factor=plan.replicas
        )
        self._tell("taking the service's transactional id, so that no server can write")
        self._writer.fence()

    def _snapshot(self) -> None:
        """Back up the existing topic; fenced writers can no longer append to it."""
        present = self._plan.present
        if present is None:
            return
        self._tell("backing up the present topic")
        folder = self._work.snapshots / str(now_ms())
        job = BackupJob(self._plan.topic, folder, checked=False)
        outcome = run_backup(self._work.access, self._work.connection, job, lambda _: None)
        if outcome.commands != present.commands or outcome.next_offset < present.next_offset:
            raise EvidenceChanged(
                f"topic {self._plan.topic} held {present.commands:,} commands when this restore "
                f"was agreed to and holds {outcome.commands:,} now: look again, then start again"
            )
        self._snapshot_end = outcome.next_offset
        if outcome.file:
            self._report.snapshot = str(folder / outcome.file)
            self._work.journal.note(f"snapshot {self._report.snapshot}")
            self._tell(f"the present topic is backed up in {self._report.snapshot}")

    def _replace_topic(self) -> None:
        plan, deadline = self._plan, Deadline.after(patience.JOB)
        if plan.present is not None:
            self._unchanged(plan.present, deadline)
            self._tell(f"deleting topic {plan.topic}")
            self._work.topics.delete(plan.topic, UUID(plan.present.topic_id), deadline)
        self._wait_gone(deadline)
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

    def _wait_gone(self, deadline: Deadline) -> None:
        """Wait until no broker knows the topic: a producer could still write to a stale broker."""
        while any(self._ids()):
            wait(deadline, f"topic {self._plan.topic} to be deleted")

    def _wait_led(self, deadline: Deadline) -> str:
        while True:
            ids = self._ids()
            if None not in ids and len(set(ids)) == 1:
                state = read_topic_state(self._work.client.sender, self._plan.topic, deadline)
                if state is not None and state.leader is not None and state.topic_id in ids:
                    return state.topic_id
            wait(deadline, f"topic {self._plan.topic} to have a leader")

    def _ids(self) -> list[str | None]:
        """The topic's id on each live broker."""
        deadline = Deadline.after(patience.COMMAND)
        client = self._work.client
        return [
            topic_id_at(client.sender, self._plan.topic, broker, deadline)
            for broker in client.describe(deadline).live
        ]

    def _write(self) -> None:
        try:
            self._writer.write()
        except BaseException:
            self._writer.give_up()
            raise

    def _compare(self) -> None:
        """Read the topic back, and compare every command, offset, timestamp and header."""
        self._tell("reading back and comparing")
        deadline = Deadline.after(patience.JOB)
        wanted = self._plan.source.records
        with TopicReader(self._work.connection, self._plan.topic) as reader:
            read: list[CommandRecord] = []
            while len(read) < len(wanted):
                batch = reader.poll(0.5)
                read += batch.records
                if batch.at_end and not batch.records:
                    if deadline.passed:
                        break
                    time.sleep(LOOK_SECONDS)
        self._report.differences = [*_differences(wanted, read)]
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
    if plan.settings.min_insync is not None:
        settings["min.insync.replicas"] = str(plan.settings.min_insync)
    return settings


def _differences(wanted: tuple[CommandRecord, ...], read: list[CommandRecord]) -> list[str]:
    found = []
    for one, other in zip(wanted, read, strict=False):
        expected = (
            one if one.timestamp_ms is not None else one._replace(timestamp_ms=other.timestamp_ms)
        )
        if expected != other:
            found.append(f"the command of offset {one.offset:,} is another at {other.offset:,}")
    if len(wanted) != len(read):
        found.append(f"the topic holds {len(read):,} commands and the backup {len(wanted):,}")
    return found
