"""Captures a cluster and this machine into a bundle.

Collects the entries of a bundle, compressed in memory, and writes them with their manifest.

What a bundle has from this machine: the status of backups, recent journals, what was seen.

What a bundle has from brokers, each part read by itself: what one lacks hides no other.

Captures a cluster into a bundle: reads alone, and what cannot be read is noted with its reason.

The offline partitions are read as the console reads them, by a watch that remembers: a capture
that follows a cluster knows what replicas reported before their brokers died.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from breakglass import __version__
from breakglass.services import patience
from breakglass.services.backup_watch.watch import BackupWatch, WatchedLocation, glance_of
from breakglass.services.bundle.archive import (
    MOST_LINE_BYTES,
    PIECE,
    BundleEntry,
    BundleManifest,
    UnreadPart,
    encode,
    write_archive,
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
    READING,
    RECORDS,
    TOPICS,
    BundledBackup,
    BundledBackups,
    BundledBroker,
    BundledCluster,
    BundledOffset,
    BundledPlace,
    BundledRecords,
    BundledTopic,
    ContentRules,
    bundled,
)
from breakglass.services.checkpoint.watch import CheckpointWatch, SeenStore
from breakglass.services.clock import now_ms
from breakglass.services.divergence.replica_source import (
    ReplicaSource,
    default_pair,
    face,
    readable,
)
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import BreakglassError, TimedOut
from breakglass.services.guard.lock import file_name
from breakglass.services.health.counts import AT_ONCE, LANE, ask_brokers, topics_to_judge
from breakglass.services.health.figure import BackupGlance
from breakglass.services.incident.elections_seen import Observations
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    CommittedOffsets,
    describing,
    read_committed,
)
from breakglass.services.kafka.cluster.settings import (
    ShownSetting,
    broker_settings_set,
    topic_settings_set,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.answers import unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Denied, PartitionEvidence, TopicSettings, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.regular_file import read_regular
from breakglass.services.session import ReadAccess
from breakglass.services.snapshot import ClusterSnapshot
from breakglass.services.state_folder import state_folder

T = TypeVar("T")

FAST = 1
"""zlib's level in memory."""


class BundleMaker:
    """The bundle of one capture, which began when this was made."""

    def __init__(self) -> None:
        self._began_at_ms = now_ms()
        self._entries: list[tuple[BundleEntry, list[bytes]]] = []
        self._unread: list[UnreadPart] = []
        self.missing_acls: set[str] = set()
        """The rights that this user lacks to read the rest: ``READ on topic orders``."""
        self.cluster_id: str | Unknown = Unknown("the cluster could not be read")

    @property
    def unread(self) -> tuple[UnreadPart, ...]:
        """What the bundle lacks, and why."""
        return tuple(self._unread)

    def lacks(self, what: str, why: str) -> None:
        """Note that the bundle lacks *what*."""
        self._unread.append(UnreadPart(what, why))

    def lacks_value(self, what: str, value: Unknown) -> None:
        """Note why *what* is unknown, and the right that would show it."""
        self.lacks(what, value.reason)
        if isinstance(value, Denied):
            self.missing_acls.add(value.needs)

    def document(self, name: str, value: Any, read_at_ms: int | None = None) -> None:
        """Add an entry that is one value."""
        self.lines(name, [value], read_at_ms)

    def lines(self, name: str, values: Iterable[Any], read_at_ms: int | None = None) -> None:
        """Add an entry with a line for each of *values*, read now unless *read_at_ms* says when."""

        def lines() -> Iterator[bytes]:
            for value in values:
                line = json.dumps(encode(value), separators=(",", ":")).encode()
                if len(line) > MOST_LINE_BYTES:
                    self.lacks(f"a line of {name}", f"{len(line):,} bytes are too many")
                else:
                    yield line + b"\n"

        self.raw(name, lines(), read_at_ms)

    def raw(self, name: str, data: Iterable[bytes], read_at_ms: int | None = None) -> None:
        """Add an entry with these bytes, which end with a line break."""
        packing, digest = zlib.compressobj(FAST), sha256()
        packed: list[bytes] = []
        size = 0
        for piece in data:
            digest.update(piece)
            size += len(piece)
            packed.append(packing.compress(piece))
        packed.append(packing.flush())
        at = now_ms() if read_at_ms is None else read_at_ms
        self._entries.append((BundleEntry(name, size, digest.hexdigest(), at), packed))

    def write(self, path: Path) -> BundleManifest:
        """Write the bundle to the new file *path*, for its owner alone; returns the manifest.

        Raises:
            FileExistsError: there is such a file; it is left as it is.
            StorageError: it cannot be written.
        """
        manifest = BundleManifest(
            f"breakglass {__version__}",
            self.cluster_id,
            self._began_at_ms,
            now_ms(),
            tuple([entry for entry, _ in self._entries]),
            self.unread,
        )
        text = json.dumps(manifest.to_json(), indent=1).encode() + b"\n"
        write_archive(path, text, ((entry, _unpacked(packed)) for entry, packed in self._entries))
        return manifest


def _unpacked(packed: Iterable[bytes]) -> Iterator[bytes]:
    unpacking = zlib.decompressobj()
    for piece in packed:
        left = piece
        while left:
            yield unpacking.decompress(left, PIECE)
            left = unpacking.unconsumed_tail
    yield unpacking.flush()


MOST_JOURNALS = 20
MOST_JOURNAL_BYTES = 32 << 20
"""Of one journal; a longer one is left out."""
JOURNAL_NAME = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z\.jsonl", re.ASCII)
_USER = re.compile(r"(?<=//)[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class BackupPlaces:
    """The places of backups whose status goes into a bundle."""

    topics: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    metastore: Path | None = None
    """None, or a folder that is there."""


def without_user(url: str) -> str:
    """*url* without the user and password that it may name."""
    return _USER.sub("", url)


def add_backups(maker: BundleMaker, places: BackupPlaces, deadline: Deadline) -> None:
    """The status of topic backups, and a line for each kind of backup."""
    glances: dict[str, BackupGlance | Unknown] = {}
    found: list[BundledPlace] = []
    topics: list[BundledBackup] = []
    if places.topics:
        watch = BackupWatch(places.topics, jobs=lambda _: ())
        watch.glance(deadline.sooner(patience.COMMAND))
        standing = watch.standing
        glances[watch.name] = glance_of(standing)
        for place in standing.places:
            found.append(_place(maker, place))
            url = found[-1].url
            topics += [
                BundledBackup(url, one.topic, one.generation, one.newest, one.status, one.unread)
                for one in place.topics
            ]
    if places.checkpoints:
        seen = _in_time(CheckpointWatch(places.checkpoints).look, deadline)
        glances["checkpoints"] = seen if isinstance(seen, Unknown) else _checkpoints(seen)
    if places.metastore is not None:
        from breakglass.services.metastore.glance import MetastoreGlance

        try:
            glances["metastore"] = MetastoreGlance(places.metastore).glance(deadline)
        except BreakglassError as error:
            glances["metastore"] = Unknown(str(error))
    for name, glance in glances.items():
        if isinstance(glance, Unknown):
            maker.lacks(f"the status of {name}", glance.reason)
    maker.document(BACKUPS, BundledBackups(tuple(found), glances))
    maker.lines(BACKED_UP, topics)


def _place(maker: BundleMaker, place: WatchedLocation) -> BundledPlace:
    held, url = place.held, without_user(place.url)
    unread = held.value if isinstance(held.value, Unknown) else None
    if unread is not None:
        maker.lacks(f"the status of backups at {url}", unread.reason)
    return BundledPlace(url, unread, held.read_at_ms)


def _in_time(read: Callable[[], T], deadline: Deadline) -> T | Unknown:
    """What *read* returns before *deadline*; a store that hangs keeps its thread."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(read()), daemon=True)
    thread.start()
    thread.join(deadline.remaining())
    return found[0] if found else Unknown("the stores have not answered in time")


def _checkpoints(stores: Sequence[SeenStore]) -> BackupGlance | Unknown:
    from breakglass.services.checkpoint.protocol.values import Status

    unread = [store.held.reason for store in stores if isinstance(store.held, Unknown)]
    held = [
        found for store in stores if not isinstance(store.held, Unknown) for found in store.held
    ]
    if unread and not held:
        return Unknown("; ".join(unread))
    whole = [found for found in held if found.status is Status.COMPLETED]
    newest = max((found.take.created_at_ms for found in whole if found.take), default=None)
    return BackupGlance(f"{len(whole):,} of {len(held):,} completed", newest, "; ".join(unread))


def add_journals(maker: BundleMaker, cluster_id: str, folder: Path | None) -> None:
    """The newest journals of that cluster, and the elections that were seen to cost records."""
    state = folder or state_folder()
    journals = sorted((state / "journal" / file_name(cluster_id)).glob("*.jsonl"), reverse=True)
    for path in journals[:MOST_JOURNALS]:
        if JOURNAL_NAME.fullmatch(path.name):
            _add_file(maker, f"{JOURNAL}{path.name}", path)
    if len(journals) > MOST_JOURNALS:
        older = len(journals) - MOST_JOURNALS
        maker.lacks(f"{older:,} older journals", f"the newest {MOST_JOURNALS} are in the bundle")
    seen = Observations(cluster_id, folder).path
    if seen.exists():
        _add_file(maker, OBSERVATIONS, seen)


def _add_file(maker: BundleMaker, name: str, path: Path) -> None:
    try:
        data = read_regular(path, MOST_JOURNAL_BYTES)
        read_at_ms = path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        maker.lacks(name, f"it cannot be read ({error.strerror})")
        return
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        maker.lacks(f"the last line of {name}", "it was not written whole")
    maker.raw(name, [whole], read_at_ms)


TOPICS_A_REQUEST = 500
MOST_RECORDS = 20_000
"""Of all replicas together."""


def add_incident(maker: BundleMaker, incident: Incident, gone: Sequence[int]) -> None:
    """The metadata and the evidence, as a watch has read them."""
    snapshot = incident.snapshot
    cluster = BundledCluster(
        snapshot.description,
        snapshot.quorum,
        snapshot.observed_at_ms,
        incident.silent,
        incident.awaited,
        tuple(gone),
        incident.missing_acls,
        incident.native.designates,
        incident.native.reason,
    )
    maker.cluster_id = snapshot.cluster_id
    maker.document(CLUSTER, cluster, snapshot.observed_at_ms)
    maker.lines(PARTITIONS, snapshot.partitions, snapshot.observed_at_ms)
    # Where the evidence is of the partition as it is now.
    read = [row for row in incident.rows if row.evidence and row.evidence.state == row.state]
    maker.lines(EVIDENCE, (row.evidence for row in read))
    if len(read) < len(incident.rows):
        missing = len(incident.rows) - len(read)
        maker.lacks(f"the evidence of {missing:,} offline partitions", "there was no time for it")
    if isinstance(snapshot.quorum, Unknown):
        maker.lacks_value("the controller quorum", snapshot.quorum)
    for broker, why in sorted(incident.silent.items()):
        maker.lacks(f"the replicas on b{broker}", why)
    for right in incident.missing_acls:
        maker.lacks_value("part of the evidence", Denied(f"this user lacks {right}", right))


def add_brokers(
    maker: BundleMaker, client: ReadClient, incident: Incident, deadline: Deadline
) -> None:
    """The log directories and the settings of each broker, of which a silent one is not asked."""
    limit, silent = deadline.sooner(patience.BRIEF), silent_brokers(incident)
    ids = [broker.id for broker in incident.snapshot.brokers]
    answering = [broker for broker in ids if broker not in silent]

    def settings(broker: int) -> tuple[ShownSetting, ...] | Unknown:
        return _read(lambda: broker_settings_set(client.sender, broker, limit, LANE))

    with ThreadPoolExecutor(AT_ONCE, "settings") as pool:
        asked = {broker: pool.submit(settings, broker) for broker in answering}
        told = ask_brokers(client.sender, answering, limit)
        found = [
            BundledBroker(
                broker, told[broker].why_silent, told[broker].log_dirs, asked[broker].result()
            )
            if broker in told
            else BundledBroker(broker, silent[broker], *2 * [Unknown(incident.silent[broker])])
            for broker in ids
        ]
    maker.lines(BROKERS, found)
    for broker in found:
        for what, value in (("log directories", broker.log_dirs), ("settings", broker.settings)):
            if isinstance(value, Unknown):
                maker.lacks_value(f"the {what} of b{broker.id}", value)


def silent_brokers(incident: Incident) -> dict[int, str]:
    """The brokers that were asked for replicas and did not answer, with the reason in few words."""
    return {
        broker: why.partition("(")[2][:-1]
        for broker, why in incident.silent.items()
        if why.startswith(f"b{broker} does not answer (")
    }


def add_topics(
    maker: BundleMaker, client: ReadClient, snapshot: ClusterSnapshot, deadline: Deadline
) -> None:
    """The settings of each topic that somebody set."""
    names = sorted({state.partition.topic for state in snapshot.partitions})
    troubled = sorted(topics_to_judge(snapshot.partitions))
    limit = deadline.sooner(patience.COMMAND)
    decisive: dict[str, TopicSettings] = {}
    for page in _pages(troubled):
        decisive.update(client.settings(page, limit))
    decisive.update(snapshot.settings)

    def topics() -> Iterator[BundledTopic]:
        for page in _pages(names):
            found = _read(partial(topic_settings_set, client.sender, page, limit))
            if isinstance(found, Unknown):
                many = f"{len(page):,} topic{'s' * (len(page) != 1)} from {page[0]}"
                maker.lacks(f"the settings of {many}", found.reason)
                found = dict.fromkeys(page, found)
            for name in page:
                told = found[name]
                if isinstance(told, Denied):
                    maker.missing_acls.add(told.needs)
                yield BundledTopic(name, decisive.get(name), told)

    maker.lines(TOPICS, topics())


def _pages(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + TOPICS_A_REQUEST] for at in range(0, len(names), TOPICS_A_REQUEST))


def add_groups(
    maker: BundleMaker, client: ReadClient, incident: Incident, deadline: Deadline
) -> None:
    """The committed offsets of every group, from the coordinators that answer."""
    snapshot, silent = incident.snapshot, silent_brokers(incident)
    wanted = frozenset(state.partition for state in snapshot.partitions)
    live, limit = snapshot.live, deadline.sooner(patience.GROUPS)

    def read(broker: int) -> CommittedOffsets:
        if broker in silent:
            return CommittedOffsets(Unknown(incident.silent[broker]))
        return read_committed(client.sender, broker, wanted, limit)

    with ThreadPoolExecutor(AT_ONCE, "groups") as pool:
        answers = dict(zip(live, pool.map(read, live), strict=True))
    offsets: list[BundledOffset] = []
    for broker, answer in answers.items():
        if isinstance(answer.offsets, Unknown):
            maker.lacks_value(f"the groups that b{broker} coordinates", answer.offsets)
            continue
        for partition, committed in answer.offsets.items():
            offsets += [
                BundledOffset(group, partition.topic, partition.partition, offset)
                for group, offset in committed.items()
            ]
        if answer.unready:
            maker.lacks(f"some groups that b{broker} coordinates", answer.unready)
        for group in answer.hidden:
            hidden = Denied(f"this user lacks {describing(group)}", describing(group))
            maker.lacks_value(f"the offsets of group {group}", hidden)
    for state in snapshot.offline:
        if state.partition.topic == OFFSETS_TOPIC:
            maker.lacks(f"the groups of {state.partition}", "it is offline")
    order = sorted(offsets, key=lambda found: (found.group, found.topic, found.partition))
    maker.lines(GROUPS, order)


@dataclass(frozen=True, slots=True)
class Divergent:
    """The readable replicas of a partition, and the offset from which they may differ."""

    evidence: PartitionEvidence
    start: int

    @property
    def end(self) -> int:
        """The end of the longest log."""
        return max(log.log_end for log in readable(self.evidence) if isinstance(log.log_end, int))


def divergent(assessment: Assessment) -> Divergent | None:
    """The replicas of a partition that differ by their epochs; None where none do."""
    evidence = assessment.evidence
    pair = default_pair(evidence, assessment.best)
    if isinstance(pair, Unknown):
        return None
    best = pair[0]
    others = [log.broker for log in readable(evidence) if log.broker != best]
    facings = [face(evidence, best, other) for other in others]
    begins = [facing.begin for facing in facings if not isinstance(facing, Unknown)]
    found = Divergent(evidence, min(begins)) if begins else None
    return found if found is not None and found.start < found.end else None


def add_records(
    maker: BundleMaker,
    client: ReadClient,
    incident: Incident,
    rules: ContentRules,
    most: int,
    deadline: Deadline,
) -> None:
    """At most *most* records of each replica from where it diverges; contents by *rules*."""

    def records() -> Iterator[BundledRecords]:
        total = left = 0
        for assessment in incident.assessments():
            found = divergent(assessment)
            if found is None:
                continue
            if total >= MOST_RECORDS or deadline.passed:
                left += 1
                continue
            for line in _records(client, found, rules, most):
                total += len(line.records)
                yield line
        if left:
            maker.lacks(f"the divergent records of {left:,} partitions", "enough had been read")

    maker.lines(RECORDS, records())


def _records(
    client: ReadClient, found: Divergent, rules: ContentRules, most: int
) -> Iterator[BundledRecords]:
    evidence = found.evidence
    for log in readable(evidence):
        assert isinstance(log.log_start, int)
        assert isinstance(log.log_end, int)
        start = max(found.start, log.log_start)
        within = Extent(start, max(start, log.log_end))
        source = ReplicaSource(
            client.sender,
            log.broker,
            evidence.partition,
            Extent(log.log_start, max(log.log_start, log.log_end)),
            gapless=evidence.settings.compacted is False,
        )
        items = source.read(within.start, within.end, Reading(keep=READING))
        yield bundled(evidence.partition, log.broker, within, items, most, rules)


def _read(read: Callable[[], T]) -> T | Unknown:
    try:
        return read()
    except BreakglassError as error:
        return unread(error)


READ_AGAIN_SECONDS = 0.25
RECORDS_EACH = 100
"""Records of each diverging replica, unless the operator says otherwise."""


@dataclass(frozen=True, slots=True)
class CaptureAsked:
    """What is to be captured."""

    duration: float = patience.LOGS
    """Seconds that all peers together have to answer."""
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
        self._until: Deadline | None = None
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
        """The incident once every broker has answered or had its time. Raises as `look`.

        The time includes that of the bundle: `bundle` has what is left of it.
        """
        until = self._until = Deadline.after(self._asked.duration)
        self._watch.finish_by(until)
        incident, told = self.look(), ""
        while not (incident.complete or self._closed.is_set() or until.passed):
            waiting = ", ".join(f"b{broker}" for broker in sorted(incident.awaited))
            if waiting and waiting != told:
                tell(f"Waiting for {waiting}.")
                told = waiting
            self._closed.wait(min(READ_AGAIN_SECONDS, until.remaining()))
            try:
                incident = self.look()
            except TimedOut:
                if not until.passed:
                    raise
        return self._watch.concluded() or incident

    def bundle(self, incident: Incident | BreakglassError) -> BundleMaker:
        """A bundle of *incident* and what belongs to it; or of the reason why there is none."""
        maker, asked = BundleMaker(), self._asked
        until = self._until or Deadline.after(asked.duration)
        if isinstance(incident, Incident):
            add_incident(maker, incident, asked.gone)
            self._from_brokers(maker, incident, until.at_least(patience.GRACE))
        else:
            maker.lacks("the cluster", str(incident))
        with _noting(maker, "the status of backups"):
            add_backups(maker, asked.places, until.at_least(patience.GRACE))
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

    def _from_brokers(self, maker: BundleMaker, incident: Incident, until: Deadline) -> None:
        """Each part has half of the time that those before it have left (S50)."""
        snapshot, asked = incident.snapshot, self._asked
        with _noting(maker, "what only brokers know"), self._access.reading() as client:
            client.sender.finish_by(until)
            client.describe(until.half())
            with _noting(maker, "the brokers' log directories and settings"):
                add_brokers(maker, client, incident, until.half())
            with _noting(maker, "the topics' settings"):
                add_topics(maker, client, snapshot, until.half())
            with _noting(maker, "the groups"):
                add_groups(maker, client, incident, until.half())
            if asked.records_each:
                with _noting(maker, "the divergent records"):
                    add_records(maker, client, incident, asked.rules, asked.records_each, until)


@contextmanager
def _noting(maker: BundleMaker, what: str) -> Iterator[None]:
    """Note that *what* could not be read, where it cannot be; the rest follows."""
    try:
        yield
    except BreakglassError as error:
        maker.lacks(what, str(error))
    except Exception as error:  # noqa: BLE001 -- what is captured without it is worth the file
        maker.lacks(what, f"it cannot be read ({type(error).__name__}: {error}): please report it")
