"""Submits a statement to ksqlDB's command topic by the transactional protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.guard.act import (
    Act,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
    announced,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import Journal, journal_in_turn
from breakglass.services.guard.steps import SUBMIT_STATEMENT
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.metastore.log.reader import CommandLog
from breakglass.services.metastore.log.validator import NameValidator, NothingToDo, Planned
from breakglass.services.metastore.log.writer import CommandWriter, TopicsNow
from breakglass.services.metastore.settings import command_topic
from breakglass.services.model import TopicPartition
from breakglass.services.words.inert import inert


@dataclass(frozen=True, slots=True)
class SubmitStatement(Act[Planned | NothingToDo]):
    """Append *statement* to the command topic of *service_id*."""

    doing: ClassVar[str] = "submitting a statement"
    service_id: str
    statement: str
    seconds: float = patience.JOB
    without_plan: bool = False
    """Write the statement although it needs a server."""

    def freeze(self, front: Front) -> Frozen[Planned | NothingToDo]:
        """The command to write.

        Raises:
            UsageError, Refused: the statement cannot be read, or contradicts the metastore.
        """
        access = front.cluster
        with (
            access.librdkafka() as clients,
            CommandLog(access, clients, self.service_id) as log,
            front.reading() as client,
        ):
            cluster_id = client.describe(Deadline.after(patience.JOB)).cluster_id
            log.catch_up(Deadline.after(patience.JOB))
            planned = NameValidator(TopicsNow(client)).validate(
                self.statement, log.metastore.snapshot(), {}
            )
        needed, topic = isinstance(planned, Planned), command_topic(self.service_id)
        phrase = inert(f"{topic} {planned.id}") if isinstance(planned, Planned) else ""
        return Frozen(
            cluster_id,
            (ConsentPhrase(phrase),) if needed else (),
            (("Statement", " ".join(self.statement.split())),),
            (f"{topic}-0",),
            plan=planned,
        )

    def open_journal(self, agreed: Frozen[Planned | NothingToDo], folder: Path | None) -> Journal:
        return journal_in_turn(agreed.cluster_id, folder, self.seconds)

    def carry_out(
        self,
        front: Front,
        means: Means,
        frozen: Frozen[Planned | NothingToDo],  # noqa: ARG002
    ) -> Ending:
        """Write the command; the ending's value is the `Submitted`."""
        with (
            means.cluster.librdkafka() as clients,
            front.reading() as client,
            CommandLog(front.cluster, clients, self.service_id) as log,
        ):
            partition = TopicPartition(log.topic, 0)
            items = {partition: {"statement": self.statement}}
            with announced(means.journal, SUBMIT_STATEMENT, items, front.tell):
                # What another writer did since consent may be why the statement needs a server.
                validator = NameValidator(TopicsNow(client), executable_only=not self.without_plan)
                writer = CommandWriter(log, clients, validator)
                done = writer.submit(self.statement, seconds=self.seconds)
        text = done.reason if done.id is None else f"{done.id} is at offset {done.offset:,}"
        front.tell(TargetOutcome(str(partition), TargetResult.DONE, text))
        return Ending(text=text, value=done)
