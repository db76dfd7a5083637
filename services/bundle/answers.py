"""What a console on a bundle asks in place of a cluster: the same questions, answered by a file.

No client is made here, and no address that the bundle names is opened. Time stands still at the
moment of the capture, so that nothing grows old and nothing is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.backup_watch.location import LocationHeld, TopicHeld
from breakglass.services.backup_watch.watch import BackupStanding, BackupWatch, WatchedLocation
from breakglass.services.bundle.contents import BundleContents
from breakglass.services.bundle.documents import OBSERVATIONS, BundledPlace
from breakglass.services.bundle.records import BundledSource
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.source import Extent
from breakglass.services.errors import NotInBundle, StorageError
from breakglass.services.guard.lock import file_name, private_folder
from breakglass.services.health.answers import LogDirsAnswer
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Monitor
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.observations import Observation, Observations
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.session import Effort, ReadAccess

if TYPE_CHECKING:
    from breakglass.services.divergence.replicas import Facing
    from breakglass.services.kafka.read_client import ReadClient

ONLY_LIVE = "a bundle is open, and no cluster is asked: look at the cluster itself for this"
NOT_CAPTURED = Unknown("it is not in this bundle")


@dataclass(frozen=True, slots=True)
class NoAccess(ReadAccess):
    """Takes the place of the access to a cluster, and reaches none."""

    def client(self, client_id: str | None = None) -> ReadClient:
        """Never a client, whatever its id. Raises NotInBundle."""
        del client_id
        raise NotInBundle(ONLY_LIVE)


def no_access() -> NoAccess:
    """An access without any address."""
    return NoAccess(ConnectionSettings(()), "off", Effort.OFF)


class BundleWatch:
    """Tells the incident of a bundle, as often as it is asked (a `screens.context.Watching`)."""

    def __init__(self, contents: BundleContents, observations: tuple[Observation, ...]) -> None:
        self._contents, self._observations = contents, observations
        cluster = contents.cluster
        self._gone = () if cluster is None else cluster.gone
        self._incident: Incident | None = None

    def read(
        self, before: Incident | None = None, *, everything: bool = False
    ) -> Iterator[Incident]:
        """The incident, whatever is known *before*; *everything* is no more.

        Raises:
            NotInBundle: the cluster could not be read when the bundle was captured.
        """
        del before, everything
        if self._incident is None:
            found = self._contents.incident(self._gone)
            if found is None:
                reasons = "; ".join(map(str, self._contents.manifest.unread))
                raise NotInBundle(f"The cluster could not be read at the capture ({reasons}).")
            self._incident = replace(found, observations=self._observations)
        yield self._incident

    @property
    def gone(self) -> tuple[int, ...]:
        """Brokers whose disks are declared lost."""
        return self._gone

    def declare_gone(self, brokers: Collection[int]) -> None:
        """Judge again as if *brokers* had been declared gone at the capture."""
        self._gone, self._incident = tuple(sorted(set(brokers))), None

    def agreed(self, designees: Mapping[TopicPartition, int]) -> None:
        """Nobody agrees to an election on a bundle."""

    def acknowledge(self) -> tuple[Observation, ...]:
        """What was seen; a bundle notes no acknowledgement."""
        return self._observations

    def close(self) -> None:
        """Nothing is waited for."""


class BundledBackupWatch(BackupWatch):
    """The places of backups as they were; none of their addresses is opened."""

    def __init__(self, contents: BundleContents) -> None:
        at_ms = contents.manifest.captured_at_ms
        super().__init__(now_ms=lambda: at_ms)
        topics: dict[str, list[TopicHeld]] = {}
        for held in contents.backed_up:
            topics.setdefault(held.url, []).append(
                TopicHeld(held.topic, held.generation, held.newest, held.status, held.unread)
            )
        places = contents.backups.places
        self._standing = BackupStanding(
            tuple([_watched(place, topics.get(place.url, ())) for place in places])
        )

    @property
    def standing(self) -> BackupStanding:
        """The results of the capture."""
        return self._standing

    def look(self, *, now: bool = False) -> BackupStanding:
        """The results of the capture; nothing is read, not even *now*."""
        del now
        return self._standing


def _watched(place: BundledPlace, topics: Sequence[TopicHeld]) -> WatchedLocation:
    held = place.unread or LocationHeld(tuple(topics))
    return WatchedLocation(place.url, Figure(held, place.read_at_ms))


def monitor_of(contents: BundleContents) -> Monitor:
    """The cluster at a glance, as it was."""
    at_ms = contents.manifest.captured_at_ms
    monitor = Monitor(now_ms=lambda: at_ms)
    if contents.snapshot is not None:
        monitor.seen(contents.snapshot)
        brokers = contents.brokers.values()
        answers = {
            broker.id: LogDirsAnswer(broker.log_dirs, broker.why_silent) for broker in brokers
        }
        monitor.told(answers, contents.snapshot.settings, contents.backups.glances)
    return monitor


@dataclass(frozen=True, slots=True)
class OpenedBundle:
    """The bundle that a console shows, for what only some screens ask."""

    contents: BundleContents

    @property
    def captured_at_ms(self) -> int:
        """When the capture ended, in milliseconds of the epoch."""
        return self.contents.manifest.captured_at_ms

    def broker_settings(
        self, broker: int, keys: Sequence[str]
    ) -> Mapping[str, str | None] | Unknown:
        """The values of *keys* that somebody set on *broker*; None for a secret."""
        held = self.contents.brokers.get(broker)
        if held is None:
            return NOT_CAPTURED
        if isinstance(held.settings, Unknown):
            return held.settings
        told = {setting.name: setting.value for setting in held.settings}
        return {key: told[key] for key in keys if key in told}

    def comparison(self, facing: Facing) -> Comparison:
        """The comparison of two replicas by the records that were captured."""
        sides = [
            BundledSource(
                f"b{log.broker}",
                _extent(log.log_start, log.log_end),
                self.contents.records.get((facing.partition, log.broker)),
            )
            for log in (facing.left, facing.right)
        ]
        return Comparison(sides[0], sides[1], facing.proven_same)


def _extent(start: int | Unknown, end: int | Unknown) -> Extent:
    low = start if isinstance(start, int) else 0
    return Extent(low, max(low, end if isinstance(end, int) else low))


def unpack_state(contents: BundleContents, folder: Path) -> tuple[Observation, ...]:
    """Write the journals into *folder*, as a state folder has them; returns what was seen.

    The names of entries were checked when the bundle was opened; that of the cluster is quoted.

    Raises:
        StorageError: they cannot be written there.
    """
    cluster_id = contents.manifest.cluster_id
    if isinstance(cluster_id, Unknown):
        return ()
    observations = Observations(cluster_id, folder)
    journals = folder / "journal" / file_name(cluster_id)
    try:
        for name, data in contents.files.items():
            path = observations.path if name == OBSERVATIONS else journals / Path(name).name
            private_folder(path.parent)
            path.write_bytes(data)
            path.chmod(0o600)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be written ({error.strerror}): make room there, or set TMPDIR."
        ) from error
    return observations.load()
