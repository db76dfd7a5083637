"""Changes a command topic: restores it, or submits one statement.

A restore backs up, deletes and recreates the topic, and compares the result. A statement goes to
the topic by ksqlDB's transactional protocol, or to a server, and the topic shows what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, NoReturn
from urllib.parse import SplitResult

from breakglass.services import patience
from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    ClusterError,
    OutcomeUnknown,
    Refused,
)
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    ActStep,
    Armed,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
    announced,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import Journal, journal_in_turn, list_journals
from breakglass.services.guard.steps import SUBMIT_STATEMENT
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.metastore.command import CommandId
from breakglass.services.metastore.ksql_server import (
    KsqlServer,
    ServerAccepted,
    ServerNeedless,
    ServerRejected,
    ServerReply,
)
from breakglass.services.metastore.log.reader import AppliedCommand, CommandLog
from breakglass.services.metastore.log.validator import (
    NameValidator,
    NothingToDo,
    Planned,
    StatementRejected,
)
from breakglass.services.metastore.log.writer import (
    TRANSACTION_MS,
    CommandWriter,
    TopicsNow,
    Transactions,
)
from breakglass.services.metastore.restore.execution import RestoreWork, restore
from breakglass.services.metastore.restore.plan import MetastoreRestorePlan, going_on, make_plan
from breakglass.services.metastore.settings import command_topic, private_folder
from breakglass.services.metastore.statements.parsing import InvalidStatement, parse
from breakglass.services.model import TopicPartition
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.metastore.restore.plan import RestoreSource
    from breakglass.services.metastore.settings import MetastoreSettings


SNAPSHOTS = "before-restore"
"""The folder next to a backup for backups of replaced topics."""
DIFFERS = "differs"
"""How a journal records a topic that differs from the backup."""


@dataclass(frozen=True, slots=True)
class RestoreCommandTopic(Act[MetastoreRestorePlan]):
    """Replace the content of the command topic with *source*."""

    doing: ClassVar[str] = "restoring the command topic"
    read_source: Callable[[], RestoreSource]
    settings: MetastoreSettings
    snapshots: Path
    servers: tuple[SplitResult, ...] = ()
    """URLs of ksqlDB servers to ask whether they run."""

    def freeze(self, front: Front) -> Frozen[MetastoreRestorePlan]:
        source = self.read_source()
        with front.reading() as client:
            plan = make_plan(client, self.settings, source, self.servers)
        return frozen_plan(going_on(plan, list_journals(plan.cluster_id, front.state_folder)))

    def carry_out(self, front: Front, means: Means, frozen: Frozen[MetastoreRestorePlan]) -> Ending:
        """Replace the topic; the ending's value is the `RestoredMetastore`."""
        private_folder(self.snapshots)
        access, plan = front.cluster, frozen.plan
        front.tell(Armed())
        with (
            front.reading() as client,
            means.cluster.command_topic(plan.cluster_id) as topics,
            means.cluster.records(plan.cluster_id) as records,
        ):
            work = RestoreWork(
                access,
                client,
                topics,
                records,
                means.journal,
                self.snapshots,
                lambda step: front.tell(ActStep(step)),
            )
            done = restore(work, plan)
        text = f"{done.commands:,} commands restored, {done.state}"
        result = TargetResult.DONE if done.verified else TargetResult.FAILED
        front.tell(TargetOutcome(f"{plan.topic}-0", result, text))
        return Ending(SUCCEEDED if done.verified else DIFFERS, text, done)


def frozen_plan(plan: MetastoreRestorePlan) -> Frozen[MetastoreRestorePlan]:
    """*plan* as the user consents to it."""
    return Frozen(
        plan.cluster_id,
        () if plan.done else (ConsentPhrase(plan.phrase),),
        tuple(_facts(plan)),
        (f"{plan.topic}-0",),
        tuple(_remarks(plan)),
        plan,
        sha256(repr(plan.source.commands).encode()).hexdigest(),
    )


def _facts(plan: MetastoreRestorePlan) -> Iterator[tuple[str, str]]:
    source, present = plan.source, plan.present
    yield "Backup", f"{source.file}"
    yield "Commands", f"{len(source.commands):,}, offsets {source.offsets.value}"
    if plan.done:
        yield "Topic", f"{plan.topic} holds these very commands already: nothing is to be done"
    elif present is None:
        yield "Topic", plan.creation
    else:
        yield (
            "Topic",
            f"{plan.topic} holds {present.commands:,} commands and will be deleted; "
            f"{present.lost:,} of them are not in the backup",
        )


def _remarks(plan: MetastoreRestorePlan) -> Iterator[str]:
    if plan.shortage:
        yield plan.shortage
    for server in plan.servers.seen:
        yield f"a server seems to run: {server}"
    for unseen in plan.servers.unseen:
        yield f"? {unseen}"


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

        Raises UsageError, Refused: the statement cannot be read, or contradicts the metastore.
        """
        access, deadline = front.cluster, Deadline.after(self.seconds)
        with CommandLog(access, self.service_id) as log, front.reading() as client:
            cluster_id = client.describe(deadline).cluster_id
            log.catch_up(deadline)
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
        self, front: Front, means: Means, frozen: Frozen[Planned | NothingToDo]
    ) -> Ending:
        """Write the command; the ending's value is the `Submitted`."""
        with (
            means.cluster.records(frozen.cluster_id) as records,
            front.reading() as client,
            CommandLog(front.cluster, self.service_id) as log,
        ):
            partition = TopicPartition(log.topic, 0)
            items = {partition: {"statement": self.statement}}
            with announced(means.journal, SUBMIT_STATEMENT, items, front.tell):
                # What another writer did since consent may be why the statement needs a server.
                validator = NameValidator(TopicsNow(client), executable_only=not self.without_plan)
                writer = CommandWriter(log, records, validator)
                done = writer.submit(self.statement, seconds=self.seconds)
        text = done.reason if done.id is None else f"{done.id} is at offset {done.offset:,}"
        front.tell(TargetOutcome(str(partition), TargetResult.DONE, text))
        return Ending(text=text, value=done)


FAILED = "ERROR"
"""The status of a command that the server could not execute."""


class HandedStatement(NamedTuple):
    """What became of a statement that a server was given."""

    id: str | None
    """None: nothing was to be done."""
    offset: int | None
    status: str
    message: str

    @property
    def failed(self) -> bool:
        """Whether the command is in the log, and the server could not execute it."""
        return self.status == FAILED


@dataclass(frozen=True, slots=True)
class HandToServer(Act[CommandId]):
    """Let *server* plan *statement* and write the command for *service_id*."""

    doing: ClassVar[str] = "submitting a statement"
    service_id: str
    statement: str
    server: KsqlServer
    seconds: float = patience.JOB

    def freeze(self, front: Front) -> Frozen[CommandId]:
        """The command that the server would write.

        Raises:
            StatementRejected: the statement cannot be read.
            Refused: the server belongs to another service or cluster.
            ConnectFailed, AuthenticationFailed, ClusterError: the server does not say who it is.
        """
        try:
            command_id = parse(self.statement).command_id
        except InvalidStatement as error:
            told = error.placed(self.statement)
            raise StatementRejected(f"the statement was refused: {told}.") from None
        access, topic = front.cluster, command_topic(self.service_id)
        deadline = Deadline.after(self.seconds)
        with CommandLog(access, self.service_id) as log, front.reading() as client:
            cluster_id = client.describe(deadline).cluster_id
            log.catch_up(deadline)
        info = self.server.info(max(deadline.remaining(), 1.0))
        if (info.service_id, info.cluster_id) != (self.service_id, cluster_id):
            raise Refused(
                f"{self.server} is a server of service {inert(info.service_id)} on cluster "
                f"{inert(info.cluster_id)}, not of {self.service_id} on {cluster_id}: name a "
                "server of this service"
            )
        return Frozen(
            cluster_id,
            (ConsentPhrase(inert(f"{topic} {command_id}")),),
            (
                ("Statement", " ".join(self.statement.split())),
                ("Server", f"{self.server}, ksqlDB {inert(info.version)}"),
            ),
            (f"{topic}-0",),
            plan=command_id,
        )

    def open_journal(self, agreed: Frozen[CommandId], folder: Path | None) -> Journal:
        return journal_in_turn(agreed.cluster_id, folder, self.seconds)

    def carry_out(self, front: Front, means: Means, frozen: Frozen[CommandId]) -> Ending:
        """Send the statement and observe the topic; the ending's value is the `HandedStatement`."""
        deadline, seen = Deadline.after(self.seconds), list[AppliedCommand]()
        with (
            # Raises ReadOnly before anything can be sent.
            means.cluster.records(frozen.cluster_id) as records,
            CommandLog(front.cluster, self.service_id, seen.append) as log,
        ):
            before = log.catch_up(deadline)
            partition = TopicPartition(log.topic, 0)
            items = {partition: {"statement": self.statement, "server": str(self.server)}}
            with (
                self.server.connected(max(deadline.remaining(), 1.0)) as connection,
                announced(means.journal, SUBMIT_STATEMENT, items, front.tell),
            ):
                reply = self.server.submit(connection, self.statement)
                done = _Observed(log, records, seen, before, frozen.plan, deadline).decided(reply)
        text = done.message if done.id is None else f"{done.id} is at offset {done.offset:,}"
        if done.failed:
            text = f"{text}, and the server could not execute it: {done.message}"
        result = TargetResult.FAILED if done.failed else TargetResult.DONE
        front.tell(TargetOutcome(str(partition), result, text))
        return Ending(PARTLY_FAILED if done.failed else SUCCEEDED, text, done)


@dataclass(frozen=True, slots=True)
class _Observed:
    """The command topic after the request."""

    log: CommandLog
    records: Sender
    seen: list[AppliedCommand]
    before: int
    """The end of the log when the statement was sent."""
    wanted: CommandId
    deadline: Deadline

    @property
    def _looking(self) -> Deadline:
        """The time to look at the topic, some of it after the server took all of its own."""
        return Deadline.after(max(self.deadline.remaining(), patience.REQUEST))

    def decided(self, reply: ServerReply) -> HandedStatement:
        """What became of the statement, by *reply* and by what the log has.

        Raises: StatementRejected, AuthenticationFailed, ClusterError, OutcomeUnknown.
        """
        if isinstance(reply, ServerNeedless):
            return HandedStatement(None, None, "", reply.message)
        if isinstance(reply, ServerAccepted):
            return self._confirmed(reply)
        if isinstance(reply, ServerRejected):
            if reply.status in (401, 403):
                raise AuthenticationFailed(f"the server refused: {reply.message}")
            if reply.wrote_nothing:
                raise StatementRejected(f"the server refused the statement: {reply.message}")
            return self._settled(reply)
        # The server may be at work: taking its transactional id would be what stops it.
        try:
            with_this = self._found()
        except BreakglassError as error:
            with_this = str(error)
        return self._unknown(reply.reason if with_this is None else f"{reply.reason}; {with_this}")

    def _confirmed(self, reply: ServerAccepted) -> HandedStatement:
        """The command that the server named, once the log has it (M2)."""
        try:
            self.log.read_to(reply.offset + 1, self._looking)
        except BreakglassError as error:
            self._unknown(
                f"the server says that {inert(reply.command_id)} is at offset {reply.offset:,}, "
                f"which could not be read ({error})"
            )
        there = [one for one in self.seen if one.offset == reply.offset]
        if reply.offset < self.before or [str(one.id) for one in there] != [reply.command_id]:
            self._unknown(
                f"the server says that {inert(reply.command_id)} is at offset {reply.offset:,}, "
                "and the topic has another command there, or none"
            )
        return HandedStatement(reply.command_id, reply.offset, reply.status, reply.message)

    def _settled(self, reply: ServerRejected) -> NoReturn:
        """The server's attempt is over: take its id, so that the log can be read for good (M1)."""
        try:
            Transactions(
                self.records,
                self.log.topic,
                self.log.service_id,
                timeout_ms=TRANSACTION_MS,
                seconds=self._looking.remaining(),
            ).init()
            with_this = self._found()
        except BreakglassError as error:
            self._unknown(f"the server answered: {reply.message}; the topic: {error}")
        if with_this is not None:
            self._unknown(f"the server answered: {reply.message}; {with_this}")
        raise ClusterError(
            f"the server could not write the statement: {reply.message}; the topic does not have "
            "it, so it can be submitted again"
        )

    def _found(self) -> str | None:
        """A sentence if a command of this id came after the statement was sent."""
        self.log.catch_up(self._looking)
        for command in self.seen:
            if command.offset >= self.before and command.id == self.wanted:
                return (
                    f"a command {inert(str(command.id))}, of this or of another writer, is at "
                    f"offset {command.offset:,}"
                )
        return None

    def _unknown(self, why: str) -> NoReturn:
        raise OutcomeUnknown(
            f"whether the statement is in topic {self.log.topic} is unknown: {why}. Look with "
            "`breakglass ksql show --history` before trying again"
        )
