"""Takes, watches and deletes checkpoints; all state is in the store and in the topics.

A take follows the order of H4: it reserves the id, records every partition's copy as begun, starts
every partition, and only then acknowledges the checkpoint. A client resumes an interrupted take by
sending the same request again; any other process records it as failed (`fail_abandoned`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from breakglass.services import patience
from breakglass.services.checkpoint.finishing import ABANDONED_MS, NEVER_ACKNOWLEDGED, abandoned
from breakglass.services.checkpoint.interfaces import Scope, Topics
from breakglass.services.checkpoint.protocol import coordinator as protocol
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import LARGEST_ASKED, LARGEST_ID, CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import NumberedPartition, TakeDocument
from breakglass.services.checkpoint.store.retention import Retention, candidates, expired
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.clock import now_ms
from breakglass.services.errors import ClusterError, Refused, TimedOut, UsageError

ANOTHER_INCARNATION = "its topics were deleted and created again since, or are others"
PAUSE_SECONDS = 0.2
"""Before partitions that have not answered are asked again."""


class Coordinator:
    """`interfaces.Checkpoints` of *topics* in *store*, copied by the workers of node *node*."""

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
        prepare: Callable[[TakeDocument], None] = lambda _: None,
    ) -> None:
        """*prepare* is called for a reserved checkpoint before any partition starts it."""
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
            id = self._asked_before(request)
        wanted = self._reserve(id, request or _new_request(), scope)
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

    def _asked_before(self, request: str) -> int | None:
        """The id that the same request got before. Raises Refused if it was deleted."""
        known = self._store.id_of(request)
        if known is not None and self._store.is_deleted(known):
            raise _ended(known)
        return known

    def _reserve(self, id: int | None, request: str, scope: Scope) -> int | NotHigher:
        """Reserve an id for this request, and return it."""
        latest = self._topics.latest_id()
        while True:
            wanted = id if id is not None else _next([latest, *self._store.ids()])
            take = TakeDocument(
                wanted,
                scope.level,
                scope.partitions,
                request,
                now_ms(),
                scope.cluster_id,
                scope.incarnation,
                scope.groups,
                scope.floors,
                self._tool_version,
                external=scope.external,
                transactions=scope.transactions,
                flows=scope.flows,
            )
            refused = self._store.reserve(take, [latest])
            if refused is None:
                return wanted
            if id is not None:
                return refused
            # Another coordinator has taken the next id since: try the id after it.

    def _require_same(self, found: StoredCheckpoint, take: TakeDocument, scope: Scope) -> None:
        """Return if a checkpoint that was requested before has the same *scope* (H12).

        A completed checkpoint of another incarnation is kept: it is a backup of that incarnation.

        Raises:
            Refused: it is of other topics; an incomplete checkpoint is recorded as failed.
        """
        if (take.cluster_id, take.incarnation) == (scope.cluster_id, scope.incarnation):
            return
        if found.status is not Status.COMPLETED:
            self._store.fail_checkpoint(found.id, ANOTHER_INCARNATION)
        raise Refused(f"checkpoint {found.id}: {ANOTHER_INCARNATION}: take one with a new id.")

    def _start(self, found: StoredCheckpoint, asked: TakeDocument) -> int | NotHigher:
        self._prepare(asked)
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
        refusal = take.refusal or self._passed(asked, positions)
        if refusal is not None:
            self._store.fail_checkpoint(found.id, refusal.message)
            return refusal
        epochs, offsets = self._topics.epochs(subjects, positions), self._topics.offsets(subjects)
        self._store.start(found.id, positions, epochs, offsets, self._topics.transactions())
        return found.id

    def _passed(self, asked: TakeDocument, positions: Mapping[int, int]) -> NotHigher | None:
        latest = self._topics.passed(asked, positions)
        return NotHigher(asked.id, latest) if latest > asked.id else None

    def _started(
        self, id: int, subjects: Mapping[int, NumberedPartition]
    ) -> tuple[protocol.Take, dict[int, int]]:
        """Ask until every partition has started, or one partition cannot. Raises TimedOut."""
        take = protocol.resume(id, tuple(subjects))
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
                raise self._timed_out(take)
            self._wait(PAUSE_SECONDS)

    def _timed_out(self, take: protocol.Take) -> TimedOut:
        late = f"{len(take.missing)} of {len(take.partitions)} partitions"
        reason = f"{late} did not start within {self._start_seconds:g} s"
        self._store.fail_checkpoint(take.id, reason)
        return TimedOut(f"checkpoint {take.id} has failed, {reason}: take one with a new id.")

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
        return expired(candidates(self.all()), retention, now_ms())


def _next(seen: Iterable[int]) -> int:
    """The id after all that were *seen*. Raises Refused if there is no greater id."""
    latest = max(seen)
    if latest >= LARGEST_ID:
        raise Refused(
            f"the topics or the store hold id {latest}, the greatest there is: take checkpoints of "
            "other topics, into another store."
        )
    return latest + 1


def _ended(id: int) -> Refused:
    return Refused(
        f"checkpoint {id} has failed or was deleted: take one with a new id, by another request."
    )


def _new_request() -> str:
    from uuid import uuid4

    return uuid4().hex
