"""Checks a command topic five times a second on a separate client, and raises alarms.

The topic's reader waits in long fetches and does not notice changed settings, deletion or
recreation (M4, M5). This watch notices them within one or two looks, and reports each alarm once
until it changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.metastore.events import Tell
from breakglass.services.metastore.topic_state import (
    Alarm,
    Danger,
    TopicState,
    dangers,
    read_topic_state,
)
from breakglass.services.session import ReadAccess

EVERY_SECONDS = 0.2
BLIND_SECONDS = 2.0
"""Seconds without an answer after which an alarm is raised."""


class MetastoreWatch:
    """While entered, a thread that checks the topic and reports alarms."""

    def __init__(
        self,
        access: ReadAccess,
        topic: str,
        tell: Tell,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._topic = topic
        self._tell = tell
        self._clock = clock
        self._expected: str | None = None
        self._raised: set[Alarm] = set()
        self._added: set[Alarm] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._heard = clock()
        self.newest: TopicState | None = None
        """The last state; None if the topic does not exist, and before the first look."""
        self.reason = ""
        """Why the last look failed; empty if it succeeded."""
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="metastore-watch", daemon=True)
        self.alarms = 0
        """The number of reported alarms."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(patience.ALARM + 1)

    def expect(self, topic_id: str | None) -> None:
        """Expect the topic to have this id from now on."""
        self._expected = topic_id

    def check(self) -> None:
        """Raise the error that ended the watch, so that nobody relies on a dead watch."""
        if self._failure is not None:
            raise self._failure

    @property
    def blind_seconds(self) -> float:
        """Seconds since the topic was last checked successfully."""
        return self._clock() - self._heard

    def add(self, alarm: Alarm) -> None:
        """Report an alarm from elsewhere, once, and count it."""
        with self._lock:
            if alarm not in self._added:
                self._added.add(alarm)
                self.alarms += 1
                self._tell(alarm)

    def judge(self, state: TopicState | None) -> None:
        """Report the dangers of *state* that were not reported yet."""
        self._heard = self._clock()
        self.newest, self.reason = state, ""
        self._raise(set(dangers(state, self._topic, self._expected)))

    def _raise(self, found: set[Alarm]) -> None:
        with self._lock:
            fresh = sorted(found - self._raised, key=lambda alarm: list(Danger).index(alarm.danger))
            self._raised = found
            self.alarms += len(fresh)
            for alarm in fresh:
                self._tell(alarm)

    @property
    def raised(self) -> frozenset[Alarm]:
        """The current dangers."""
        return frozenset(self._raised)

    def _run(self) -> None:
        try:
            self._look_on()
        except BaseException as error:  # noqa: BLE001 -- a thread ends here, `check` raises it
            self._failure = error

    def _look_on(self) -> None:
        client: ReadClient | None = None
        while not self._stop.wait(EVERY_SECONDS):
            try:
                if client is None:
                    client = self._access.client("breakglass-metastore-watch")
                    client.describe(Deadline.after(patience.ALARM))
                state = read_topic_state(client.sender, self._topic, Deadline.after(patience.ALARM))
            except BreakglassError as error:
                self.reason = str(error)
                self._blind(str(error))
                if client is not None:
                    client.close()
                    client = None
            else:
                self.judge(state)
        if client is not None:
            client.close()

    def _blind(self, reason: str) -> None:
        silent = self.blind_seconds
        if silent >= BLIND_SECONDS and not any(
            alarm.danger is Danger.WATCH_BLIND for alarm in self._raised
        ):
            alarm = Alarm(
                Danger.WATCH_BLIND,
                f"topic {self._topic} could not be looked at for {silent:.0f} s ({reason}): what "
                "happened to it since then is unknown",
            )
            self._raise({*self._raised, alarm})
