"""Checkpoints for a server that runs for long: taken at once, finished in the background, in turn.

A server that comes up again goes on with what it had begun. By a schedule it takes one after the
other by itself, and lets old ones go by retention.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from breakglass.services.checkpoint.abandoned import NEVER_ACKNOWLEDGED
from breakglass.services.checkpoint.background_errors import Doing, Troubles
from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.finishing import Finisher, unfinished
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.retention import Retention
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.clock import now_ms
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm

LOOK_SECONDS = 1.0
"""Between two looks at whether it is time for the next one."""
AGAIN_MS = 30_000
"""So long after a scheduled one that failed another is taken; twice as long after each more."""
MOST_DOUBLED = 10


@dataclass(frozen=True, slots=True)
class Schedule:
    """When checkpoints are taken by themselves, and which go."""

    every_ms: int | None = None
    """None: only when somebody asks."""
    retention: Retention = field(default_factory=Retention)


def due(newest_ms: int | None, schedule: Schedule, now: int) -> bool:
    """Whether it is time for the next one, *newest_ms* being when the last was asked for.

    One that was missed, as while the server was down, is not made up for.
    """
    if schedule.every_ms is None:
        return False
    return newest_ms is None or now - newest_ms >= schedule.every_ms


class Serving:
    """`seams.Checkpoints` that are finished without anybody waiting."""

    def __init__(
        self,
        store: BackupStore,
        coordinator: Coordinator,
        finisher: Finisher,
        say: Callable[[str], None],
        schedule: Schedule | None = None,
        clock: Callable[[], int] = now_ms,
        keep: Callable[[Exception], object] | None = None,
    ) -> None:
        """*keep* writes down the details of an error that nobody expected: see `Troubles`."""
        self.troubles = Troubles(say, keep)
        self._store, self._coordinator, self._finisher = store, coordinator, finisher
        self._say, self._schedule, self._clock = say, schedule or Schedule(), clock
        self.lag = LagAlarm(self._say_lag, clock)
        """Whether checkpoints come as the schedule has them."""
        self._failed = 0
        """One after the other, until now."""
        # One at a time: copies of two would take each other's place on the disks.
        self._copying = ThreadPoolExecutor(1, "checkpoint")
        self._taking = threading.Lock()
        self._under_way: set[int] = set()

    def take(self, id: int | None = None, request: str | None = None) -> int | NotHigher:
        """Start one and return; it is finished in the background. Raises as `Coordinator.take`."""
        with self._taking:
            taken = self._coordinator.take(id, request)
            if not isinstance(taken, NotHigher):
                self._begin(taken)
        return taken

    def status(self, id: int) -> StoredCheckpoint | None:
        return self._coordinator.status(id)

    def all(self) -> tuple[StoredCheckpoint, ...]:
        return self._coordinator.all()

    def delete(self, id: int) -> None:
        self._coordinator.delete(id)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Go on with what was begun, and keep the schedule, until the end of the block."""
        stop = threading.Event()
        clockwork = threading.Thread(target=self._keep, args=(stop,), name="schedule", daemon=True)
        for id in self._coordinator.fail_abandoned():
            self._say(f"checkpoint {id}  failed: {NEVER_ACKNOWLEDGED}")
        with self._taking:
            for id in unfinished(self._store, self._finisher.node):
                self._begin(id)
        clockwork.start()
        try:
            yield
        finally:
            stop.set()
            clockwork.join()
            self._copying.shutdown(cancel_futures=True)

    def _begin(self, id: int) -> None:
        """Have it finished, unless it is, or somebody is at it: the request has come before."""
        found = self.status(id)
        if id in self._under_way or found is None or found.status is Status.COMPLETED:
            return
        self._under_way.add(id)
        self._copying.submit(self._finish, id)

    def _finish(self, id: int) -> None:
        try:
            found = self._finisher.finish(id)
            self._say(f"checkpoint {id}  {found.status}")
            self._note_ended(found)
        except Exception as error:  # noqa: BLE001 - nobody waits for it: said and counted
            self._failed += 1
            self.troubles.met(Doing.COPYING, f"checkpoint {id}", error)
            self._note_behind(f"checkpoint {id}: {error}")
        finally:
            self._under_way.discard(id)

    def _note_ended(self, found: StoredCheckpoint) -> None:
        if found.status is Status.COMPLETED:
            self._failed = 0
            self.lag.up_to_date()
        else:
            self._failed += 1
            self._note_behind(f"checkpoint {found.id} is {found.status}")

    def _note_behind(self, reason: str) -> None:
        """Without a schedule there is nothing that checkpoints could be behind."""
        if self._schedule.every_ms is not None:
            self.lag.behind(reason)

    def _say_lag(self, change: Behind | CaughtUpAgain) -> None:
        verb = "are " if isinstance(change, Behind) else ""
        self._say(f"checkpoints {verb}{change}")

    def _keep(self, stop: threading.Event) -> None:
        if self._schedule.retention != Retention():
            self._end_deletions()
        while not stop.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Take one if it is time, and let go of those that may go; errors are said and counted."""
        try:
            self._take_if_due()
            going = self._coordinator.expired(self._schedule.retention)
        except Exception as error:  # noqa: BLE001 - the schedule goes on: said and counted
            self.troubles.met(Doing.SCHEDULE, "schedule", error)
            self._failed = max(1, self._failed)
            self._note_behind(str(error))
            return
        self.troubles.over("schedule")
        for id in going:
            self._let_go(id, "retention")

    def _end_deletions(self) -> None:
        """Remove what deletions have left that were killed."""
        try:
            left = self._store.deleted_with_rest()
        except Exception as error:  # noqa: BLE001 - the schedule goes on: said and counted
            self.troubles.met(Doing.RETENTION, "retention", error)
            return
        for id in left:
            self._let_go(id, "what was left of it")

    def _take_if_due(self) -> None:
        held = self.all()
        if any(one.started is None and one.status is not Status.FAILED for one in held):
            self._coordinator.fail_abandoned()
        newest = next(iter(held), None)
        now = self._clock()
        if due(newest.created_at_ms if newest else None, self._schedule, now) or (
            newest is not None and self._again(newest, now)
        ):
            self.take()

    def _again(self, newest: StoredCheckpoint, now: int) -> bool:
        """Whether another is to be taken in place of one that has failed by a fault."""
        if newest.status is not Status.FAILED or newest.created_at_ms is None or not self._failed:
            return False
        waited = now - newest.created_at_ms
        return waited >= AGAIN_MS << min(self._failed - 1, MOST_DOUBLED)

    def _let_go(self, id: int, why: str) -> None:
        about = f"retention, checkpoint {id}"
        try:
            self._store.delete(id)
        except Exception as error:  # noqa: BLE001 - the others go all the same
            self.troubles.met(Doing.RETENTION, about, error)
        else:
            self.troubles.over(about)
            self._say(f"checkpoint {id} is deleted: {why}")
