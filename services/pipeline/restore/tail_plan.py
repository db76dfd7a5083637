"""Plans to restore records that an unclean election cut off, from a rescue or a backup.

A stored record is in the elected log if the log has the same leader epoch at its offset (log
matching). Where an epoch is unknown, and for records written since the election, content decides:
a record is not restored if the log has one with the same key, value, headers and timestamp, which
its producer sent again or an earlier run restored.
"""

from __future__ import annotations

import re
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import numpy as np

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import Refused, UsageError, WrongCluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import INTERNAL_TOPICS, EpochHistory, TopicPartition, Unknown
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.restore.options import (
    BELOW,
    PartitionPlan,
    RestorePlan,
    TopicPlan,
    expired_at_once,
    partition_plan,
)
from breakglass.services.pipeline.restore.plan import require_manifest
from breakglass.services.pipeline.restore.state import (
    RestoreState,
    own_settings,
    read_state,
    require_alone,
    source_of,
)
from breakglass.services.pipeline.restore.target import read_targets
from breakglass.services.pipeline.restore.task import Spans, as_restored
from breakglass.services.pipeline.source import PartitionSource, TopicSource
from breakglass.services.pipeline.stored_segments import (
    Longs,
    RecordRun,
    StoredSegment,
    runs_between,
    stored_segments,
)
from breakglass.services.record_batches import Record
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.catalog import HeldTopic, held_topics
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.folder_contents import RestorableTopic, read_held, read_sound
from breakglass.services.topic_backup.record import HEAD, decode, encode
from breakglass.services.topic_backup.store.store import LocalStore, Store
from breakglass.services.topic_backup.summary import PartitionSummary

NO_EPOCH = -1
DIGEST_BYTES = 16
THERE = "in the topic already"
ABORTED = "of an aborted transaction"
UNDECIDED = "of a transaction without an end"
TWICE = "saved from another replica, too"
RECREATED = "of the topic before it was deleted and created again"

Digest = bytes


@dataclass(frozen=True, slots=True)
class ElectedLog:
    """The elected log, to which the records are appended, as its leader has it."""

    log_start: int
    epochs: EpochHistory | Unknown
    elected: EpochHistory | Unknown | None = None
    """Its epochs when the plan was made, if it says them: they may reach further back."""

    def matched(self, part: PartitionSummary) -> range:
        """The offsets of *part* that the log has, or had before its start (B34).

        Of the records of one leader epoch both logs have the same, up to where it ends in either;
        and so of all before them, unless it is not proved that they are of one log. The log's first
        epoch may begin before its start.
        """
        known = [log for log in (self.elected, self.epochs) if isinstance(log, EpochHistory)]
        ends = {one.epoch: one.end for log in known for one in log.ranges}
        matched = 0
        for segment in part.segments:
            last = -1 if segment.last_offset is None else segment.last_offset
            stops = [*(epoch.offset for epoch in segment.epochs[1:]), last + 1]
            for begun, stop in zip(segment.epochs, stops, strict=False):
                matched = max(matched, min(stop, ends.get(begun.epoch, 0)))
        doubted = (doubt.end for doubt in part.unproved if doubt.start < matched)
        return range(max(doubted, default=0), matched)

    def fork(self, part: PartitionSummary) -> int:
        """The first offset from its start on that is not known to be as in *part*.

        What was put back may begin there, which is before the first record that the log lacks if
        transaction markers were stored between.
        """
        known = self.epochs.ranges if isinstance(self.epochs, EpochHistory) else ()
        ends = {one.epoch: one.end for one in known}
        at = self.log_start
        for segment in part.segments:
            last = -1 if segment.last_offset is None else segment.last_offset
            stops = [*(epoch.offset for epoch in segment.epochs[1:]), last + 1]
            for begun, stop in zip(segment.epochs, stops, strict=False):
                end = min(stop, ends.get(begun.epoch, 0))
                at = max(at, end)
                if end < stop and stop > self.log_start:
                    return at
        return at

    def lacks(self, offsets: Longs, epochs: Longs, matched: range) -> Longs:
        """The indexes of stored records that the log may lack, by their offsets and epochs."""
        present = (offsets >= matched.start) & (offsets < min(self.log_start, matched.stop))
        if isinstance(self.epochs, EpochHistory):
            for known in self.epochs.ranges:
                within = (offsets >= known.start) & (offsets < known.end)
                present |= within & (epochs == known.epoch)
        return np.flatnonzero(~present)


def epochs_of(part: PartitionSummary, offsets: Longs) -> Longs:
    """The leader epoch of each of *offsets*, by the manifest; `NO_EPOCH` if unknown."""
    found = np.full(len(offsets), NO_EPOCH, np.int64)
    for segment in part.segments:
        if not segment.epochs or segment.last_offset is None:
            continue
        starts = np.array([epoch.offset for epoch in segment.epochs], np.int64)
        numbers = np.array([epoch.epoch for epoch in segment.epochs], np.int64)
        within = np.flatnonzero((offsets >= starts[0]) & (offsets <= segment.last_offset))
        found[within] = numbers[np.searchsorted(starts, offsets[within], side="right") - 1]
    return found


def content(record: Record) -> Digest:
    """A digest of the parts of a record that a restore keeps."""
    encoded = encode(as_restored(record))
    return blake2b(encoded[HEAD.size - 4 :], digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class TailRecord:
    """A stored record that the elected log may lack."""

    offset: int
    content: Digest


def candidates(
    stored: Sequence[StoredSegment], part: PartitionSummary, log: ElectedLog
) -> Iterator[TailRecord]:
    """The *stored* records of *part* that *log* may lack, by offset."""
    matched = log.matched(part)
    for segment in stored:
        for run in runs_between([segment], segment.first_offset, segment.last_offset + 1):
            for number in log.lacks(run.offsets, epochs_of(part, run.offsets), matched):
                record = _record(run, int(number))
                yield TailRecord(record.offset, content(record))


def _record(run: RecordRun, number: int) -> Record:
    data = run.data[run.bounds[number] : run.bounds[number + 1]].tobytes()
    record, _ = decode(data, 0, len(data), len(data))
    return record


@dataclass(frozen=True, slots=True)
class Fates:
    """Offsets of uncommitted records, by the outcome of their transactions."""

    aborted: Spans = ()
    undecided: Spans = ()

    def of(self, offset: int) -> str | None:
        """Why the record is not restored; None if it is."""
        for ranges, fate in ((self.aborted, ABORTED), (self.undecided, UNDECIDED)):
            at = bisect_right(ranges, (offset, sys.maxsize)) - 1
            if at >= 0 and offset < ranges[at][1]:
                return fate
        return None


def fates_of(states: Iterable[BatchState]) -> Fates:
    """The outcome of each transaction, from the batches of a rescued log, in their order."""
    open_batches: dict[int, list[tuple[int, int]]] = {}
    aborted: list[tuple[int, int]] = []
    for state in states:
        if state.commit is not None:
            ended = open_batches.pop(state.producer_id, [])
            aborted += [] if state.commit else ended
        elif state.transactional and state.marker is None:
            batch = (state.base_offset, state.last_offset + 1)
            open_batches.setdefault(state.producer_id, []).append(batch)
    undecided = [batch for batches in open_batches.values() for batch in batches]
    return Fates(tuple(sorted(aborted)), tuple(sorted(undecided)))


@dataclass(slots=True)
class TailChoice:
    """Chooses the records of one partition to restore, from one source after the other."""

    there: Counter[Digest]
    """How often each content is in the elected log from the first candidate on."""
    log_start: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that are not restored, by reason."""
    _taken: set[TailRecord] = field(default_factory=set)

    def choose(self, stored: Iterable[TailRecord], fates: Fates) -> Spans:
        spans: list[tuple[int, int]] = []
        joined = False
        for record in stored:
            reason = self._reason(record, fates)
            if reason is not None:
                self.left_out[reason] += 1
                joined = False
                continue
            begin = spans.pop()[0] if joined else record.offset
            spans.append((begin, record.offset + 1))
            joined = True
        return tuple(spans)

    def _reason(self, record: TailRecord, fates: Fates) -> str | None:
        if record in self._taken:
            return TWICE
        fate = fates.of(record.offset)
        if fate is not None:
            return fate
        self._taken.add(record)
        if self.there[record.content] > 0:
            self.there[record.content] -= 1
            return THERE
        return BELOW if record.offset < self.log_start else None


LEADER_LOOK_SECONDS = 0.5
_BROKER = re.compile(r"b[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TailOptions:
    """The options of restoring tails."""

    topics: tuple[str, ...] = ()
    partitions: frozenset[int] = frozenset()
    resume: bool = False


@dataclass(frozen=True, slots=True)
class TailSource:
    """One folder with records that an election may have cut off."""

    name: str
    """The broker from which the records were rescued, or the folder of the topic."""
    one: HeldTopic
    held: RestorableTopic

    def state_folder(self, root: Path) -> Path:
        return root / f"{self.one.topic}~tail-{self.name}"


def tail_plan(
    client: ReadClient, plan: Plan, store: Store, options: TailOptions, state_root: Path
) -> RestorePlan:
    """Plan to restore the tails that the elections of *plan* cut off.

    *store* is the folder of one rescue, ``.../b<broker>/<topic>``, or that of a topic backup. The
    elected logs are read from their divergence from the stored records to their stable ends.

    Raises:
        UsageError: the plan or the folder has nothing of the requested topics.
        WrongCluster: the plan or the backup is of another cluster.
        Refused: a partition has no leader until the deadline, its topic was recreated or is one of
            Kafka's own, or an earlier run is unfinished.
        MalformedInput, UnsupportedSchema, DamagedBackup: the stored records cannot be read.
        ClusterError, Unreachable: an elected log cannot be read.
    """
    deadline = Deadline.after(patience.JOB)
    cluster_id = client.describe(deadline).cluster_id
    _require_cluster(plan.cluster_id, cluster_id, "the plan")
    found = [
        partition
        for partition in plan.leaders
        if (not options.topics or partition.topic in options.topics)
        and (not options.partitions or partition.partition in options.partitions)
    ]
    if not found:
        raise UsageError("the plan elects no such partition: check --topics and --partitions.")
    # No client may write to them: settings would be changed for records that no broker takes.
    wanted = [partition for partition in found if partition.topic not in INTERNAL_TOPICS]
    sources = tail_sources(store)
    internal = sorted(
        {partition.topic for partition in found if partition not in wanted}
        & ({source.one.topic for source in sources} | {*options.topics})
    )
    if internal and (not wanted or {*internal} & {*options.topics}):
        raise Refused(internal_left_out(internal))
    elected = {partition.topic for partition in wanted}
    sources = [source for source in sources if source.one.topic in elected]
    # Of the other topics that the plan elects, nothing was saved.
    topics = sorted({source.one.topic for source in sources})
    absent = sorted((set(options.topics) & elected if topics else elected) - set(topics))
    if absent:
        raise UsageError(
            f"{store.where()} has nothing of {', '.join(absent)}: name the folder of the rescue, "
            "which has a folder for each broker, or the folder of a backup."
        )
    wanted = [partition for partition in wanted if partition.topic in topics]
    existing = {partition.partition.topic for partition in client.partitions(topics, deadline)}
    now = led_targets(client, existing, wanted, deadline)
    for source in sources:
        _require_cluster(source.held.identity.cluster_id, cluster_id, source.one.where)
    plans = [
        tail
        for topic in topics
        for tail in _TopicTail(client, plan, topic, now.get(topic), options, state_root).plans(
            [source for source in sources if source.one.topic == topic], wanted
        )
    ]
    return RestorePlan(cluster_id, tuple(plans), (internal_left_out(internal),) if internal else ())


def internal_left_out(topics: Sequence[str]) -> str:
    """Why nothing is put back into Kafka's own *topics*, and which commands act in its place."""
    return (
        f"{', '.join(topics)}: no client can write to Kafka's own topics, so none of their records "
        "are put back: `breakglass after groups set --source rescue:DIR` sets groups to the "
        "offsets that the election lost, and `breakglass after transactions finish --source "
        "rescue:DIR` ends transactions as they had ended"
    )


def plan_of_leaders(client: ReadClient, store: Store) -> Plan:
    """A plan of the present leaders of all partitions that *store* has records of.

    It serves in place of the plan of an election: after a broker's return there is none.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
    """
    saved = {
        TopicPartition(source.one.topic, part.partition)
        for source in tail_sources(store)
        for part in source.held.partitions
    }
    topics = sorted({partition.topic for partition in saved})
    states = client.partitions(topics, Deadline.after(patience.JOB)) if topics else ()
    entries = tuple(
        PlanEntry(
            topic=state.partition.topic,
            number=state.partition.partition,
            leader=state.assignment[0] if state.leader is None else state.leader,
        )
        for state in states
        if state.partition in saved
    )
    return Plan(entries=entries)


def led_targets(
    client: ReadClient,
    topics: Iterable[str],
    wanted: Sequence[TopicPartition],
    deadline: Deadline,
    seconds: float = patience.COMMAND,
) -> dict[str, TopicSource]:
    """The topics by name, once every *wanted* partition can be written, or after *seconds*.

    The plan elects a leader for each: one that is absent now may just be restarting.

    Raises: as `read_targets`.
    """
    give_up = deadline.sooner(seconds)
    while True:
        now = {topic.name: topic for topic in read_targets(client, sorted(topics), deadline)}
        waits = any(
            partition.partition in now[partition.topic].unread
            for partition in wanted
            if partition.topic in now
        )
        if not waits or give_up.passed:
            return now
        time.sleep(LEADER_LOOK_SECONDS)


def tail_sources(store: Store) -> list[TailSource]:
    """The sources in *store*: the brokers' folders of a rescue, or the generations of a backup.

    Raises: as `held_topics` and `read_held`.
    """
    brokers = _brokers(store.path) if isinstance(store, LocalStore) else []
    if brokers:
        found = [(path.name, held) for path in brokers for held in held_topics(LocalStore(path))]
    else:
        found = [(held.name, held) for held in held_topics(store)]
    return [TailSource(name, held, _whole(held)) for name, held in found]


def _whole(topic: HeldTopic) -> RestorableTopic:
    """The content of a folder. Raises Refused if committed records are lost."""
    held = read_held(topic.folder, topic.topic)
    require_manifest(held)
    held = read_sound(held, {part.partition for part in held.partitions})
    if held.lost:
        lost = held.lost[0]
        raise Refused(
            f"{topic.where} is damaged: offsets {lost.what.offsets or 'unknown'} of partition "
            f"{lost.partition} ({lost.what.reason}); copy the file from another copy, or "
            f"restore from a copy that `breakglass backup repair {topic.where} --out DIR` makes"
        )
    return held


def _brokers(root: Path) -> list[Path]:
    """The folders of brokers in a rescue; the folder of a topic has no folders in it."""
    with storage_errors(str(root)):
        named = [path for path in root.iterdir() if _BROKER.fullmatch(path.name) and path.is_dir()]
        found = [path for path in named if any(path.is_dir() for path in path.iterdir())]
    return sorted(found, key=lambda path: int(path.name[1:]))


def _require_cluster(theirs: str | None, ours: str, what: str) -> None:
    if theirs is not None and theirs != ours:
        raise WrongCluster(
            f"{what} is of cluster {theirs}, but this is {ours}: connect to that cluster"
        )


@dataclass(frozen=True, slots=True)
class _TopicTail:
    """Plans the tails of one topic."""

    client: ReadClient
    plan: Plan
    topic: str
    now: TopicSource | None
    options: TailOptions
    state_root: Path

    def plans(
        self, sources: Sequence[TailSource], wanted: Sequence[TopicPartition]
    ) -> list[TopicPlan]:
        now = self._target([partition for partition in wanted if partition.topic == self.topic])
        same = [
            source
            for source in sources
            if source.held.identity.topic_id in (None, now.identity.topic_id)
        ]
        if not same:
            raise Refused(
                f"topic {self.topic} was recreated after these records were saved: "
                "restore them into a topic of another name with --map, without --tail-of"
            )
        numbers = {one.partition for one in wanted if one.topic == self.topic}
        left_out: dict[str, Counter[str]] = {source.name: Counter() for source in sources}
        for source in sources:
            if source not in same:
                parts = [one for one in source.held.partitions if one.partition in numbers]
                counts = [segment.count for part in parts for segment in part.segments]
                left_out[source.name] += Counter({RECREATED: sum(counts)})
        begun = {source.name: self._begun(source, now) for source in same}
        require_alone(self.state_root, now, [one.state_folder(self.state_root) for one in same])
        chosen: dict[str, list[PartitionPlan]] = {source.name: [] for source in sources}
        live = {source.partition: source for source in now.partitions}
        for partition in wanted:
            if partition in live:
                self._choose(live[partition], same, begun, chosen, left_out)
        return [
            self._topic_plan(
                source, now, chosen[source.name], left_out[source.name], begun.get(source.name)
            )
            for source in sources
        ]

    def _target(self, wanted: Sequence[TopicPartition]) -> TopicSource:
        now = self.now
        if now is None:
            raise Refused(
                f"topic {self.topic} no longer exists: restore it whole, without --tail-of"
            )
        for partition in wanted:
            if partition.partition in now.unread:
                raise Refused(
                    f"{partition} cannot be written ({now.unread[partition.partition]}): start its "
                    "leader, or elect one with `breakglass recover`; a leader also needs "
                    "min.insync.replicas replicas in sync; then run this again"
                )
            record = self.plan.records.get(partition)
            if record is not None and record.evidence.state.topic_id != now.identity.topic_id:
                raise Refused(
                    f"topic {self.topic} was recreated after the plan was made: "
                    "its records cannot be restored by that plan"
                )
        return now

    def _begun(self, source: TailSource, now: TopicSource) -> RestoreState | None:
        """The unfinished run that should be resumed, if any."""
        state = read_state(source.state_folder(self.state_root))
        if state is None or state.ended:
            return None
        if state.topic_id not in (None, str(now.identity.topic_id)):
            return None
        if not self.options.resume:
            raise Refused(
                f"restoring the tail of {self.topic} from {state.source} is unfinished: while its "
                "process runs, wait for it (`breakglass journal list`); else run again with "
                "--resume"
            )
        if state.source != source_of(source.one):
            raise Refused(
                f"the unfinished restore of the tail of {self.topic} is from {state.source}: name "
                "the folder of that rescue"
            )
        return state

    def _choose(
        self,
        live: PartitionSource,
        sources: Sequence[TailSource],
        begun: Mapping[str, RestoreState | None],
        chosen: Mapping[str, list[PartitionPlan]],
        left_out: Mapping[str, Counter[str]],
    ) -> None:
        number = live.partition.partition
        leader, record = self.plan.leaders[live.partition], self.plan.records.get(live.partition)
        replica = record.evidence.replica(leader) if record else None
        log = ElectedLog(live.log_start, live.epochs, replica.epochs if replica else None)
        stored = {source.name: _stored(source, number, log) for source in sources}
        lacking = [record for _, some, _ in stored.values() for record in some]
        forks = [
            log.fork(part)
            for source in sources
            for part in source.held.partitions
            if part.partition == number and stored[source.name][1]
        ]
        choice = TailChoice(self._there(live, lacking, forks), live.log_start)
        for source in sources:
            segments, lacking, fates = stored[source.name]
            state = begun[source.name]
            before = Counter(choice.left_out)
            spans = choice.choose(lacking, fates)
            left = choice.left_out - before
            if state is not None:
                # The log has what was put back before: that is not left out.
                spans, left = state.spans.get(number, ()), Counter({BELOW: left[BELOW]})
            left_out[source.name].update(+left)
            if spans:
                chosen[source.name].append(partition_plan(number, segments, spans))

    def _there(
        self, live: PartitionSource, lacking: Sequence[TailRecord], forks: Sequence[int]
    ) -> Counter[Digest]:
        """How often the log has each of these contents, from where it may differ."""
        found: Counter[Digest] = Counter()
        if not lacking:
            return found
        wanted = {record.content for record in lacking}
        start = max(live.log_start, min([*forks, *(record.offset for record in lacking)]))
        log = CommittedLog(self.client.sender, live.leader, live.partition)
        # What was put back before may lie past an open transaction.
        beside = max(start, live.stable_end)
        for record in chain(
            log.records(start, live.stable_end),
            log.records_beside_open_transactions(beside, live.high_watermark),
        ):
            if (digest := content(record)) in wanted:
                found[digest] += 1
        return found

    def _topic_plan(
        self,
        source: TailSource,
        now: TopicSource,
        partitions: Sequence[PartitionPlan],
        left_out: Mapping[str, int],
        begun: RestoreState | None,
    ) -> TopicPlan:
        settings = own_settings(self.state_root, now) if begun is None else dict(begun.settings)
        return TopicPlan(
            held=source.one,
            source=source_of(source.one),
            generation=source.one.generation,
            topic=self.topic,
            target=self.topic,
            exists=True,
            topic_id=str(now.identity.topic_id),
            empty=False,
            partition_count=len(now.partitions) + len(now.unread),
            settings=settings,
            partitions=tuple(partitions),
            expired_at_once=sum(
                expired_at_once(settings, part.segments, now_ms())
                for part in source.held.partitions
                if part.partition in {partition.partition for partition in partitions}
            ),
            groups={},
            state_folder=str(source.state_folder(self.state_root).absolute()),
            resumed=begun is not None,
            tail_of=source.name,
            stored={
                part.partition: stored_segments(source.held.folder, part.segments)
                for part in source.held.partitions
            },
            left_out=dict(left_out),
            salvaged=source.held.salvaged,
            compacted=now.compacted and bool(partitions),
        )


def _stored(
    source: TailSource, number: int, log: ElectedLog
) -> tuple[list[StoredSegment], list[TailRecord], Fates]:
    part = next(
        (partition for partition in source.held.partitions if partition.partition == number), None
    )
    if part is None:
        return [], [], Fates()
    segments = stored_segments(source.held.folder, part.segments)
    fates = Fates()
    if part.batch_log is not None:
        fates = fates_of(read_batch_log(source.held.folder, number, part.batch_log))
    return segments, list(candidates(segments, part, log)), fates
