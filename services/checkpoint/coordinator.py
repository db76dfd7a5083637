"""Takes, watches and deletes checkpoints. It keeps nothing: the store and the topics do.

The order of a take is that of H4: the id is reserved, every partition's copy is noted as begun,
every partition starts, and only then is it acknowledged. One that dies in between is gone on with
by sending the same request again; whoever else finds it has it fail (`fail_abandoned`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from breakglass.services.checkpoint.abandoned import ABANDONED_MS, NEVER_ACKNOWLEDGED, abandoned
from breakglass.services.checkpoint.interfaces import Scope, Topics
from breakglass.services.checkpoint.protocol import coordinator as protocol
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import LARGEST_ASKED, LARGEST_ID, CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import NumberedPartition, TakeDocument
from breakglass.services.checkpoint.store.retention import Retention, RetentionCandidate, expired
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.clock import now_ms
from breakglass.services.errors import ClusterError, Refused, TimedOut, UsageError

START_SECONDS = 30.0
"""For all partitions to start."""
ANOTHER_INCARNATION = "its topics were deleted and created again since, or are others"
PAUSE_SECONDS = 0.2
"""Before those are asked again that have not answered."""


class Coordinator:
    """`seams.Checkpoints` of *topics* in *store*, copied by the workers of node *node*."""

    def __init__(
        self,
        store: BackupStore,
        topics: Topics,
        *,
        node: int = 0,
        tool_version: str = "unknown",
        start_seconds: float = START_SECONDS,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._topics = store, topics
        self._node, self._tool_version = node, tool_version
        self._start_seconds, self._wait, self._clock = start_seconds, wait, clock

    def take(
        self, id: int | None = None, request: str | None = None, *, anew: bool = False
    ) -> int | NotHigher:
        """Start a checkpoint, by default with the next id; returns its id once it has started.

        Args:
            id: greater than all before it, deleted and failed ones too.
            request: names this request; the same one sent again goes on where it was, whether it
                names the id or not.
            anew: nobody has sent that request before; without an id it need not be looked for.

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
        if id is None and request is not None and not anew:
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
        """The id that the same request has got before. Raises Refused where that was deleted."""
        known = self._store.id_of(request)
        if known is not None and self._store.is_deleted(known):
            raise _ended(known)
        return known

    def _reserve(self, id: int | None, request: str, scope: Scope) -> int | NotHigher:
        """The id, which is this request's by now."""
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
            )
            refused = self._store.reserve(take, [latest])
            if refused is None:
                return wanted
            if id is not None:
                return refused
            # Somebody else has taken the next one meanwhile.

    def _require_same(self, found: StoredCheckpoint, take: TakeDocument, scope: Scope) -> None:
        """Return if a checkpoint that was asked for before is of what *scope* is (H12).

        What is completed of another incarnation stays: it is a backup of that one.

        Raises:
            Refused: it is of other topics; unless it is completed it has failed by that.
        """
        if (take.cluster_id, take.incarnation) == (scope.cluster_id, scope.incarnation):
            return
        if found.status is not Status.COMPLETED:
            self._store.fail_checkpoint(found.id, ANOTHER_INCARNATION)
        raise Refused(f"checkpoint {found.id}: {ANOTHER_INCARNATION}: take one with a new id.")

    def _start(self, found: StoredCheckpoint, asked: TakeDocument) -> int | NotHigher:
        subjects = asked.partitions
        begun = {one.number for one in found.partitions if one.copies}
        self._store.copies.begin_all(
            {
                CopyId(found.id, one.number, self._node): None
                for one in subjects
                if one.number not in begun
            },
            self._tool_version,
        )
        take, positions = self._started(found.id, {one.number: one for one in subjects})
        refusal = take.refusal or self._passed(asked, positions)
        if refusal is not None:
            self._store.fail_checkpoint(found.id, refusal.message)
            return refusal
        self._store.start(found.id, positions, self._topics.epochs(subjects, positions))
        return found.id

    def _passed(self, asked: TakeDocument, positions: Mapping[int, int]) -> NotHigher | None:
        latest = self._topics.passed(asked, positions)
        return NotHigher(asked.id, latest) if latest > asked.id else None

    def _started(
        self, id: int, subjects: Mapping[int, NumberedPartition]
    ) -> tuple[protocol.Take, dict[int, int]]:
        """Ask until every partition has started, or one cannot. Raises TimedOut."""
        take = protocol.resume(id, tuple(subjects))
        positions: dict[int, int] = {}
        deadline = self._clock() + self._start_seconds
        while True:
            answers = self._topics.start(id, [subjects[one] for one in take.missing])
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
        """Delete one; the workers of one that is ongoing are refused from then on."""
        self._store.delete(id)

    def fail_abandoned(self) -> tuple[int, ...]:
        """Record that takes have failed that died before they were acknowledged; their ids.

        Those that no other node has begun to copy, and that were asked for so long ago that a
        live one has come to its end.
        """
        before = now_ms() - ABANDONED_MS
        found = tuple(one.id for one in reversed(self.all()) if abandoned(one, self._node, before))
        for id in found:
            self._store.fail_checkpoint(id, NEVER_ACKNOWLEDGED)
        return found

    def expired(self, retention: Retention) -> tuple[int, ...]:
        """The checkpoints that *retention* lets go, oldest first; nothing is deleted."""
        found = [RetentionCandidate(one.id, one.status, one.created_at_ms) for one in self.all()]
        return expired(found, retention, now_ms())


def _next(seen: Iterable[int]) -> int:
    """The id after all that were *seen*. Raises Refused where there is none."""
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
