"""Which partitions still have to be read, and when all of them are read again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from breakglass.services.incident.changes import Changes
from breakglass.services.incident.replicas import Go
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.precedence import recovery_order

EVERYTHING_SECONDS = 30.0
"""How old a replica's figures may grow though nothing seems to have changed."""
REPLICAS_SHARE = 0.04
"""Of the time at most is spent on figures that do not seem to have changed."""


class Pending:
    """Which rows' replicas are to be read; true while there are some.

    A row is pending when it has no evidence, when its evidence was read before all was to be read
    again, or when its partition has changed since.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.turn = 0
        """The reading of everything that counts: evidence of earlier ones is out of date."""
        self._outdated: set[TopicPartition] = set()
        self._left = 0
        self._counted: tuple[IncidentRow, ...] = ()
        """The rows of which so many are left."""
        self._everything = False
        """All are being read again, for as long as some are left."""
        self._due_at = 0.0
        self._spent = 0.0
        self._acls: frozenset[str] = frozenset()
        self._found: set[str] = set()

    def __bool__(self) -> bool:
        return self._left > 0

    @property
    def missing_acls(self) -> tuple[str, ...]:
        """Those met by the last reading of everything, and by what was read since."""
        return tuple(sorted(self._acls | self._found))

    def update(self, changed: Changes, *, anew: bool) -> None:
        """Take in what *changed*; all is pending when it is to be read *anew*, or is due."""
        self._outdated.update(changed.outdated)
        if anew or (not self._everything and self._clock() >= self._due_at):
            self.turn += 1
            self._everything, self._spent, self._found = True, 0.0, set()
        self._count(changed.rows)

    def places(self, rows: Sequence[IncidentRow]) -> list[int]:
        """Where in *rows* the pending ones are, in the order in which they are to be read."""
        places = [at for at, row in enumerate(rows) if self._pending(row)]
        return sorted(places, key=lambda at: recovery_order(rows[at].partition)[0])

    def found(self, go: Go) -> None:
        """One go is read, when it is final."""
        self._found.update(go.evidence.missing_acls)
        if go.final:
            self._left -= len(go.states)
            if self._outdated:
                self._outdated.difference_update([one.partition for one in go.states])

    def spent(self, seconds: float) -> None:
        """A reading of replicas has taken so long."""
        self._spent += seconds
        self._settle()

    def _count(self, rows: tuple[IncidentRow, ...]) -> None:
        """How many of *rows* are left; none of those that were read before and have not changed."""
        if self._left or self._outdated or self._everything or rows is not self._counted:
            self._left = sum(map(self._pending, rows))
            self._counted = rows
        self._settle()

    def _pending(self, row: IncidentRow) -> bool:
        chunk = row.chunk
        if chunk is None or chunk.turn < self.turn:
            return True
        return bool(self._outdated) and row.state.partition in self._outdated

    def _settle(self) -> None:
        """All are read again once they have been left in peace for long enough."""
        if self._left > 0:
            return
        self._outdated.clear()
        if not self._everything:
            return
        self._everything = False
        self._acls = frozenset(self._found)
        self._due_at = self._clock() + max(EVERYTHING_SECONDS, self._spent / REPLICAS_SHARE)
