"""Sends what happens to webhooks and commands: a JSON object by POST, or on standard input.

Each receiver has a thread and a short queue of its own, so that nothing waits for it. An event is
sent again if it fails. A receiver that is too slow loses the oldest events, and the next event that
it gets says how many.
"""

from __future__ import annotations

import hmac
import json
import os
import shlex
import shutil
import subprocess
import threading
import urllib.request
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tenacity import (
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    stop_when_event_set,
    wait_exponential,
)

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.connection.properties import read_private
from breakglass.services.connection.secret import without_secrets
from breakglass.services.errors import BreakglassError, UsageError
from breakglass.services.incident.incident import Incident
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text

SCHEMA = 1
SIGNATURE = "Breakglass-Signature"
MOST_WAITING = 100
"""Events that wait for one receiver."""
MOST_NAMED = 100
"""Partitions that one event names; it counts all of them."""
TRIES = 5
LONGEST_PAUSE_SECONDS = 30.0
SHOWN = 200
CLOSING_SECONDS = 5.0
"""For the events that still wait when a command ends."""

Known = Mapping[TopicPartition, Verdict | None]
Send = Callable[[bytes], object]
"""Raises OSError, ValueError or HTTPException: the receiver did not take it."""


class EventKind(StrEnum):
    """What happened."""

    OFFLINE = "offline"
    """Partitions have no leader any more."""
    BOMB = "bomb"
    """Partitions whose verdict became BOMB."""
    VERDICT = "verdict"
    """Partitions with another verdict, after every replica was read."""
    ONLINE = "online"
    """Partitions have a leader again."""
    BEHIND = "behind"
    """A cluster or a place cannot be read, or a backup cannot follow."""
    CAUGHT_UP = "caught up again"
    ALARM = "alarm"
    """Commands of a ksqlDB service are in danger."""
    FAILED = "failed"
    """The command ends with an error."""


def changes_of(known: Known, found: Incident) -> tuple[Known, list[tuple[EventKind, Known]]]:
    """What is known after *found*, and the partitions of each kind of event since *known*."""
    now = {row.partition: row.verdict for row in found.rows}
    told = {
        one: verdict if found.complete or verdict is Verdict.BOMB else known.get(one)
        for one, verdict in now.items()
    }
    turned = {
        partition: verdict
        for partition, verdict in told.items()
        if verdict is not None and verdict is not known.get(partition)
    }
    bombs = {one: verdict for one, verdict in turned.items() if verdict is Verdict.BOMB}
    changed: dict[EventKind, Known] = {
        EventKind.OFFLINE: {one: told[one] for one in told if one not in known},
        EventKind.BOMB: bombs,
        EventKind.VERDICT: {one: turned[one] for one in turned if one not in bombs},
        EventKind.ONLINE: {one: None for one in known if one not in told},
    }
    return told, [(kind, those) for kind, those in changed.items() if those]


def webhook(url: str, secret: bytes | None) -> Send:
    """What posts to *url*, signed if there is a *secret*. Follows no redirect."""
    handlers = "ProxyHandler HTTPHandler HTTPSHandler HTTPDefaultErrorHandler HTTPErrorProcessor"
    opener = urllib.request.OpenerDirector()
    for handler in handlers.split():
        opener.add_handler(getattr(urllib.request, handler)())

    def post(body: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": "breakglass"}
        if secret is not None:
            headers[SIGNATURE] = f"sha256={hmac.digest(secret, body, 'sha256').hex()}"
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - http or https
        try:
            opener.open(request, timeout=patience.REQUEST).close()
        except urllib.request.HTTPError as error:
            error.close()
            raise OSError(f"it answers {error.code}") from None

    return post


def command(words: Sequence[str]) -> Send:
    """What runs *words*, without a shell or a secret, with the event as a line on its input."""

    def run(body: bytes) -> None:
        try:
            subprocess.run(
                words,
                input=body + b"\n",
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=patience.COMMAND,
                start_new_session=True,
                env=without_secrets(os.environ),
            )
        except subprocess.SubprocessError as error:
            raise OSError(str(error)) from None

    return run


class EventReceiver:
    """A receiver with its queue and its thread."""

    def __init__(self, name: str, send: Send, say: Callable[[str], object]) -> None:
        self._name, self._send, self._say = name, send, say
        self._waiting: deque[dict[str, Any]] = deque()
        self._changed = threading.Condition()
        self._ending = threading.Event()
        self._missed, self._failing = 0, False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def put(self, event: dict[str, Any]) -> None:
        """Send *event* soon; never waits."""
        with self._changed:
            if len(self._waiting) == MOST_WAITING:
                self._waiting.popleft()
                self._missed += 1
            self._waiting.append(event)
            self._changed.notify()

    def end(self) -> None:
        """Try each waiting event once more."""
        with self._changed:
            self._ending.set()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until everything is sent, but no longer than so many *seconds*."""
        self._thread.join(seconds)

    def _run(self) -> None:
        tried = Retrying(
            retry=retry_if_exception_type((OSError, ValueError, HTTPException)),
            stop=stop_after_attempt(TRIES) | stop_when_event_set(self._ending),
            wait=wait_exponential(max=LONGEST_PAUSE_SECONDS),
            sleep=sleep_using_event(self._ending),
            reraise=True,
        )
        while True:
            with self._changed:
                while not (self._waiting or self._ending.is_set()):
                    self._changed.wait()
                if not self._waiting:
                    return
                event, missed = self._waiting.popleft(), self._missed
                self._missed = 0
            try:
                tried(self._send, json.dumps({**event, "missed": missed}).encode())
            except Exception as error:  # noqa: BLE001 - whatever it is, the next event is sent
                with self._changed:
                    self._missed += 1 + missed
                if not self._failing:
                    self._say(f"{self._name} does not take events: {bounded(str(error), SHOWN)}")
                self._failing = True
            else:
                if self._failing:
                    self._say(f"{self._name} takes events again")
                self._failing = False


class Events:
    """What a command reports, to each of its receivers. For several threads."""

    def __init__(self, name: str, receivers: Sequence[EventReceiver]) -> None:
        self._name, self._receivers = name, receivers
        self._known: Known = {}
        self._cluster_id: str | None = None
        self._alarm = LagAlarm(lambda change: self.lag("cluster", change))

    def send(self, kind: EventKind, text: str, **more: object) -> None:
        """Send an event whose sentence is *text*; never waits."""
        at_ms = now_ms()
        event = {
            "schema": SCHEMA,
            "id": str(uuid.uuid4()),
            "event": kind,
            "at": time_text(at_ms),
            "at_ms": at_ms,
            "command": self._name,
            "cluster": self._cluster_id,
            "text": inert(text),
            **more,
        }
        for receiver in self._receivers:
            receiver.put(event)

    def incident(self, found: Incident) -> None:
        """Send what changed since the last incident; the first one is compared with none."""
        if not self._receivers:
            return
        self._cluster_id = found.snapshot.cluster_id
        self._known, changed = changes_of(self._known, found)
        for kind, partitions in changed:
            named = [
                {"topic": one.topic, "partition": one.partition, "verdict": verdict}
                for one, verdict in list(partitions.items())[:MOST_NAMED]
            ]
            first, more = next(iter(partitions)), len(partitions) - 1
            text = f"{kind}: {first}{f' and {more:,} more partitions' if more else ''}"
            self.send(kind, text, count=len(partitions), partitions=named)

    def look(self, found: Incident | BreakglassError) -> None:
        """The same, and whether the cluster can be read at all."""
        if isinstance(found, Incident):
            self._alarm.up_to_date()
            self.incident(found)
        else:
            self._alarm.behind(found)

    def heard(self, kind: str, text: str, source: str) -> None:
        """Send what a backup of a command topic says, if it is an alarm or about a lag."""
        if kind in (EventKind.BEHIND, EventKind.CAUGHT_UP, EventKind.ALARM):
            self.send(EventKind(kind), text, source=source)

    def lag(self, source: str, change: Behind | CaughtUpAgain) -> None:
        """Send that *source* falls behind, or has caught up."""
        text = f"{source}: {change}"
        self.send(EventKind(change.kind), text, source=source, since_ms=change.since_ms)


def receiver_of(given: str, secret: bytes | None, say: Callable[[str], object]) -> EventReceiver:
    """The receiver that is *given* as an address or as a command.

    Raises UsageError: it is neither.
    """
    if given.startswith(("http://", "https://")):
        try:
            url = urlsplit(given)
            usable = url.hostname and url.port != 0 and url.username is None
        except ValueError:
            usable = None
        if not usable:
            raise UsageError("--on-event: give an address as https://HOST/PATH, without a password")
        # A path may be a secret of the receiver's.
        return EventReceiver(f"{url.scheme}://{url.hostname}", webhook(given, secret), say)
    try:
        words = shlex.split(given)
    except ValueError:
        words = []
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--on-event {given!r} is neither an http address nor a command")
    return EventReceiver(words[0], command(words), say)


@contextmanager
def sending(
    name: str, given: Sequence[str], secret_file: Path | None, say: Callable[[str], object]
) -> Iterator[Events]:
    """What sends the events of the command *name* to the *given* receivers while it runs.

    Raises:
        UsageError: a receiver is neither an address nor a command, or no address uses the secret.
        Refused: others may read the file of the secret.
    """
    secret = None
    if secret_file is not None:
        if not any("://" in one for one in given):
            raise UsageError("--event-secret-file signs for an address: give one with --on-event")
        secret = read_private(secret_file).strip().encode()
    receivers = [receiver_of(one, secret, say) for one in given]
    events = Events(name, receivers)
    try:
        yield events
    except BreakglassError as error:
        events.send(EventKind.FAILED, str(error))
        raise
    finally:
        for receiver in receivers:
            receiver.end()
        for receiver in receivers:
            receiver.join(CLOSING_SECONDS)
