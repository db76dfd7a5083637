"""Looks at a command topic every fifth of a second, on a client of its own, and raises alarms.

The one who reads the topic waits in long fetches and notices nothing of settings, deletion or
recreation (M4, M5); this does within a look or two, and says each alarm once until it changes.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.metastore.alarms import Alarm, Danger, dangers
from breakglass.services.metastore.events import Tell
from breakglass.services.metastore.topic_state import TopicState, read_topic_state
from breakglass.services.session import ReadAccess

EVERY_SECONDS = 0.2
LOOK_SECONDS = 1.0
"""How long one look may take."""
BLIND_SECONDS = 2.0
"""Without an answer for so long, that is an alarm itself."""


class MetastoreWatch:
    """While entered, a thread that looks at the topic and tells alarms as they arise."""

    def __init__(self, access: ReadAccess, topic: str, tell: Tell) -> None:
        self._access = access
        self._topic = topic
        self._tell = tell
        self._expected: str | None = None
        self._raised: set[Alarm] = set()
        self._added: set[Alarm] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._heard = time.monotonic()
        self.newest: TopicState | None = None
        """What was seen last; None where there is no topic, and before the first look."""
        self.reason = ""
        """Why the last look saw nothing; empty where it did."""
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="metastore-watch", daemon=True)
        self.alarms = 0
        """Told so far."""

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
        self._thread.join(LOOK_SECONDS + 1)

    def expect(self, topic_id: str | None) -> None:
        """The topic is to have this id from now on."""
        self._expected = topic_id

    def check(self) -> None:
        """Raise what ended the watch before its time: nobody is to trust one that is blind."""
        if self._failure is not None:
            raise self._failure

    @property
    def blind_seconds(self) -> float:
        """How long the topic could not be looked at."""
        return time.monotonic() - self._heard

    def add(self, alarm: Alarm) -> None:
        """Tell an alarm that somebody else has found, once, and count it."""
        with self._lock:
            if alarm not in self._added:
                self._added.add(alarm)
                self.alarms += 1
                self._tell(alarm)

    def judge(self, state: TopicState | None) -> None:
        """Tell what is wrong with *state* and was not told yet."""
        self._heard = time.monotonic()
        self.newest, self.reason = state, ""
        self._raise(set(dangers(state, self._topic, self._expected)))

    def _raise(self, found: set[Alarm]) -> None:
        with self._lock:
            fresh = sorted(found - self._raised, key=lambda one: list(Danger).index(one.danger))
            self._raised = found
            self.alarms += len(fresh)
            for one in fresh:
                self._tell(one)

    @property
    def raised(self) -> frozenset[Alarm]:
        """What is wrong now."""
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
                    client.describe(Deadline.after(LOOK_SECONDS))
                state = read_topic_state(client.sender, self._topic, Deadline.after(LOOK_SECONDS))
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
            one.danger is Danger.WATCH_BLIND for one in self._raised
        ):
            alarm = Alarm(
                Danger.WATCH_BLIND,
                f"topic {self._topic} could not be looked at for {silent:.0f} s ({reason}): what "
                "happened to it since then is unknown",
            )
            self._raise({*self._raised, alarm})
