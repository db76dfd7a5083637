"""Captures a cluster into a bundle: reads alone, and what cannot be read is noted with its reason.

The offline partitions are read as the console reads them, by a watch that remembers: a capture
that follows a cluster knows what replicas reported before their brokers died.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.services import patience
from breakglass.services.bundle.from_brokers import (
    add_brokers,
    add_groups,
    add_incident,
    add_records,
    add_topics,
)
from breakglass.services.bundle.from_this_machine import BackupPlaces, add_backups, add_journals
from breakglass.services.bundle.making import BundleMaker
from breakglass.services.bundle.records import ContentRules
from breakglass.services.errors import BreakglassError
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.session import ReadAccess

READ_AGAIN_SECONDS = 0.25
RECORDS_EACH = 100
"""Records of each diverging replica, unless the operator says otherwise."""


@dataclass(frozen=True, slots=True)
class CaptureAsked:
    """What is to be captured."""

    duration: float = patience.LOGS
    """Seconds that silent brokers have to answer."""
    gone: tuple[int, ...] = ()
    places: BackupPlaces = field(default_factory=BackupPlaces)
    rules: ContentRules = field(default_factory=ContentRules)
    records_each: int = RECORDS_EACH
    state_folder: Path | None = None
    """Where journals are; None: the user's own state folder."""


class Capture:
    """Reads one cluster, once or again and again, in one thread; `close` is for any thread."""

    def __init__(self, access: ReadAccess, asked: CaptureAsked) -> None:
        self._access, self._asked = access, asked
        self._watch = IncidentWatch(
            access, duration=asked.duration, gone=asked.gone, state_folder=asked.state_folder
        )
        self._incident: Incident | None = None
        self._closed = threading.Event()

    def look(self) -> Incident:
        """The incident now, without waiting for brokers that are silent.

        Raises:
            BreakglassError: no broker serves the cluster's metadata.
        """
        for incident in self._watch.read(self._incident):
            self._incident = incident
        if self._incident is None:
            raise BreakglassError("the cluster was not read: run this again")
        return self._incident

    def settle(self, tell: Callable[[str], None]) -> Incident:
        """The incident once every broker has answered or had its time. Raises as `look`."""
        incident = self.look()
        until = time.monotonic() + self._asked.duration + patience.ONE_BROKER
        told = ""
        while not (incident.complete or self._closed.is_set() or time.monotonic() > until):
            waiting = ", ".join(f"b{broker}" for broker in sorted(incident.awaited))
            if waiting and waiting != told:
                tell(f"Waiting for {waiting}.")
                told = waiting
            self._closed.wait(READ_AGAIN_SECONDS)
            incident = self.look()
        return incident

    def bundle(self, incident: Incident | BreakglassError) -> BundleMaker:
        """A bundle of *incident* and what belongs to it; or of the reason why there is none."""
        maker, asked = BundleMaker(), self._asked
        if isinstance(incident, Incident):
            add_incident(maker, incident, asked.gone)
            self._from_brokers(maker, incident)
        else:
            maker.lacks("the cluster", str(incident))
        with _noting(maker, "the status of backups"):
            add_backups(maker, asked.places)
        known = self._incident
        if known is None:
            maker.lacks("the journals", "the id of the cluster is not known")
        else:
            maker.cluster_id = known.snapshot.cluster_id
            with _noting(maker, "the journals"):
                add_journals(maker, known.snapshot.cluster_id, asked.state_folder)
        return maker

    def close(self) -> None:
        """End every wait for a broker."""
        self._closed.set()
        self._watch.close()

    def _from_brokers(self, maker: BundleMaker, incident: Incident) -> None:
        snapshot, asked = incident.snapshot, self._asked
        with _noting(maker, "what only brokers know"), self._access.reading() as client:
            client.describe(Deadline.after(patience.SNAPSHOT))
            with _noting(maker, "the brokers' log directories and settings"):
                add_brokers(maker, client, snapshot)
            with _noting(maker, "the topics' settings"):
                add_topics(maker, client, snapshot)
            with _noting(maker, "the groups"):
                add_groups(maker, client, snapshot)
            if asked.records_each:
                with _noting(maker, "the divergent records"):
                    add_records(maker, client, incident, asked.rules, asked.records_each)


@contextmanager
def _noting(maker: BundleMaker, what: str) -> Iterator[None]:
    """Note that *what* could not be read, where it cannot be; the rest follows."""
    try:
        yield
    except BreakglassError as error:
        maker.lacks(what, str(error))
    except Exception as error:  # noqa: BLE001 -- what is captured without it is worth the file
        maker.lacks(what, f"it cannot be read ({type(error).__name__}: {error}): please report it")
