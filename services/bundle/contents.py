"""A bundle that was opened, and the answers that a console on it gets.

Opens a bundle: every entry is read, checked against the manifest and against the others.

A bundle is taken whole or refused. What passes is judged here, once, so that screens meet nothing
that cannot be judged.

What a console on a bundle asks in place of a cluster: the same questions, answered by a file.

No client is made here, and no address that the bundle names is opened. Time stands still at the
moment of the capture, so that nothing grows old and nothing is read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from breakglass.services.backup_watch.location import LocationHeld, TopicHeld
from breakglass.services.backup_watch.watch import BackupStanding, BackupWatch, WatchedLocation
from breakglass.services.bundle.archive import (
    BundleEntry,
    BundleManifest,
    Unfit,
    decode,
    no_bundle,
    read_archive,
)
from breakglass.services.bundle.records import (
    BACKED_UP,
    BACKUPS,
    BROKERS,
    CLUSTER,
    EVIDENCE,
    GROUPS,
    JOURNAL,
    OBSERVATIONS,
    PARTITIONS,
    RECORDS,
    TOPICS,
    BundledBackup,
    BundledBackups,
    BundledBroker,
    BundledCluster,
    BundledOffset,
    BundledPlace,
    BundledRecords,
    BundledSource,
    BundledTopic,
)
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.source import Extent
from breakglass.services.errors import NotInBundle, StorageError
from breakglass.services.guard.lock import file_name, private_folder
from breakglass.services.health.counts import LogDirsAnswer
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Monitor
from breakglass.services.incident.elections_seen import Observation, Observations
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import IncidentRow, judged_again, judged_rows
from breakglass.services.kafka.wire.native_rpc import NativeRpc
from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.session import Effort, ReadAccess
from breakglass.services.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from breakglass.services.divergence.replica_source import Facing
    from breakglass.services.kafka.read_client import ReadClient

T = TypeVar("T")

TOGETHER = 1024
"""Partitions whose evidence is judged at a time, and then kept compressed."""
MOST_OFFLINE = 200_000
"""More offline partitions than a bundle has."""
END_OF_TIME_MS = 253_402_300_800_000
"""The end of the year 9999, after which there is no date."""
MOST_RAW_BYTES = 128 << 20
"""Of all journals together, which are kept in memory."""
MOST_KEPT_BYTES = 128 << 20
"""Of all lines together whose values are kept in memory, where they take some times as much:
500,000 partitions."""


@dataclass(frozen=True)
class BundleContents:
    """An opened bundle."""

    manifest: BundleManifest
    cluster: BundledCluster | None
    """None: the cluster could not be read."""
    snapshot: ClusterSnapshot | None
    rows: Mapping[TopicPartition, IncidentRow]
    """The offline partitions that were read, judged as they were at the capture."""
    topics: Mapping[str, BundledTopic]
    brokers: Mapping[int, BundledBroker]
    backups: BundledBackups
    backed_up: tuple[BundledBackup, ...]
    """The topics in all places of backups."""
    records: Mapping[tuple[TopicPartition, int], BundledRecords]
    files: Mapping[str, bytes]
    """Journals and observations by the names of their entries."""

    def incident(self, gone: Sequence[int] | None = None) -> Incident | None:
        """The offline partitions, judged while *gone* brokers are declared gone.

        Without *gone* those are that were so at the capture. None: the cluster was not read.
        """
        cluster, snapshot = self.cluster, self.snapshot
        if cluster is None or snapshot is None:
            return None
        circumstances = _circumstances(cluster, cluster.gone if gone is None else gone)
        same = gone is None or set(gone) == set(cluster.gone)
        offline = sorted(snapshot.offline, key=lambda state: state.partition)
        return Incident(
            snapshot,
            circumstances,
            tuple([self._row(state, None if same else circumstances) for state in offline]),
            dict(cluster.silent),
            cluster.awaited,
            cluster.missing_acls,
            NativeRpc(None, cluster.designates, cluster.native),
        )

    def _row(self, state: PartitionState, circumstances: Circumstances | None) -> IncidentRow:
        """The row of an offline partition; judged again under *circumstances*, where given."""
        row = self.rows.get(state.partition)
        if row is None:
            return IncidentRow(state)
        return row if circumstances is None else judged_again(row, circumstances)


def _circumstances(cluster: BundledCluster, gone: Sequence[int]) -> Circumstances:
    ruled_out = dict.fromkeys(gone, "declared gone")
    return Circumstances(cluster.quorum, not cluster.awaited, ruled_out)


def open_bundle(path: Path) -> BundleContents:
    """Open the bundle at *path*. Writes nothing, and connects to nothing.

    Raises:
        MalformedInput: it is no bundle, damaged, or contradicts itself.
        UnsupportedSchema: another release captured it.
        StorageError: it cannot be read.
    """
    reading = _Reading(str(path))
    read_archive(path, reading.take, reading.opened)
    return reading.contents()


@dataclass
class _Reading:
    """A bundle of which some entries were read."""

    source: str
    manifests: list[BundleManifest] = field(default_factory=list)
    cluster: list[BundledCluster] = field(default_factory=list)
    backups: list[BundledBackups] = field(default_factory=list)
    partitions: list[PartitionState] = field(default_factory=list)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    rows: dict[TopicPartition, IncidentRow] = field(default_factory=dict)
    topics: list[BundledTopic] = field(default_factory=list)
    brokers: list[BundledBroker] = field(default_factory=list)
    backed_up: list[BundledBackup] = field(default_factory=list)
    records: list[BundledRecords] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    kept: int = 0
    """Bytes of the lines whose values are kept."""

    def opened(self, manifest: BundleManifest) -> None:
        self.manifests.append(manifest)

    def take(self, entry: BundleEntry, lines: Iterator[bytes]) -> None:
        take = _TAKES.get(entry.name)
        if take is not None:
            take(self, entry.name, lines)
        elif entry.name == OBSERVATIONS or entry.name.startswith(JOURNAL):
            held = sum(map(len, self.files.values()))
            if entry.size + held > MOST_RAW_BYTES:
                raise no_bundle(self.source, "its journals are larger than a bundle has them")
            self.files[entry.name] = b"".join(line + b"\n" for line in lines)
        else:
            raise no_bundle(self.source, f"no bundle of this version has an entry {entry.name}")

    def values(self, kind: type[T], name: str, lines: Iterator[bytes]) -> Iterator[T]:
        """The values of an entry's lines. Raises MalformedInput."""
        kept = name not in (EVIDENCE, GROUPS)
        for number, line in enumerate(lines, start=1):
            try:
                document = json.loads(line, parse_constant=_no_constant)
            except (ValueError, RecursionError) as error:
                raise no_bundle(self.source, f"{name}, line {number} is not JSON") from error
            self.kept += len(line) if kept else 0
            if self.kept > MOST_KEPT_BYTES:
                raise no_bundle(self.source, f"{name} has more than a console can keep in memory")
            try:
                yield decode(kind, document)
            except Unfit as error:
                raise no_bundle(self.source, f"{name}, line {number}: {error}") from error

    def contents(self) -> BundleContents:
        """All of it, once it was checked. Raises MalformedInput."""
        (manifest,) = self.manifests
        cluster = next(iter(self.cluster), None)
        snapshot = None if cluster is None else self._snapshot(cluster)
        found = BundleContents(
            manifest,
            cluster,
            snapshot,
            self.rows,
            {topic.name: topic for topic in self.topics},
            {broker.id: broker for broker in self.brokers},
            next(iter(self.backups), BundledBackups((), {})),
            tuple(self.backed_up),
            {(held.partition, held.broker): held for held in self.records},
            self.files,
        )
        if not all(map(_sound_records, self.records)):
            raise no_bundle(self.source, "its records do not follow each other")
        moments = [manifest.began_at_ms, manifest.captured_at_ms]
        moments += [entry.read_at_ms for entry in manifest.entries]
        moments += [place.read_at_ms for place in found.backups.places]
        moments += [] if cluster is None else [cluster.observed_at_ms]
        if not all(0 <= moment < END_OF_TIME_MS for moment in moments):
            raise no_bundle(self.source, "it was captured at a time that no clock shows")
        if snapshot is not None and snapshot.cluster_id != manifest.cluster_id:
            raise no_bundle(self.source, "its manifest names another cluster")
        return found

    def judge(self, name: str, lines: Iterator[bytes]) -> None:
        """Judge the evidence in *lines*, some partitions at a time. Raises MalformedInput."""
        if not self.cluster:
            raise no_bundle(self.source, f"{name} comes before what it is about")
        circumstances = _circumstances(self.cluster[0], self.cluster[0].gone)
        values = self.values(PartitionEvidence, name, lines)
        while together := list(islice(values, TOGETHER)):
            for evidence in together:
                # Whether the evidence is of an offline partition in state, replica by replica.
                state = self.states.get(evidence.partition)
                replicas = tuple([log.broker for log in evidence.replicas])
                if not (
                    state is not None
                    and state.offline
                    and evidence.state == state
                    and replicas == state.assignment
                ):
                    raise no_bundle(self.source, f"{name} is not about its partitions")
            try:
                rows = list(judged_rows(together, circumstances, self.cluster[0].observed_at_ms))
            except Exception as error:
                why = f"its evidence cannot be judged, {type(error).__name__}"
                raise no_bundle(self.source, why) from error
            before = len(self.rows)
            self.rows.update({row.partition: row for row in rows})
            if len(self.rows) < before + len(rows):
                raise no_bundle(self.source, f"{name} has a partition twice")

    def know(self, name: str, lines: Iterator[bytes]) -> None:
        """Take the partitions of the cluster in *lines*. Raises MalformedInput."""
        _into(PartitionState, lambda _: self.partitions, lambda state: state.partition)(
            self, name, lines
        )
        self.states = {state.partition: state for state in self.partitions}
        if not all(map(_sound_state, self.partitions)):
            raise no_bundle(self.source, "its partitions contradict each other")
        if sum(state.offline for state in self.partitions) > MOST_OFFLINE:
            raise no_bundle(self.source, "it has more offline partitions than can be")

    def check_offsets(self, name: str, lines: Iterator[bytes]) -> None:
        """Check the groups' offsets, which no screen shows. Raises MalformedInput."""
        for _ in self.values(BundledOffset, name, lines):
            pass

    def _snapshot(self, cluster: BundledCluster) -> ClusterSnapshot:
        decisive = {topic.name: topic.decisive for topic in self.topics}
        return ClusterSnapshot(
            cluster.description,
            cluster.quorum,
            tuple(self.partitions),
            cluster.observed_at_ms,
            {name: settings for name, settings in decisive.items() if settings is not None},
        )


Taker = Callable[[_Reading, str, Iterator[bytes]], None]


def _into(
    kind: type[Any],
    list_of: Callable[[_Reading], list[Any]],
    key: Callable[[Any], object] = lambda _: None,
) -> Taker:
    """Takes values of one *kind*, of which each *key* has one; without a key there is one value."""

    def take(reading: _Reading, name: str, lines: Iterator[bytes]) -> None:
        known: set[object] = set()
        for number, value in enumerate(reading.values(kind, name, lines), start=1):
            known.add(key(value))
            if len(known) < number:
                raise no_bundle(reading.source, f"{name}, line {number} has what another line has")
            list_of(reading).append(value)

    return take


_TAKES: Mapping[str, Taker] = {
    CLUSTER: _into(BundledCluster, lambda reading: reading.cluster),
    PARTITIONS: _Reading.know,
    EVIDENCE: _Reading.judge,
    TOPICS: _into(BundledTopic, lambda reading: reading.topics, lambda topic: topic.name),
    BROKERS: _into(BundledBroker, lambda reading: reading.brokers, lambda broker: broker.id),
    GROUPS: _Reading.check_offsets,
    BACKUPS: _into(BundledBackups, lambda reading: reading.backups),
    BACKED_UP: _into(
        BundledBackup,
        lambda reading: reading.backed_up,
        lambda held: (held.url, held.topic, held.generation),
    ),
    RECORDS: _into(
        BundledRecords, lambda reading: reading.records, lambda held: (held.partition, held.broker)
    ),
}


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _sound_state(state: PartitionState) -> bool:
    """Whether a partition has a topic, a number, and each replica once."""
    replicas = state.assignment
    named = bool(state.partition.topic) and state.partition.partition >= 0
    return named and bool(replicas) and len(set(replicas)) == len(replicas)


def _sound_records(held: BundledRecords) -> bool:
    """Whether records and gaps lie in their extent, in their order, without touching."""
    spans = sorted(
        [
            *((record.offset, record.offset + 1) for record in held.records),
            *((gap.start, gap.end) for gap in held.gaps),
        ]
    )
    inside = all(held.start <= start < end <= held.end for start, end in spans)
    return (
        inside
        and 0 <= held.start <= held.end
        and all(one[1] <= other[0] for one, other in pairwise(spans))
    )


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
