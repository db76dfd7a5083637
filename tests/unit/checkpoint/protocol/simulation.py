"""Partitions, their owners and a coordinator, step by step: every step may come at any time.

What a node holds in memory is gone with its owner; logs, committed up to a position, and the store
of copies stay. Nothing here decides about checkpoints: that is `services`' part.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from breakglass.services.checkpoint.protocol import values
from breakglass.services.checkpoint.protocol.values import (
    Acknowledge,
    AppendFollowUp,
    CheckpointRecord,
    CheckpointState,
    Copy,
    CopyId,
    Intent,
    PartitionBackup,
    Status,
    TakeCopy,
    may_become,
)

Transfer = tuple[int, int]
"""The partition that sends, and the position of the command there."""


class Kind(StrEnum):
    CREATE = "create"
    TRANSFER = "transfer"
    RECEIVE = "receive"
    CONFIRM = "confirm"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class Record:
    position: int
    kind: Kind
    checkpoint: int = 0
    """Of a create: its id. Of what a message brought: the id it carried."""
    transfer: Transfer = (0, 0)
    peer: int = 0
    source: int = 0
    """Of an event: the position of the command it follows."""
    follow_up: CheckpointRecord | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What processing a log has led to."""

    checkpoint: CheckpointState = field(default_factory=CheckpointState)
    balance: int = 0
    pending: frozenset[tuple[Transfer, int]] = frozenset()
    """Sent and not confirmed, with where to."""
    received: frozenset[Transfer] = frozenset()
    processed: int = 0

    @property
    def money(self) -> tuple[int, frozenset[tuple[Transfer, int]], frozenset[Transfer]]:
        return self.balance, self.pending, self.received


def process(state: State, partition: int, command: Record) -> State:
    """One unit is moved by each transfer. A create leaves the money alone."""
    balance, pending, received = state.balance, state.pending, state.received
    match command.kind:
        case Kind.TRANSFER:
            balance -= 1
            pending |= {((partition, command.position), command.peer)}
        case Kind.RECEIVE if command.transfer not in received:
            balance += 1
            received |= {command.transfer}
        case Kind.CONFIRM:
            pending = frozenset(pair for pair in pending if pair[0] != command.transfer)
    return State(state.checkpoint, balance, pending, received, command.position)


def up_to(state: State, partition: int, log: Iterable[Record], position: int) -> State:
    """Where processing the commands of *log* up to *position* leads from *state*."""
    for record in log:
        if state.processed < record.position <= position and record.kind is not Kind.EVENT:
            state = process(state, partition, record)
    return state


def settled(states: list[State]) -> list[State]:
    """After a restore: what is pending is sent again, received once, and confirmed."""
    for number, state in enumerate(states):
        for transfer, peer in state.pending:
            to = states[peer]
            if transfer not in to.received:
                received = to.received | {transfer}
                states[peer] = replace(to, balance=to.balance + 1, received=received)
        states[number] = replace(states[number], pending=frozenset())
    return states


CLIENT = -1
"""Where the coordinator is reached."""


@dataclass(frozen=True, slots=True)
class Message:
    to: int
    kind: Kind
    checkpoint: int
    transfer: tuple[int, int] = (0, 0)
    sender: int = CLIENT
    answer: Acknowledge | None = None


Material = tuple[Record, ...]
"""The content of a copy: the log that it holds."""


@dataclass(slots=True)
class Job:
    attempt: values.CopyAttempt
    begun: bool = False
    material: Material | None = None

    @property
    def position(self) -> int:
        assert self.attempt.position is not None
        return self.attempt.position


@dataclass(slots=True)
class Partition:
    number: int
    owner: int = 0
    log: list[Record] = field(default_factory=list)
    committed: int = 0
    state: State = field(default_factory=State)
    jobs: list[Job] = field(default_factory=list)
    cut_off: list[Job] = field(default_factory=list)
    """Of former owners that do not know of it."""

    @property
    def end(self) -> int:
        """The position of the next record."""
        return len(self.log) + 1


class World:
    def __init__(self, partitions: int = 3) -> None:
        self.partitions = [Partition(number) for number in range(partitions)]
        self.messages: list[Message] = []
        self.take: values.Take | None = None
        self.acknowledged: dict[int, list[int]] = {}
        """By checkpoint: the end of each log when the client was told that it had started."""
        self.ids: list[int] = []
        self.copies: dict[CopyId, tuple[Copy, Material | None]] = {}
        self.verdicts: dict[tuple[int, int], str] = {}
        self._numbers = tuple(range(partitions))

    # --- the coordinator

    def ask(self, id: int | None = None) -> None:
        wanted = id if id is not None else max(self.ids, default=0) + 1
        found = values.take(wanted, self._numbers, self.ids)
        assert isinstance(found, values.Take), found
        self.ids.append(wanted)
        self.take = found
        self.request()

    def request(self) -> None:
        """The coordinator asks those that have not answered, again."""
        if self.take is not None:
            for number in self.take.missing:
                self.messages.append(Message(number, Kind.CREATE, self.take.id))

    def fail_over_coordinator(self) -> None:
        if self.take is not None:
            self.take = values.Take(self.take.id, self._numbers)
            self.request()

    def _acknowledge(self, message: Message) -> None:
        if self.take is None or message.answer is None:
            return
        self.take = values.acknowledge(self.take, message.sender, message.answer)
        if self.take.acknowledged:
            self.acknowledged[self.take.id] = [len(partition.log) for partition in self.partitions]
            self.take = None

    # --- the network

    def deliver(self, index: int, *, keep: bool = False) -> None:
        """Any message that is under way arrives; kept, it will arrive again."""
        message = self.messages[index] if keep else self.messages.pop(index)
        if message.to == CLIENT:
            self._acknowledge(message)
            return
        self._arrive(self.partitions[message.to], message)

    def lose(self, index: int) -> None:
        self.messages.pop(index)

    def _arrive(self, partition: Partition, message: Message) -> None:
        if message.kind is Kind.CREATE:
            create = Record(partition.end, Kind.CREATE, message.checkpoint, peer=CLIENT)
            partition.log.append(create)
            return
        effects = values.receive(partition.state.checkpoint, message.checkpoint)
        kinds: list[Kind] = [message.kind]
        if len(effects) == 2:
            kinds = [Kind.CREATE, message.kind]
        for kind in kinds:
            peer = partition.number if kind is Kind.CREATE else message.sender
            transfer = message.transfer
            record = Record(partition.end, kind, message.checkpoint, transfer, peer)
            partition.log.append(record)

    # --- a partition's owner

    def transfer(self, number: int, to: int) -> None:
        log = self.partitions[number].log
        log.append(Record(len(log) + 1, Kind.TRANSFER, peer=to))

    def replicate(self, number: int, count: int = 1) -> None:
        partition = self.partitions[number]
        partition.committed = min(partition.committed + count, len(partition.log))

    def process(self, number: int) -> None:
        partition = self.partitions[number]
        after = partition.state.processed
        found = (
            record
            for record in partition.log[after : partition.committed]
            if record.kind is not Kind.EVENT
        )
        command = next(found, None)
        if command is None:
            return
        partition.state = process(partition.state, number, command)
        follow_up = None
        if command.kind is Kind.CREATE:
            follow_up = self._process_create(partition, command)
        event = Record(partition.end, Kind.EVENT, source=command.position, follow_up=follow_up)
        partition.log.append(event)
        if command.kind is Kind.RECEIVE:
            self._send(partition, command.peer, Kind.CONFIRM, command.transfer)

    def _process_create(self, partition: Partition, command: Record) -> CheckpointRecord:
        record = CheckpointRecord(Intent.CREATE, command.checkpoint, command.position)
        state, effects = values.process_create(partition.state.checkpoint, record)
        partition.state = replace(partition.state, checkpoint=state)
        events = [effect.record for effect in effects if isinstance(effect, AppendFollowUp)]
        for effect in effects:
            if isinstance(effect, TakeCopy):
                id = CopyId(effect.checkpoint, partition.number, partition.owner)
                partition.jobs.append(Job(values.CopyAttempt(id, effect.position)))
            elif isinstance(effect, Acknowledge) and command.peer == CLIENT:
                number, asked = partition.number, effect.checkpoint
                answer = Message(CLIENT, Kind.CREATE, asked, sender=number, answer=effect)
                self.messages.append(answer)
        (event,) = events
        return event

    def send(self, number: int) -> None:
        """Everything that is not confirmed is sent, again, with the id of this moment."""
        partition = self.partitions[number]
        for transfer, peer in sorted(partition.state.pending):
            self._send(partition, peer, Kind.RECEIVE, transfer)

    def _send(self, partition: Partition, to: int, kind: Kind, transfer: tuple[int, int]) -> None:
        id = partition.state.checkpoint.id
        self.messages.append(Message(to, kind, id, transfer, partition.number))

    def change_owner(self, number: int, owner: int, *, cut_off: bool = False) -> None:
        """The owner is gone, or *cut_off*: what it copies goes on then, though nobody asks it."""
        partition = self.partitions[number]
        if cut_off and owner != partition.owner:
            self.read_copy(number)
            partition.cut_off += [job for job in partition.jobs if job.begun]
        partition.jobs, partition.owner = [], owner
        del partition.log[partition.committed :]
        state = State()
        for event in partition.log:
            if event.kind is Kind.EVENT and event.source > state.processed:
                state = up_to(state, partition.number, partition.log, event.source)
                if event.follow_up is not None:
                    checkpoint = values.replay(state.checkpoint, event.follow_up)
                    state = replace(state, checkpoint=checkpoint)
        partition.state = state
        if partition.state.checkpoint.id != values.NO_CHECKPOINT:
            self._fail_unfinished(partition, partition.state.checkpoint.id)

    # --- workers

    def backup(self, checkpoint: int, number: int) -> PartitionBackup:
        mine = [
            copy
            for id, (copy, _) in sorted(self.copies.items())
            if (id.checkpoint, id.partition) == (checkpoint, number)
        ]
        return PartitionBackup(number, tuple(mine), self.verdicts.get((checkpoint, number)))

    def status(self, checkpoint: int) -> Status:
        backups = [self.backup(checkpoint, number) for number in self._numbers]
        return values.status(self._numbers, backups)

    def begin_copy(self, number: int) -> None:
        """The worker hears of the copy it has to take, and notes it."""
        partition = self.partitions[number]
        for job in [job for job in partition.jobs if not job.begun]:
            self._begin(partition, job)

    def _begin(self, partition: Partition, job: Job) -> None:
        id, position = job.attempt.id, job.position
        decided = values.begin(self.backup(id.checkpoint, id.partition), id)
        if decided in (values.Begin.SKIP, values.Begin.REFUSE):
            partition.jobs.remove(job)
            return
        if decided is values.Begin.COPY_ANEW:
            del self.copies[id]
        job.begun = True
        self.record(Copy(id, Status.ONGOING, position))

    def read_copy(self, number: int) -> None:
        for job in self._copying(number):
            if job.material is None and job.begun:
                job.material = tuple(self.partitions[number].log[: job.position])

    def end_copy(self, number: int) -> None:
        for job in self._copying(number):
            known = self.copies.get(job.attempt.id)
            if job.material is None or known is None or known[0].status is not Status.ONGOING:
                continue
            id, position = job.attempt.id, job.position
            reached = up_to(State(), self.partitions[number].number, job.material, position)
            copy = Copy(id, Status.COMPLETED, position, digest=repr(sorted_money(reached)))
            verdict = values.after_completion(self.backup(id.checkpoint, id.partition), copy)
            self.record(copy, job.material)
            if verdict is not None:
                self.verdicts[id.checkpoint, id.partition] = verdict
            self._end(number, job)

    def break_copy(self, number: int, reason: str = "no space is left") -> None:
        for job in self._copying(number):
            if not job.begun:
                continue
            after = values.after_error(job.attempt, reason)
            if isinstance(after, Copy):
                self.record(after)
                self._end(number, job)
            else:
                job.attempt = after

    def _copying(self, number: int) -> list[Job]:
        partition = self.partitions[number]
        return [*partition.jobs, *partition.cut_off]

    def _end(self, number: int, job: Job) -> None:
        partition = self.partitions[number]
        if job in partition.jobs:
            partition.jobs.remove(job)
        else:
            partition.cut_off.remove(job)

    def _fail_unfinished(self, partition: Partition, last: int) -> None:
        number = partition.number
        backups = [(id, self.backup(id, number)) for id in self.ids]
        for id in values.unfinished(backups, last):
            self.verdicts[id, number] = values.OWNER_CHANGED

    def record(self, copy: Copy, material: Material | None = None) -> None:
        known = self.copies.get(copy.id)
        before = Status.DOES_NOT_EXIST if known is None else known[0].status
        assert may_become(before, copy.status), (before, copy)
        self.copies[copy.id] = (copy, material)

    # --- the end

    def settle(self) -> None:
        """Everything goes well from here on, until nothing is left to do."""
        for _ in range(60):
            if self.take is not None:
                self.request()
            for partition in self.partitions:
                self.send(partition.number)
            while self.messages:
                self.deliver(0)
            before = [partition.state.processed for partition in self.partitions]
            for partition in self.partitions:
                self._settle_partition(partition)
            done = before == [partition.state.processed for partition in self.partitions]
            if done and self.take is None and not self.messages:
                return
            if self.take is not None and self.take.refusal is not None:
                self.take = None
        raise AssertionError("it never ends")

    def _settle_partition(self, partition: Partition) -> None:
        steps: tuple[Callable[[int], None], ...] = (
            self.process,
            self.begin_copy,
            self.read_copy,
            self.end_copy,
        )
        while True:
            partition.committed = len(partition.log)
            before = len(partition.log)
            for step in steps:
                step(partition.number)
            if len(partition.log) == before:
                return


def sorted_money(state: State) -> tuple[object, ...]:
    balance, pending, received = state.money
    return balance, sorted(pending), sorted(received)
