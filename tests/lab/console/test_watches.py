"""What the console watches through every fault: the last figures stay, dated, and new ones come."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.backup_watch.watch import BackupWatch
from breakglass.services.errors import BreakglassError
from breakglass.services.health.monitor import Monitor
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.model import Unknown
from tests.kit.clusters import access_to
from tests.kit.faults import CONSOLE, Fault, Lab, Report, damage, on_followed_lab, under_faults
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

DURATION = 5.0


class Watching:
    """Reads as the screens do, in one thread, until it is closed."""

    def __init__(self, lab: Lab, disk: Path) -> None:
        self._watch = IncidentWatch(access_to(lab.cluster), duration=DURATION)
        self.monitor = Monitor()
        self.backups = BackupWatch([str(disk)])
        self.incident: Incident | None = None
        self.readings = 0
        self.failure = ""
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            try:
                for incident in self._watch.read(self.incident):
                    self.monitor.seen(incident.snapshot)
                    self.incident, self.failure = incident, ""
            except BreakglassError as error:
                self.failure = str(error)
                self.monitor.missed(str(error))
            else:
                self.readings += 1
            self.backups.look(now=True)

    def close(self) -> None:
        self._stop.set()
        self._watch.close()
        self.thread.join(DEADLINE_SECONDS)


@contextmanager
def watching(lab: Lab, disk: Path) -> Iterator[Watching]:
    found = Watching(lab, disk)
    try:
        yield found
    finally:
        found.close()


def said(seen: Watching, lab: Lab, fault: Fault) -> bool:
    """Whether the watch shows what is wrong."""
    incident = seen.incident
    if incident is None:
        return False
    down = {broker.id for broker in lab.cluster.brokers if not broker.awake}
    if fault in (Fault.KILL_LEADER, Fault.EACH_BROKER, Fault.STOPPED_LEADER):
        fenced = {broker.id for broker in incident.snapshot.brokers if broker.fenced}
        return down <= fenced
    if fault is Fault.CONTROLLER:
        return isinstance(incident.snapshot.quorum, Unknown)
    if fault is Fault.LOST_NETWORK:
        return bool(seen.failure) and isinstance(seen.monitor.health.counts.failed, Unknown)
    return True


@on_followed_lab
@under_faults(CONSOLE)
def test_the_consoles_watches_go_on_through(
    fault: Fault, report: Report, followed_lab: Lab, disk: Path
) -> None:
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    followed_lab.create(topic)
    with watching(followed_lab, disk) as seen:
        wait_until(lambda: seen.readings, "a first reading")

        def during() -> None:
            wait_until(
                lambda: report is Report.NOTHING or said(seen, followed_lab, fault),
                "what is wrong",
                instead=lambda: (seen.failure, seen.incident and seen.incident.snapshot.brokers),
            )

        damage(fault, followed_lab, topic, disk, during)

        def whole() -> bool:
            incident = seen.incident
            return (
                not seen.failure
                and incident is not None
                and not isinstance(incident.snapshot.quorum, Unknown)
                and not any(broker.fenced for broker in incident.snapshot.brokers)
                and seen.monitor.health.counts.failed is None
            )

        before = seen.readings
        wait_until(lambda: seen.readings > before and whole(), "whole figures")
        assert seen.thread.is_alive()
