"""Takes a checkpoint and finishes it; all state is in the store and in the topics.

A take follows the order of H4: it reserves the id, records every partition's copy as begun, starts
every partition, and only then acknowledges the checkpoint. A client resumes an interrupted take by
sending the same request again; any other process records it as failed (`fail_abandoned`).

A finisher decides what is in an acknowledged checkpoint and has every partition copied, by the
rules of `protocol.values`. It may die at any moment: the next finisher decides the same, and copies
again what this node did not complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import uuid4

from breakglass.services import patience
from breakglass.services.checkpoint.protocol import values
from breakglass.services.checkpoint.protocol import values as protocol
from breakglass.services.checkpoint.protocol.values import (
    LARGEST_ASKED,
    LARGEST_ID,
    Acknowledge,
    Begin,
    Copy,
    CopyAttempt,
    CopyId,
    NotHigher,
    Status,
)
from breakglass.services.checkpoint.store.backup_store import (
    BackupStore,
    Copies,
    Retention,
    expired,
)
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    ManifestDocument,
    NumberedPartition,
    StartedDocument,
    TakeDocument,
    TransactionFloors,
)
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    PipelineError,
    Refused,
    StorageError,
    TimedOut,
    Unreachable,
    UsageError,
)


class Topics(Protocol):
    """The partitions that checkpoints cover, as the cluster has them."""

    def scope(self) -> TakeDocument:
        """What a checkpoint that is taken now covers; its id and its request are not known yet."""

    def latest_id(self) -> int:
        """The greatest checkpoint id that their records carry; 0 if no record carries an id."""

    def start(self, id: int, partitions: Sequence[NumberedPartition]) -> Mapping[int, Acknowledge]:
        """Start a checkpoint in *partitions*, durably; the answers received, by partition number.

        Asking twice is harmless. The position in an answer is that of the checkpoint's marker: no
        record after the marker is in the checkpoint.
        """

    def offsets(self, partitions: Sequence[NumberedPartition]) -> Mapping[str, Mapping[int, int]]:
        """Group offsets that belong to the positions of `start`, by number; empty: read later."""

    def transactions(self) -> TransactionFloors | None:
        """Where transactions are read from, by `start`; None: from the take's floors on."""

    def passed(self, take: TakeDocument, positions: Mapping[int, int]) -> int:
        """The greatest id that records before *positions* carry, if greater than the take's.

        A partition that reached a greater id first has never seen the take's own id.
        """

    def epochs(
        self, partitions: Sequence[NumberedPartition], positions: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Leader epochs that wrote the offsets before *positions*, by number, where known."""


RETRY_SECONDS = 1.0
"""Before the first retry; doubled before each further retry."""
PASSING = (StorageError, Unreachable, PipelineError)
"""Errors after which the copy is retried."""


CopyPartition = Callable[[str], ManifestDocument]
"""Writes a copy of one partition below the place that it is given; returns what was written.

Raises:
    StorageError, Unreachable, PipelineError: the copy may be retried.
    BreakglassError: the partition cannot be copied any more, for example because retention removed
        records.
"""


def take_copy(
    copies: Copies,
    id: CopyId,
    position: int | None,
    copy: CopyPartition,
    wait: Callable[[float], None],
    tool_version: str = "unknown",
) -> Status:
    """Copy a partition, unless this node has completed its copy or the partition has failed.

    *position* is the checkpoint's, exclusive; None where *copy* reads it from the log. A copy
    that the coordinator recorded as begun is resumed like an interrupted copy.

    Raises:
        Refused: the checkpoint has failed or was deleted during the copy.
        StorageError: the store accepts neither the copy nor the record of its failure.
    """
    attempt: CopyAttempt | Copy = CopyAttempt(id, position)
    try:
        while isinstance(attempt, CopyAttempt):
            if attempt.errors:
                wait(RETRY_SECONDS * 2 ** (attempt.errors - 1))
            trying = attempt
            try:
                attempt = _tried(copies, trying, copy, tool_version)
            except PASSING as error:
                attempt = values.after_error(trying, str(error))
        if attempt.reason is not None:
            copies.fail(id, attempt.reason, attempt.position)
    finally:
        # A deletion does not wait for workers that copy: they remove what they wrote after it.
        copies.remove_if_deleted(id)
    return attempt.status


def _tried(copies: Copies, attempt: CopyAttempt, copy: CopyPartition, tool_version: str) -> Copy:
    """How the attempt ended, with a reason if a failure is to be recorded. Raises: PASSING."""
    id, position = attempt.id, attempt.position
    match values.begin(copies.partition(id.checkpoint, id.partition).backup, id):
        case Begin.SKIP:
            return Copy(id, Status.COMPLETED)
        case Begin.REFUSE:
            return Copy(id, Status.FAILED)
        case Begin.COPY_ANEW:
            copies.begin_again(id, position, tool_version)
        case Begin.COPY:
            copies.begin(id, position, tool_version)
    try:
        manifest = copy(copies.contents(id).where())
    except PASSING:
        raise
    except BreakglassError as error:
        return Copy(id, Status.FAILED, position, reason=str(error))
    copies.complete(id, manifest)
    return Copy(id, Status.COMPLETED)


ABANDONED_MS = 120_000
"""Longer than a live take needs to be acknowledged, with clock differences included."""
NEVER_ACKNOWLEDGED = "its coordinator was gone before it was acknowledged"


def abandoned(found: StoredCheckpoint, node: int, before_ms: int) -> bool:
    """Whether a checkpoint requested by *before_ms* will never be acknowledged.

    True only if no node other than *node*, the caller's own, has begun to copy it.
    """
    nodes = {copy.id.node for part in found.partitions for copy in part.copies}
    asked = found.created_at_ms
    waiting = found.started is None and found.status is not Status.FAILED
    return waiting and nodes <= {node} and asked is not None and asked <= before_ms


SIDE_BY_SIDE = 4
"""Partitions that are copied in parallel: each copy waits for its disk from time to time."""

Tell = Callable[[int, Status], None]


class Decides(Protocol):
    """Decides what is in a checkpoint: see `kafka.deciding.Decider`."""

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument: ...

    def require_kept(self, take: TakeDocument) -> None:
        """Raise Refused if records that were decided on may have been compacted away since."""


class Sources(Protocol):
    """Where the content of partitions comes from."""

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, CopyPartition]:
        """How each partition is copied, by its number.

        Raises BreakglassError: there is no source; the checkpoint has failed.
        """


@dataclass(frozen=True, slots=True)
class Finisher:
    """Finishes checkpoints of *store* as node *node*."""

    store: BackupStore
    decider: Decides
    sources: Sources
    node: int = 0
    tool_version: str = "unknown"
    side_by_side: int = SIDE_BY_SIDE
    wait: Callable[[float], None] = time.sleep
    """Called with 0 before each copy: what raises WorkStopped here ends the work cleanly."""
    alone: Callable[[int], AbstractContextManager[object]] = nullcontext
    """Excludes other workers of the node from a checkpoint: see `parts.alone`."""

    def finish(self, id: int, tell: Tell = lambda _number, _status: None) -> StoredCheckpoint:
        """Decide and copy; *tell* is called for each partition's copy that has ended.

        Raises:
            AlreadyRunning: another worker of this node finishes it, here or on another machine.
            Refused: it has failed before, was deleted, or was never acknowledged (it is then
                recorded as failed).
            StorageError: the store does not answer.
            BreakglassError: its content cannot be decided; it is recorded as failed.
            WorkStopped: by `wait`; what is not copied yet can be resumed.
        """
        if self._found(id).status is not Status.COMPLETED:
            with self.alone(id):
                self._finish(self._found(id), tell)
        return self._found(id, failed=True)

    def _finish(self, found: StoredCheckpoint, tell: Tell) -> None:
        assert found.take is not None
        assert found.started is not None
        if found.status is Status.COMPLETED:
            return
        # Another machine's checkpoint must not fail by what this one decides.
        copies = (copy for part in found.partitions for copy in part.copies)
        self.store.copies.require_own(copy for copy in copies if copy.id.node == self.node)
        try:
            cut = found.cut or self.store.decide(
                found.id, self.decider.decide(found.take, found.started)
            )
            sources = self.sources.open(found.take, cut)
        except BreakglassError as error:
            self.store.fail_checkpoint(found.id, str(error))
            raise
        take = found.take

        def one(number: int) -> None:
            self.wait(0)

            def copy(where: str) -> ManifestDocument:
                manifest = sources[number](where)
                # The copy is valid only if nothing was compacted away while it was made.
                self.decider.require_kept(take)
                return manifest

            copy_id, position = CopyId(take.id, number, self.node), cut.positions[number]
            copies = self.store.copies
            tell(number, take_copy(copies, copy_id, position, copy, self.wait, self.tool_version))

        with ThreadPoolExecutor(self.side_by_side, "copy") as pool:
            list(pool.map(one, sorted(cut.positions)))

    def _found(self, id: int, *, failed: bool = False) -> StoredCheckpoint:
        found = self.store.read(id)
        if found is None or found.take is None:
            raise Refused(f"checkpoint {id} was deleted, or never asked for: take a new one.")
        if found.status is Status.FAILED and not failed:
            raise Refused(f"checkpoint {id} has failed: take a new one.")
        if found.started is None:
            self.store.fail_checkpoint(id, NEVER_ACKNOWLEDGED)
            raise Refused(
                f"checkpoint {id} was never acknowledged, and has failed by that: take a new one."
            )
        return found


def unfinished(store: BackupStore, node: int) -> tuple[int, ...]:
    """Acknowledged checkpoints that this node began to copy and did not complete, oldest first."""
    return tuple(
        checkpoint.id
        for checkpoint in reversed(store.all())
        if checkpoint.started is not None
        and checkpoint.status in (Status.ONGOING, Status.INCOMPLETE)
        and any(copy.id.node == node for part in checkpoint.partitions for copy in part.copies)
    )


ANOTHER_INCARNATION = "its topics were deleted and created again since, or are others"
PAUSE_SECONDS = 0.2
"""Before partitions that have not answered are asked again."""


class Coordinator:
    """Takes checkpoints of *topics* into *store*, copied by the workers of node *node*."""

    def __init__(
        self,
        store: BackupStore,
        topics: Topics,
        *,
        node: int = 0,
        tool_version: str = "unknown",
        start_seconds: float = patience.START,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        prepare: Callable[[str], object] = lambda _: None,
    ) -> None:
        """*prepare* is called with the request before any partition starts the checkpoint."""
        self._store, self._topics = store, topics
        self._node, self._tool_version = node, tool_version
        self._start_seconds, self._wait, self._clock = start_seconds, wait, clock
        self._prepare = prepare

    def take(
        self, id: int | None = None, request: str | None = None, *, is_new: bool = False
    ) -> int | NotHigher:
        """Start a checkpoint, by default with the next id; returns its id once it has started.

        Args:
            id: must be greater than all earlier ids, including deleted and failed checkpoints.
            request: idempotency key; repeating it resumes the request, with or without the id.
            is_new: the request was never sent before, so that without an id no lookup is needed.

        Raises:
            UsageError: *id* is too great.
            Refused: the checkpoint has failed or was deleted.
            ClusterError: the cluster refuses; the checkpoint has failed.
            TimedOut: not every partition started in time; the checkpoint has failed.
            Unreachable, StorageError: the same request may be sent again.
        """
        if id is not None and id > LARGEST_ASKED:
            raise UsageError(
                f"A checkpoint's id is at most {LARGEST_ASKED}: name a smaller one, or none."
            )
        scope = self._topics.scope()
        if id is None and request is not None and not is_new:
            # The id that the same request got before. Raises Refused if it was deleted.
            known = self._store.id_of(request)
            if known is not None and self._store.is_deleted(known):
                raise _ended(known)
            id = known
        wanted = self._reserve(id, request or uuid4().hex, scope)
        if isinstance(wanted, NotHigher):
            return wanted
        found = self._store.read(wanted)
        if found is None or found.take is None or found.status is Status.FAILED:
            raise _ended(wanted)
        self._require_same(found, found.take, scope)
        if found.started is not None:
            return wanted
        try:
            return self._start(found, found.take)
        except (Refused, ClusterError) as error:
            self._store.fail_checkpoint(wanted, str(error))
            raise

    def _reserve(self, id: int | None, request: str, scope: TakeDocument) -> int | NotHigher:
        latest = self._topics.latest_id()
        named = replace(scope, request=request, tool_version=self._tool_version)
        while True:
            wanted = id if id is not None else max([latest, *self._store.ids()]) + 1
            if id is None and wanted > LARGEST_ID:
                raise Refused(
                    f"the topics or the store hold id {wanted - 1}, the greatest there is: take "
                    "checkpoints of other topics, into another store."
                )
            take = replace(named, id=wanted, created_at_ms=now_ms())
            refused = self._store.reserve(take, [latest])
            if refused is None:
                return wanted
            if id is not None:
                return refused
            # Another coordinator has taken the next id since: try the id after it.

    def _require_same(
        self, found: StoredCheckpoint, take: TakeDocument, scope: TakeDocument
    ) -> None:
        """Return if a checkpoint that was requested before has the same *scope* (H12).

        A completed checkpoint of another incarnation is kept: it is a backup of that incarnation.

        Raises Refused: it is of other topics; an incomplete checkpoint is recorded as failed.
        """
        if (take.cluster_id, take.incarnation) == (scope.cluster_id, scope.incarnation):
            return
        if found.status is not Status.COMPLETED:
            self._store.fail_checkpoint(found.id, ANOTHER_INCARNATION)
        raise Refused(f"checkpoint {found.id}: {ANOTHER_INCARNATION}: take one with a new id.")

    def _start(self, found: StoredCheckpoint, asked: TakeDocument) -> int | NotHigher:
        self._prepare(asked.request)
        subjects = asked.partitions
        begun = {partition.number for partition in found.partitions if partition.copies}
        self._store.copies.begin_all(
            {
                CopyId(found.id, subject.number, self._node): None
                for subject in subjects
                if subject.number not in begun
            },
            self._tool_version,
        )
        take, positions = self._started(found.id, {subject.number: subject for subject in subjects})
        refusal = take.refusal
        if refusal is None and (latest := self._topics.passed(asked, positions)) > asked.id:
            refusal = NotHigher(asked.id, latest)
        if refusal is not None:
            self._store.fail_checkpoint(found.id, refusal.message)
            return refusal
        epochs, offsets = self._topics.epochs(subjects, positions), self._topics.offsets(subjects)
        self._store.start(found.id, positions, epochs, offsets, self._topics.transactions())
        return found.id

    def _started(
        self, id: int, subjects: Mapping[int, NumberedPartition]
    ) -> tuple[protocol.Take, dict[int, int]]:
        """Ask until every partition has started, or one partition cannot. Raises TimedOut."""
        take = protocol.Take(id, tuple(subjects))
        positions: dict[int, int] = {}
        deadline = self._clock() + self._start_seconds
        while True:
            answers = self._topics.start(id, [subjects[number] for number in take.missing])
            for number, answer in answers.items():
                take = protocol.acknowledge(take, number, answer)
                positions[number] = answer.state.position
            if take.acknowledged or take.refusal is not None:
                return take, positions
            if self._clock() >= deadline:
                late = f"{len(take.missing)} of {len(take.partitions)} partitions"
                reason = f"{late} did not start within {self._start_seconds:g} s"
                self._store.fail_checkpoint(id, reason)
                raise TimedOut(f"checkpoint {id} has failed, {reason}: take one with a new id.")
            self._wait(PAUSE_SECONDS)

    def status(self, id: int) -> StoredCheckpoint | None:
        return self._store.read(id)

    def all(self) -> tuple[StoredCheckpoint, ...]:
        return self._store.all()

    def delete(self, id: int) -> None:
        """Delete a checkpoint; an ongoing checkpoint no longer accepts copies of its workers."""
        self._store.delete(id)

    def fail_abandoned(self) -> tuple[int, ...]:
        """Record as failed the takes that died before they were acknowledged; returns their ids.

        A take counts as dead if no other node has begun to copy it, and if it was requested so long
        ago that a live take would have ended.
        """
        before = now_ms() - ABANDONED_MS
        found = tuple(
            checkpoint.id
            for checkpoint in reversed(self.all())
            if abandoned(checkpoint, self._node, before)
        )
        for id in found:
            self._store.fail_checkpoint(id, NEVER_ACKNOWLEDGED)
        return found

    def expired(self, retention: Retention) -> tuple[int, ...]:
        """The checkpoints that *retention* allows to delete, oldest first; deletes nothing."""
        return expired(self.all(), retention, now_ms())


def _ended(id: int) -> Refused:
    return Refused(
        f"checkpoint {id} has failed or was deleted: take one with a new id, by another request."
    )
