"""A fake cluster that sessions watch, reading after reading."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.incident import changes, watch, witness
from breakglass.services.incident.elections_seen import alarm_lines, unacknowledged
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.recovery.evidence import gather
from breakglass.services.session import Effort, ReadAccess
from tests.kit.deadlines import endless
from tests.kit.fake_cluster import FakeCluster


class Watched:
    """One session's watch; each reading goes on from the one before."""

    def __init__(self, cluster: FakeCluster, folder: Path, **options: Any) -> None:
        self.cluster = cluster
        settings = ConnectionSettings((cluster.brokers[1].endpoint, cluster.brokers[2].endpoint))
        access = ReadAccess(settings, contents=options.pop("contents", Effort.FULL))
        self.watch = IncidentWatch(access, state_folder=folder, **options)
        self.incident: Incident | None = None

    def read(self, *, everything: bool = False) -> Incident:
        return self.told(everything=everything)[-1]

    def told(self, *, everything: bool = False) -> list[Incident]:
        """All that one reading tells."""
        told = list(self.watch.read(self.incident, everything=everything))
        self.incident = told[-1]
        return told

    def words(self, *, everything: bool = False) -> str:
        """Verdict and action of the only row."""
        (row,) = self.read(everything=everything).rows
        return f"{row.verdict} {row.action}"

    def alarms(self) -> str:
        return "; ".join(alarm_lines(unacknowledged(self.read().observations)))

    def close(self) -> None:
        self.watch.close()

    def stop(self, *brokers: int) -> None:
        self.cluster.story.fenced |= set(brokers)
        for broker in brokers:
            self.cluster.brokers[broker].stop()


Session = Callable[..., Watched]


@pytest.fixture
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit ends a request, and nothing is put off for a while."""
    endless(monkeypatch)
    monkeypatch.setattr(changes, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "METADATA_SHARE", 1.0)
    monkeypatch.setattr(witness, "FOLLOW_SECONDS", 0.0)
    monkeypatch.setattr(gather, "REST_SECONDS", 0.0)


@pytest.fixture
def session(no_rest: None, cluster: FakeCluster, tmp_path: Path) -> Iterator[Session]:
    """Begins a session that watches the test's cluster."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(Watched(cluster, tmp_path, **options)))


@pytest.fixture
def watched(session: Session) -> Watched:
    return session()
