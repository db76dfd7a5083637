"""Checkpoints of a long-running server: taken at once, finished in the background, in turn.

After a restart, or after a stop in the midst of the work, the server resumes the checkpoints that
it had begun. A schedule makes it take checkpoints on its own and delete old ones by retention.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from breakglass.services.checkpoint.coordinator import (
    NEVER_ACKNOWLEDGED,
    Coordinator,
    Finisher,
    unfinished,
)
from breakglass.services.checkpoint.protocol.values import NotHigher, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore, Retention
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm


class WorkStopped(Exception):
    """Work ended between two steps because a stop was requested; another process may resume it."""


class StopRequest:
    """For several threads; once requested, it stays requested."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait so long; 0 is a step at which work may end. Raises WorkStopped once requested."""
        if self._event.wait(seconds):
            raise WorkStopped


class Doing(StrEnum):
    """What the background work was doing when an error occurred."""

    COPYING = "copying"
    RETENTION = "retention"
    SCHEDULE = "schedule"
    RELEASE = "release"


class ErrorKind(StrEnum):
    """Whether the error is a known kind, with a sentence of its own."""

    EXPECTED = "expected"
    UNEXPECTED = "unexpected"


Counts = Mapping[tuple[Doing, ErrorKind], int]


class Troubles:
    """The errors so far; for several threads. *keep* writes the details of an unexpected error.

    *keep* returns where it wrote them, and raises OSError if it cannot write.
    """

    def __init__(
        self, say: Callable[[str], None], keep: Callable[[Exception], object] | None = None
    ) -> None:
        self._say, self._keep = say, keep
        self._last: dict[str, str] = {}
        self._counts: Counter[tuple[Doing, ErrorKind]] = Counter()
        self._lock = threading.Lock()

    def met(self, doing: Doing, about: str, error: Exception) -> None:
        """Count the error, and report it unless it equals the last error *about* the same work."""
        expected = isinstance(error, BreakglassError)
        what = str(error) if expected else f"{type(error).__name__}: {error}"
        with self._lock:
            self._counts[doing, ErrorKind.EXPECTED if expected else ErrorKind.UNEXPECTED] += 1
            known = self._last.get(about) == what
            self._last[about] = what
        if known:
            return
        if not expected:
            place = ""
            if self._keep is not None:
                with suppress(OSError):
                    place = f" with {self._keep(error)}"
            what = f"failed unexpectedly ({what}); please report it{place}"
        self._say(f"{about}: {what}")

    def over(self, about: str) -> None:
        """The work *about* this succeeded: report its next error, even if it equals the last."""
        with self._lock:
            self._last.pop(about, None)

    def attempt(self, doing: Doing, about: str, work: Callable[[], object]) -> Exception | None:
        """Do *work*, and report the error that it ends with; None: it ended without one."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the server continues: reported and counted
            self.met(doing, about, error)
            return error
        self.over(about)
        return None

    def counts(self) -> Counts:
        with self._lock:
            return {
                (doing, kind): self._counts[doing, kind] for doing in Doing for kind in ErrorKind
            }


LOOK_SECONDS = 1.0
"""Interval between checks whether the next checkpoint is due."""
AGAIN_MS = 30_000
"""Delay before a failed scheduled checkpoint is retaken; doubled after each further failure."""
MOST_DOUBLED = 10
MOST_WAITING = 3
"""While so many acknowledged checkpoints are not finished, the schedule takes no other."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the server takes checkpoints on its own, and which checkpoints it deletes."""

    every_ms: int | None = None
    """None: only on request."""
    retention: Retention = field(default_factory=Retention)


class SameId(StrEnum):
    """The answer to a request, without an idempotency key, for an id that was taken before."""

    REFUSED = "refused"
    """As Zeebe: each id can be requested once."""
    ACKNOWLEDGED = "acknowledged"
    """As ZEP-008: the checkpoint is acknowledged again, and nothing is taken twice."""


def due(newest_ms: int | None, schedule: Schedule, now: int) -> bool:
    """Whether the next checkpoint is due; *newest_ms* is the time of the last request.

    A checkpoint that was missed, for example while the server was down or while earlier ones were
    copied, is not made up for.
    """
    if schedule.every_ms is None:
        return False
    return newest_ms is None or now - newest_ms >= schedule.every_ms


class Serving:
    """Takes checkpoints as `Coordinator` does, and finishes them in the background."""

    def __init__(
        self,
        store: BackupStore,
        coordinator: Coordinator,
        finisher: Finisher,
        say: Callable[[str], None],
        schedule: Schedule | None = None,
        clock: Callable[[], int] = now_ms,
        keep: Callable[[Exception], object] | None = None,
        *,
        same_id: SameId = SameId.REFUSED,
        stop: StopRequest | None = None,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        """*keep* writes the details of an unexpected error: see `Troubles`.

        *stop* is also what the finisher waits with. *release* ends the holds of checkpoints
        that have ended; it is called after each of them, and again after an error.
        """
        self.troubles = Troubles(say, keep)
        self._store, self._coordinator, self._finisher = store, coordinator, finisher
        self._say, self._schedule, self._clock = say, schedule or Schedule(), clock

        def say_lag(change: Behind | CaughtUpAgain) -> None:
            say(f"checkpoints {'are ' if isinstance(change, Behind) else ''}{change}")

        self.lag = LagAlarm(say_lag, clock)
        """Whether checkpoints follow the schedule."""
        self._same_id, self._stop, self._release = same_id, stop or StopRequest(), release
        self._to_release = True
        self._resumed = False
        """What was begun before this server came up is under way, or has failed."""
        self._failed = 0
        """Consecutive failures so far."""
        # One at a time: two copies would compete for the disks.
        self._copying = ThreadPoolExecutor(1, "checkpoint")
        self._taking = threading.Lock()
        self._under_way: set[int] = set()

    def take(self, id: int | None = None, request: str | None = None) -> int | NotHigher:
        """Start a checkpoint, to be finished in the background. Raises as `Coordinator.take`."""
        with self._taking:
            if id is not None and request is None and self._same_id is SameId.ACKNOWLEDGED:
                found = self.status(id)
                # A failed or deleted checkpoint needs a new id.
                if found is not None and found.take and found.status is not Status.FAILED:
                    request = found.take.request
            try:
                taken = self._coordinator.take(id, request)
            finally:
                self._to_release = True
            if not isinstance(taken, NotHigher):
                self._begin(taken)
        return taken

    def status(self, id: int) -> StoredCheckpoint | None:
        return self._coordinator.status(id)

    def all(self) -> tuple[StoredCheckpoint, ...]:
        return self._coordinator.all()

    def delete(self, id: int) -> None:
        self._coordinator.delete(id)
        self._to_release = True

    @contextmanager
    def running(self) -> Iterator[None]:
        """Resume unfinished checkpoints, and run the schedule, until the end of the block.

        Both begin in the background: the server answers while a store that hangs is waited for.

        The block's end waits for the copies under way. Where a stop was requested, these are the
        partitions under way, and the rest is left to be resumed; else, the checkpoint under way.
        """
        stop = threading.Event()
        clockwork = threading.Thread(target=self._keep, args=(stop,), name="schedule", daemon=True)
        clockwork.start()
        try:
            yield
        finally:
            stop.set()
            clockwork.join()
            self._copying.shutdown(cancel_futures=True)
            self._release_if_due()
            for id in sorted(self._under_way):
                self._say(
                    f"checkpoint {id} is acknowledged, and not copied yet: a server with the same "
                    f"--store and --node resumes it, and so does `checkpoint finish {id}`"
                )

    def stop(self) -> None:
        """End work at its next step: before another partition is copied, or while it waits."""
        self._stop.request()

    def _begin(self, id: int) -> None:
        """Finish the checkpoint in the background, unless it has ended or is under way."""
        if id in self._under_way:
            return
        # Read after that: one that has just ended is seen to have ended.
        found = self.status(id)
        if found is None or found.status in (Status.COMPLETED, Status.FAILED):
            return
        self._under_way.add(id)
        self._copying.submit(self._finish, id)

    def _finish(self, id: int) -> None:
        try:
            found = self._finisher.finish(id)
            self._say(f"checkpoint {id}  {found.status}")
            if found.status is Status.COMPLETED:
                self._failed = 0
                if len(self._under_way - {found.id}) < MOST_WAITING - 1:
                    self.lag.up_to_date()
            else:
                self._failed += 1
                self._note_behind(f"checkpoint {found.id} is {found.status}")
        except WorkStopped:
            return
        except Exception as error:  # noqa: BLE001 - no caller waits: reported and counted
            self._failed += 1
            self.troubles.met(Doing.COPYING, f"checkpoint {id}", error)
            self._note_behind(f"checkpoint {id}: {error}")
        self._to_release = True
        self._under_way.discard(id)

    def _note_behind(self, reason: str) -> None:
        """Without a schedule no checkpoint can be late."""
        if self._schedule.every_ms is not None:
            self.lag.behind(reason)

    def _keep(self, stop: threading.Event) -> None:
        self._resume()
        if self._resumed and self._schedule.retention != Retention():
            self._delete(self._store.deleted_with_rest, "what was left of it")
        while not (stop.wait(LOOK_SECONDS) or self._stop.requested):
            self.look()

    def look(self) -> None:
        """Take a checkpoint if it is due, and delete expired ones; report and count errors.

        Expired checkpoints are deleted even where none can be taken, as on a full disk.
        """
        if not self._resumed:
            self._resume()
            if not self._resumed:
                return
        self._release_if_due()
        error = self.troubles.attempt(Doing.SCHEDULE, "schedule", self._take_if_due)
        if error is not None:
            self._failed = max(1, self._failed)
            self._note_behind(str(error))
        limits = self._schedule.retention
        self._delete(lambda: self._coordinator.expired(limits), "retention")

    def _resume(self) -> None:
        """Continue what was begun before; while the store does not answer, each look tries."""

        def begin() -> None:
            for id in self._coordinator.fail_abandoned():
                self._say(f"checkpoint {id}  failed: {NEVER_ACKNOWLEDGED}")
            with self._taking:
                for id in unfinished(self._store, self._finisher.node):
                    self._begin(id)

        error = self.troubles.attempt(Doing.COPYING, "what was begun before", begin)
        self._resumed = error is None
        if error is not None:
            self._note_behind(str(error))

    def _release_if_due(self) -> None:
        """End the holds of checkpoints that have ended; after an error, the next look tries."""
        if self._to_release:
            self._to_release = False
            error = self.troubles.attempt(Doing.RELEASE, "retention of topics", self._release)
            if error is not None:
                self._to_release = True

    def _delete(self, find: Callable[[], Iterable[int]], why: str) -> None:
        ids: list[int] = []
        self.troubles.attempt(Doing.RETENTION, "retention", lambda: ids.extend(find()))
        for id in ids:
            about, delete = f"retention, checkpoint {id}", partial(self._store.delete, id)
            if self.troubles.attempt(Doing.RETENTION, about, delete) is None:
                self._say(f"checkpoint {id} is deleted: {why}")

    def _take_if_due(self) -> None:
        held = self.all()
        if any(
            checkpoint.started is None and checkpoint.status is not Status.FAILED
            for checkpoint in held
        ):
            self._to_release |= bool(self._coordinator.fail_abandoned())
        newest = next(iter(held), None)
        asked, now = newest.created_at_ms if newest else None, self._clock()
        # One that failed because of a fault is retaken.
        pause = AGAIN_MS << min(self._failed - 1, MOST_DOUBLED) if self._failed else None
        if due(asked, self._schedule, now) or (
            newest is not None
            and newest.status is Status.FAILED
            and pause is not None
            and asked is not None
            and now - asked >= pause
        ):
            # Take a checkpoint, unless copying is so slow that ever more of them would wait for it.
            waiting = len(self._under_way)
            if waiting >= MOST_WAITING:
                self._note_behind(f"{waiting} checkpoints are not finished yet")
            else:
                self.take()
