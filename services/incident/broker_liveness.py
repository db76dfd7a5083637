"""Which brokers answer: asked before they are read, and repeatedly while they do not answer.

All brokers that are dead or hang cost one short wait together, and none later.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.recovery.evidence.reports import Wait, next_report, why_silent
from breakglass.services.snapshot import ClusterDescription

FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 30.0
"""Seconds between looks at a silent broker; doubled for a broker that answers, then fails."""


@dataclass(slots=True)
class _Absence:
    """A broker that does not answer."""

    reason: str
    look_at: float
    """When to ask the broker again."""
    looking: bool = False


@dataclass(frozen=True, slots=True)
class _Heard:
    broker: int
    error: Exception | None


class Presence:
    """Brokers that answer and brokers that do not, by the questions of one thread."""

    def __init__(
        self,
        sender: Sender,
        duration: float,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = next_report,
    ) -> None:
        self._sender, self._duration = sender, duration
        self._clock, self._wait = clock, wait
        self._absent: dict[int, _Absence] = {}
        self._since: dict[int, float] = {}
        """When a broker first failed to report its replicas; it has not reported them since."""
        self._pauses: dict[int, float] = {}
        self._heard: queue.SimpleQueue[_Heard] = queue.SimpleQueue()

    @property
    def silent(self) -> dict[int, str]:
        """Brokers that do not answer, with the reason."""
        return {broker: absence.reason for broker, absence in sorted(self._absent.items())}

    def awaited(self, brokers: ClusterDescription) -> frozenset[int]:
        """Silent brokers that may still answer: not fenced, and not silent for too long (R15)."""
        latest = self._clock() - self._duration
        return frozenset(
            broker
            for broker in self._absent
            if self._since[broker] > latest
            and not brokers.unregistered((broker,))
            and brokers.fenced(broker) is not True
        )

    def roll_call(self, brokers: Iterable[int]) -> None:
        """Ask *brokers* at once, and wait a moment: brokers without answer are silent."""
        asked = set(brokers)
        until = Deadline.after(patience.ROLL_CALL)
        for broker in asked:
            self._ask(broker)
        while asked and not until.passed:
            try:
                asked.discard(self._take(self._wait(self._heard, until)))
            except queue.Empty:
                break
        for broker in asked:
            self._miss(broker, f"b{broker} does not answer (timed out)")

    def look_again(self) -> frozenset[int]:
        """Brokers that answer again since the last look; asks silent brokers without waiting."""
        before = set(self._absent)
        while not self._heard.empty():
            self._take(self._heard.get())
        now = self._clock()
        for broker, absence in self._absent.items():
            if now >= absence.look_at and not absence.looking:
                absence.looking = True
                self._ask(broker)
        return frozenset(before - self._absent.keys())

    def failed(self, broker: int, reason: str) -> None:
        """*broker* answers a greeting, and did not report its replicas."""
        if broker not in self._absent:
            # Without this mark, the broker would be read in vain with each reading.
            pause = self._pauses.get(broker, FIRST_PAUSE_SECONDS)
            self._pauses[broker] = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self._miss(broker, reason)

    def reported(self, brokers: Iterable[int]) -> None:
        """*brokers* have reported their replicas."""
        for broker in brokers:
            self._pauses.pop(broker, None)
            self._since.pop(broker, None)

    def keep(self, brokers: Iterable[int]) -> None:
        """Forget all but *brokers*: only they have replicas that matter."""
        for broker in self._absent.keys() - set(brokers):
            del self._absent[broker]

    def _ask(self, broker: int) -> None:
        threading.Thread(target=self._greet, args=(broker,), daemon=True).start()

    def _greet(self, broker: int) -> None:
        """In a thread of its own: greet the broker, and report how that ended."""
        try:
            self._sender.prove(broker, Deadline.after(patience.ROLL_CALL))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, `_take` tells it
            self._heard.put(_Heard(broker, error))
        else:
            self._heard.put(_Heard(broker, None))

    def _take(self, heard: _Heard) -> int:
        if heard.error is None:
            self._absent.pop(heard.broker, None)
        else:
            self._miss(heard.broker, why_silent(heard.broker, heard.error))
        return heard.broker

    def _miss(self, broker: int, reason: str) -> None:
        now = self._clock()
        self._since.setdefault(broker, now)
        pause = self._pauses.get(broker, FIRST_PAUSE_SECONDS)
        self._absent[broker] = _Absence(reason, now + pause)
