"""Putting back what an unclean election cut off: the plan of it, from a rescue or a backup."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.clock import now_ms
from services.errors import Refused, UsageError, WrongCluster
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition
from services.pipeline.committed_log import CommittedLog
from services.pipeline.restore.options import expired_at_once
from services.pipeline.restore.plan import require_manifest
from services.pipeline.restore.planned import (
    PartitionPlan,
    RestorePlan,
    TopicPlan,
    partition_plan,
)
from services.pipeline.restore.state import RestoreState, read_state, source_of
from services.pipeline.restore.tail import (
    Digest,
    ElectedLog,
    Fates,
    TailChoice,
    TailRecord,
    candidates,
    content,
    fates_of,
)
from services.pipeline.restore.target_choice import read_targets
from services.pipeline.source import PartitionSource, TopicSource
from services.pipeline.stored_segments import StoredSegment, stored_segments
from services.recovery.plan.document import Plan
from services.topic_backup.batch_log import read_batch_log
from services.topic_backup.catalog import HeldTopic, held_topics
from services.topic_backup.folder import storage_errors
from services.topic_backup.held import RestorableTopic, read_held, read_sound
from services.topic_backup.store.store import LocalStore, Store
from services.topic_backup.summary import PartitionSummary

ASK_SECONDS = 60.0
_BROKER = re.compile(r"b[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TailOptions:
    """Which tails are put back, and how."""

    topics: tuple[str, ...] = ()
    partitions: frozenset[int] = frozenset()
    resume: bool = False


@dataclass(frozen=True, slots=True)
class TailSource:
    """One folder that holds records which an election may have cut off."""

    name: str
    """Of the broker that they were rescued from, or of the topic's folder."""
    one: HeldTopic
    held: RestorableTopic

    def state_folder(self, root: Path) -> Path:
        """Where it is kept how far putting them back is."""
        return root / f"{self.one.topic}~tail-{self.name}"


def tail_plan(
    client: ReadClient, plan: Plan, store: Store, options: TailOptions, state_root: Path
) -> RestorePlan:
    """What putting back the tails that the elections of *plan* cut off comes to.

    *store* is the folder of one rescue, ``.../b<broker>/<topic>``, or that of a topic backup. The
    elected logs are read from where they part from what is stored, to their stable ends.

    Raises:
        UsageError: the plan or the folder holds nothing that is asked for.
        WrongCluster: plan or backup are of another cluster.
        Refused: a partition has no leader, its topic is another by now, or an earlier run has not
            ended.
        MalformedInput, UnsupportedSchema, DamagedBackup: what is stored cannot be read.
        ClusterError, Unreachable: an elected log cannot be read.
    """
    deadline = Deadline.after(ASK_SECONDS)
    cluster_id = client.describe(deadline).cluster_id
    _require_cluster(plan.cluster_id, cluster_id, "the plan")
    wanted = _wanted(plan, options)
    topics = sorted({one.topic for one in wanted})
    sources = [one for one in tail_sources(store) if one.one.topic in topics]
    if not sources:
        raise UsageError(
            f"{store.where()} holds nothing of {', '.join(topics)}: name the folder of the rescue, "
            "which has one for each broker, or that of a backup."
        )
    existing = {one.partition.topic for one in client.partitions(topics, deadline)}
    now = {one.name: one for one in read_targets(client, sorted(existing), deadline)}
    for one in sources:
        _require_cluster(one.held.identity.cluster_id, cluster_id, one.one.where)
    plans = [
        tail
        for topic in topics
        for tail in _TopicTail(client, plan, topic, now.get(topic), options, state_root).plans(
            [one for one in sources if one.one.topic == topic], wanted
        )
    ]
    return RestorePlan(cluster_id, tuple(plans))


def tail_sources(store: Store) -> list[TailSource]:
    """What *store* holds: the brokers' folders of a rescue, or every generation of a backup.

    Raises: as `held_topics` and `read_held`.
    """
    brokers = _brokers(store.path) if isinstance(store, LocalStore) else []
    if brokers:
        found = [(path.name, held) for path in brokers for held in held_topics(LocalStore(path))]
    else:
        found = [(held.name, held) for held in held_topics(store)]
    return [TailSource(name, held, _whole(held)) for name, held in found]


def _whole(one: HeldTopic) -> RestorableTopic:
    """What a folder holds. Raises Refused where it is not what was committed."""
    held = read_held(one.folder, one.topic)
    require_manifest(held)
    held = read_sound(held, {part.partition for part in held.partitions})
    if held.lost:
        lost = held.lost[0]
        raise Refused(
            f"{one.where} is damaged: offsets {lost.what.offsets or 'unknown'} of partition "
            f"{lost.partition} ({lost.what.reason}); bring the file back from another copy, or "
            f"restore from a copy that `breakglass backup reindex {one.where} --to DIR` makes"
        )
    return held


def _brokers(root: Path) -> list[Path]:
    """The folders of a rescue; a topic that is named like a broker has no folders in it."""
    with storage_errors(str(root)):
        named = [one for one in root.iterdir() if _BROKER.fullmatch(one.name) and one.is_dir()]
        found = [one for one in named if any(each.is_dir() for each in one.iterdir())]
    return sorted(found, key=lambda one: int(one.name[1:]))


def _wanted(plan: Plan, options: TailOptions) -> list[TopicPartition]:
    found = [
        one
        for one in plan.leaders
        if (not options.topics or one.topic in options.topics)
        and (not options.partitions or one.partition in options.partitions)
    ]
    if not found:
        raise UsageError("the plan elects nothing of that: check --topics and --partitions.")
    return found


def _require_cluster(theirs: str | None, ours: str, what: str) -> None:
    if theirs is not None and theirs != ours:
        raise WrongCluster(
            f"{what} is of cluster {theirs}, and this is {ours}: connect to that one"
        )


@dataclass(frozen=True, slots=True)
class _TopicTail:
    """The tails of one topic."""

    client: ReadClient
    plan: Plan
    topic: str
    now: TopicSource | None
    options: TailOptions
    state_root: Path

    def plans(
        self, sources: Sequence[TailSource], wanted: Sequence[TopicPartition]
    ) -> list[TopicPlan]:
        """A plan for each of *sources* that something is put back from, or left out of."""
        now = self._target([one for one in wanted if one.topic == self.topic])
        same = [
            one for one in sources if one.held.identity.topic_id in (None, now.identity.topic_id)
        ]
        if not same:
            raise Refused(
                f"topic {self.topic} was deleted and created anew since these records were saved: "
                "restore them into a topic of another name with --map, without --tail-of"
            )
        begun = {one.name: self._begun(one, now) for one in same}
        left_out: dict[str, Counter[str]] = {one.name: Counter() for one in same}
        chosen: dict[str, list[PartitionPlan]] = {one.name: [] for one in same}
        live = {one.partition: one for one in now.partitions}
        for partition in wanted:
            if partition in live:
                self._choose(live[partition], same, begun, chosen, left_out)
        return [
            self._topic_plan(one, now, chosen[one.name], left_out[one.name], begun[one.name])
            for one in same
        ]

    def _target(self, wanted: Sequence[TopicPartition]) -> TopicSource:
        now = self.now
        if now is None:
            raise Refused(
                f"topic {self.topic} is not there any more: restore it whole, without --tail-of"
            )
        for one in wanted:
            if one.partition in now.unread:
                raise Refused(
                    f"{one} cannot be written ({now.unread[one.partition]}): elect its leader "
                    "first, with `breakglass recover --plan`"
                )
            record = self.plan.records.get(one)
            if record is not None and record.evidence.state.topic_id != now.identity.topic_id:
                raise Refused(
                    f"topic {self.topic} was deleted and created anew since the plan was made: "
                    "nothing of it can be put back by that"
                )
        return now

    def _begun(self, source: TailSource, now: TopicSource) -> RestoreState | None:
        """The run that has not ended, if it is to be gone on with."""
        state = read_state(source.state_folder(self.state_root))
        if state is None or state.ended:
            return None
        if state.topic_id not in (None, str(now.identity.topic_id)):
            return None
        if not self.options.resume:
            raise Refused(
                f"putting back what {source.name} held of {self.topic} was begun and has not "
                "ended: go on with --resume"
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
        """Choose from every one of *sources* what of one partition is put back."""
        number = live.partition.partition
        log = ElectedLog(live.log_start, live.epochs)
        held = {one.name: _stored(one, number, log) for one in sources}
        choice = TailChoice(self._there(live, [each for one in held.values() for each in one[1]]))
        for one in sources:
            segments, lacking, fates = held[one.name]
            state = begun[one.name]
            before = Counter(choice.left_out)
            spans = choice.choose(lacking, fates)
            if state is not None:
                spans = state.spans.get(number, ())
            else:
                left_out[one.name].update(choice.left_out - before)
            if spans:
                chosen[one.name].append(partition_plan(number, segments, spans))

    def _there(self, live: PartitionSource, lacking: Sequence[TailRecord]) -> Counter[Digest]:
        """How often each of these contents is in the log, from where it may part from them on."""
        found: Counter[Digest] = Counter()
        if not lacking:
            return found
        wanted = {one.content for one in lacking}
        start = max(live.log_start, min(one.offset for one in lacking))
        log = CommittedLog(self.client.sender, live.leader, live.partition)
        if start < live.stable_end:
            for record in log.records(start, live.stable_end):
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
        settings = dict(now.identity.config if begun is None else begun.settings)
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
                if part.partition in {one.partition for one in partitions}
            ),
            groups={},
            state_folder=str(source.state_folder(self.state_root).absolute()),
            resumed=begun is not None,
            tail_of=source.name,
            left_out=dict(left_out),
            salvaged=source.held.salvaged,
        )


def _stored(
    source: TailSource, number: int, log: ElectedLog
) -> tuple[list[StoredSegment], list[TailRecord], Fates]:
    part = next((one for one in source.held.partitions if one.partition == number), None)
    if part is None:
        return [], [], Fates()
    segments = stored_segments(source.held.folder, part.segments)
    return segments, list(candidates(segments, part, log)), _fates(source, part)


def _fates(source: TailSource, part: PartitionSummary) -> Fates:
    if part.batch_log is None:
        return Fates()
    return fates_of(read_batch_log(source.held.folder, part.partition, part.batch_log))
