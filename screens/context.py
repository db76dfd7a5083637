"""What every screen works with: how to read, whether to change, and what is known so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from breakglass.services.backup_watch.watch import BackupWatch
from breakglass.services.checkpoint.watch import CheckpointWatch
from breakglass.services.health.monitor import Monitor
from breakglass.services.words.moments import clock_text

if TYPE_CHECKING:
    from pathlib import Path

    from breakglass.screens.terminal import Terminal
    from breakglass.services.browse.schemas import Schemas
    from breakglass.services.bundle.contents import OpenedBundle
    from breakglass.services.checkpoint.promises import WantedCheckpoint
    from breakglass.services.checkpoint.wording import RestoreAsked
    from breakglass.services.incident.elections_seen import Observation
    from breakglass.services.incident.incident import Incident
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import TopicPartition
    from breakglass.services.session import Power, ReadAccess
    from breakglass.services.topic_backup.store.blobs import Key

REFRESH_SECONDS = 2.0
NEVER = 0.0
"""In place of an interval: nothing is read again."""


class Watching(Protocol):
    """Reads the cluster again and again (services/incident/watch.py)."""

    def read(
        self, before: Incident | None = None, *, everything: bool = False
    ) -> Iterator[Incident]:
        """What is so now, in one or more steps; *everything* trusts nothing that was read."""

    @property
    def gone(self) -> tuple[int, ...]:
        """Brokers whose disks are declared lost."""

    def declare_gone(self, brokers: Collection[int]) -> None:
        """Wait for nothing from *brokers* any more, and from no others."""

    def agreed(self, designees: Mapping[TopicPartition, int]) -> None:
        """The operator agrees to these leaders: their election is no alarm."""

    def acknowledge(self) -> tuple[Observation, ...]:
        """Take note of what was seen so far; returns all of it."""

    def close(self) -> None:
        """End every wait at once."""


class CheckpointText(Protocol):
    """Reads what an operator types as the commands of checkpoints do (console/checkpoint_text)."""

    def take(self, text: str) -> WantedCheckpoint:
        """What a checkpoint is to be of. Raises UsageError."""

    def restore(self, text: str) -> RestoreAsked:
        """Where a checkpoint is to be restored. Raises UsageError."""


@dataclass(slots=True)
class Known:
    """The last truth about the cluster, and why there is no newer one."""

    incident: Incident | None = None
    read_at: float | None = None
    """When it was read, by the monotonic clock."""
    failure: str = ""
    """Why the last refresh failed; empty when it did not."""
    reading: bool = False
    """A refresh is under way."""
    interval: float = REFRESH_SECONDS
    """Seconds between two refreshes, or `NEVER`."""
    paused: bool = False
    """A mutation runs: nothing is read beside it."""
    observations: tuple[Observation, ...] = ()
    """Elections that were seen to cost records, the newest first."""
    unwritten: str = ""
    """Why they could not be written down; empty when they were."""

    @property
    def alarming(self) -> bool:
        """Something was seen of which nobody has taken note."""
        return any(not observation.acknowledged for observation in self.observations)

    def age(self, now: float) -> float | None:
        return None if self.read_at is None else now - self.read_at

    def stale(self, now: float) -> bool:
        age = self.age(now)
        return age is not None and age > max(3 * self.interval, 5.0)

    def doubtful(self, now: float) -> bool:
        """Whether what was read may not be so by now: it is stale, or reading it again failed."""
        return self.incident is not None and (bool(self.failure) or self.stale(now))


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to each screen when it is made."""

    access: ReadAccess
    watch: Watching
    terminal: Terminal
    checkpoint_text: CheckpointText
    power: Power | None = None
    """None in a read-only session: nothing that could change the cluster exists."""
    profile: str = ""
    """The operator's own name for the cluster; empty: its id is shown."""
    connection_words: tuple[str, ...] = ()
    """The options by which a command in another terminal reaches the same cluster."""
    state_folder: Path | None = None
    """Journals and rescues; None: the user's state folder."""
    clock: Callable[[], float] = time.monotonic
    known: Known = field(default_factory=Known)
    health: Monitor = field(default_factory=Monitor)
    """The cluster at a glance, with its history since the session began."""
    backups: BackupWatch = field(default_factory=BackupWatch)
    """The places of topic backups."""
    key: Key | None = None
    """Of encrypted topic backups."""
    checkpoints: CheckpointWatch = field(default_factory=CheckpointWatch)
    """The stores of checkpoints."""
    metastore_backups: Path | None = None
    """The folder of metastore backups; None: the one in the user's data folder."""
    schemas: Schemas | None = None
    """What keys and values of records are decoded by; None: no schema registry was named."""
    bundle: OpenedBundle | None = None
    """What is looked at in place of a cluster; the clock stands still then."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the session ends: what changes the cluster finishes its request and stops."""
    _clients: set[ReadClient] = field(default_factory=set)

    @contextmanager
    def reading(self, client_id: str | None = None) -> Iterator[ReadClient]:
        """A client for a worker of its own; ended with the session, so no wait outlives it."""
        with self.access.reading(client_id) as client:
            self._clients.add(client)
            try:
                if self.stopping.is_set():
                    client.close()
                yield client
            finally:
                self._clients.discard(client)

    def close(self) -> None:
        """End every wait for a broker in every thread that only reads."""
        self.stopping.set()
        self.watch.close()
        for client in tuple(self._clients):
            client.close()

    @property
    def saving_folder(self) -> Path | None:
        """Where screenshots and timelines are saved; None: the user's state folder.

        The journals of a bundle lie in a folder that goes with the console.
        """
        return self.state_folder if self.bundle is None else None

    @property
    def last_seen(self) -> str:
        """When the cluster was read, where it may be another by now; empty while it is known.

        Screens then say what was, not what is. A bundle is always what it was.
        """
        known = self.known
        doubtful = self.bundle is None and known.doubtful(self.clock())
        return clock_text(known.incident.read_at_ms) if doubtful and known.incident else ""

    @property
    def armed(self) -> bool:
        return self.power is not None
