"""Carries a guarded act out: consent, lock, journal, second look, act, result per item, end.

Every change that Breakglass makes to a cluster or to a store passes here, whichever front end
asked for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from breakglass.services.errors import (
    AlreadyRunning,
    BreakglassError,
    EvidenceChanged,
    Refused,
    StorageError,
)
from breakglass.services.guard.act import (
    Act,
    Change,
    Ending,
    Front,
    Frozen,
    JournalOpened,
    Means,
    result_of,
)
from breakglass.services.guard.consent import require_phrases
from breakglass.services.guard.journal import Journal
from breakglass.services.session import Power

T = TypeVar("T")

FRESH_SECONDS = 2.0
"""Seconds for which evidence counts as the second look, if no prompt came after it."""
NOTHING_DONE = "nothing done"
"""How a journal records an act that ended before its first request."""


class ConsentOutdated(EvidenceChanged, Generic[T]):
    """The second look differs from what was agreed to; nothing was done."""

    def __init__(self, fresh: Frozen[T], changed: tuple[Change, ...]) -> None:
        more = f" (and {len(changed) - 1:,} more changed)" if len(changed) > 1 else ""
        super().__init__(
            f"{changed[0]}{more}: nothing was done; look at it as it is now, then consent to that"
        )
        self.fresh = fresh
        """What the operator can agree to now."""
        self.changed = changed


class GuardedRun(Generic[T]):
    """An act that is carried out at most once."""

    def __init__(self, act: Act[T], front: Front) -> None:
        self._act = act
        self._front = front
        self._begun = threading.Lock()
        self._frozen_at: float | None = None

    def freeze(self) -> Frozen[T]:
        """What the act would do now. Raises BreakglassError where it can do nothing."""
        frozen = self._act.freeze(self._front)
        self._frozen_at = time.monotonic()
        return frozen

    def carry_out(
        self,
        power: Power | None,
        agreed: Frozen[T],
        phrases: Sequence[str],
        *,
        implied: bool = False,
        begin: Callable[[Frozen[T]], None] = lambda _: None,
    ) -> Ending:
        """Do what *agreed* says, once the operator gave *phrases*.

        *implied*: the consent is the command's own name and flag. *begin* is called after the
        second look, before the act: up to then nothing was done.

        Raises:
            ConsentMissing: a phrase is missing or differs.
            AlreadyRunning: this ran before, or another process changes this cluster from here.
            ConsentOutdated: *agreed* is no longer what would happen; nothing was done.
            Refused: it was given up before anything was done.
            WrongCluster: the addresses now lead to another cluster.
            BreakglassError: the act failed; the journal says how far it came.
        """
        require_phrases(phrases, agreed.asked)
        if not self._begun.acquire(blocking=False):
            raise AlreadyRunning(
                "this was begun already, and a consent is good for one run: wait until that ends, "
                "then look at the cluster again"
            )
        act, front = self._act, self._front
        with act.open_journal(agreed, front.state_folder) as journal:
            with _recorded(journal, lambda _: NOTHING_DONE):
                fresh = self._look_again(agreed)
                act.announce(journal, fresh, phrases, implied=implied)
                begin(fresh)
            with _recorded(journal, result_of):
                front.tell(JournalOpened(journal.path))
                ending = act.carry_out(front, Means(journal, power), fresh)
            if ending.result is not None:
                # Each result was reported; a journal without its end can be resumed.
                with suppress(StorageError):
                    journal.finish(ending.result)
        return ending

    def follow(self, agreed: Frozen[T], ending: Ending) -> str:
        """Do the work that follows the act and changes no cluster; returns how it ended."""
        return self._act.follow(self._front, agreed, ending)

    def _look_again(self, agreed: Frozen[T]) -> Frozen[T]:
        read = self._frozen_at
        if read is not None and time.monotonic() - read < FRESH_SECONDS:
            return agreed
        fresh, changed = self._act.look_again(self._front, agreed)
        if self._front.stop():
            # A look that was cut short reports changes that did not happen.
            raise Refused("Given up: nothing was done.")
        if changed:
            raise ConsentOutdated(fresh, changed)
        return fresh


@contextmanager
def _recorded(journal: Journal, result: Callable[[BreakglassError], str]) -> Iterator[None]:
    """Write down why the act ended early; a journal that cannot be written stays unfinished."""
    try:
        yield
    except BreakglassError as error:
        with suppress(StorageError):
            journal.finish(str(result(error)), reason=str(error))
        raise
