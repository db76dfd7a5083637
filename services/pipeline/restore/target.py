"""Creates and opens the target topics of a restore, and restores their settings after it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from breakglass.services import patience
from breakglass.services.errors import (
    ClusterError,
    EvidenceChanged,
    OutcomeUnknown,
    Refused,
    UsageError,
)
from breakglass.services.kafka.admin_client import TopicClient
from breakglass.services.kafka.cluster.settings import read_topic_configs
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import INTERNAL_TOPICS, TopicPartition, Unknown, legal_topic
from breakglass.services.pipeline.restore.options import (
    OPEN,
    REMOVED_IN_4,
    RestoreOptions,
    RestoreSettings,
    TopicPlan,
    afterwards,
    during,
)
from breakglass.services.pipeline.restore.state import RestoreState, new_restore_id, read_state
from breakglass.services.pipeline.restore.task import runs_within
from breakglass.services.pipeline.source import TopicSource, WantedTopics, read_sources
from breakglass.services.topic_backup.catalog import HeldTopic


def target_names(held: Sequence[HeldTopic], options: RestoreOptions) -> list[str]:
    """The target topic of each of *held*.

    Raises:
        UsageError: two targets have one name, a target is internal, or --map names another topic.
    """
    topics = {topic.topic for topic in held}
    absent = sorted(set(options.renamed) - topics)
    if absent:
        raise UsageError(
            f"--map names {', '.join(absent)}, which is not restored: check the spelling."
        )
    targets = [options.renamed.get(topic.topic, topic.topic) for topic in held]
    require_names(targets)
    return targets


def require_names(targets: Sequence[str]) -> None:
    """Check that topics of these names can be targets.

    Raises UsageError: two names are equal, or a name is invalid (Topic.java) or internal.
    """
    if len(set(targets)) < len(targets):
        raise UsageError("Two topics would be restored into one: give each a name with --map.")
    for target in targets:
        if not legal_topic(target):
            raise UsageError(
                f"{target!r} is not a topic name that Kafka allows: use at most 249 letters, "
                "digits, dots, underscores and hyphens."
            )
        if target in INTERNAL_TOPICS:
            raise UsageError(f"{target} is Kafka's own: give it another name with --map.")


def existing(client: ReadClient, targets: Sequence[str], deadline: Deadline) -> list[str]:
    """The *targets* that exist; the others can be created beside all other topics.

    Raises:
        UsageError: a target collides with another topic.
        Unreachable, NotAuthorized: no broker returns the topics.
    """
    found = {partition.partition.topic for partition in client.partitions(targets, deadline)}
    new = [target for target in targets if target not in found]
    if any({".", "_"} & set(name) for name in new):
        # Only such names collide, so only they need the names of all topics.
        require_apart(
            new, {partition.partition.topic for partition in client.partitions((), deadline)}
        )
    return sorted(found)


def require_apart(new: Sequence[str], there: Collection[str]) -> None:
    """Check that topics named *new* can be created beside the topics *there*.

    Raises UsageError: two differ in dots and underscores alone, which Kafka refuses (Topic.java).
    """
    names = {_unified(name): name for name in there}
    for name in new:
        other = names.setdefault(_unified(name), name)
        if other != name:
            raise UsageError(
                f"Kafka refuses topic {name} beside {other}, which differs in dots and underscores "
                "alone: give it another name with --map."
            )


def _unified(name: str) -> str:
    return name.replace(".", "_")


def read_targets(
    client: ReadClient, topics: Sequence[str], deadline: Deadline
) -> tuple[TopicSource, ...]:
    """Read the existing target *topics*.

    Raises Refused: their settings, which the restore must put back, cannot be read.
    """
    if not topics:
        return ()
    for topic, config in read_topic_configs(client.sender, topics, deadline).items():
        if isinstance(config, Unknown):
            raise Refused(
                f"the settings of topic {topic} cannot be read ({config.reason}), so they could "
                "not be put back: grant that, then try again"
            )
    return read_sources(client, WantedTopics(tuple(topics)), deadline)


def partition_count(now: TopicSource) -> int:
    """The number of partitions of the topic, offline partitions included."""
    return len(now.partitions) + len(now.unread)


def require_room(now: TopicSource, *, filled: bool, instead: str) -> None:
    """Check that records can be restored into an existing topic; *filled* if it may have records.

    Raises Refused: a partition is unreadable, or has records; *instead* is the advice.
    """
    if now.unread:
        number, reason = next(iter(now.unread.items()))
        raise Refused(
            f"{now.name}-{number} cannot be written ({reason}): run `breakglass triage`, then try "
            "again"
        )
    if not filled and (written := _written(now)):
        raise Refused(f"topic {now.name} has records ({written}): {instead}")


def _written(now: TopicSource) -> TopicPartition | None:
    """The first partition that has records."""
    return next(
        (one.partition for one in now.partitions if one.high_watermark > one.log_start), None
    )


LOOK_SECONDS = 0.1
MIN_INSYNC = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """The topic of one plan."""

    plan: TopicPlan
    client: ReadClient
    topics: TopicClient
    how: RestoreSettings

    def opened(self) -> RestoreState:
        """Write the state, then create the topic or open it to records of any age.

        Raises:
            EvidenceChanged: the topic or the backup is not as planned; nothing was changed.
            NotAuthorized, ClusterError, OutcomeUnknown: the topic was not created or opened.
            StorageError: the state cannot be written.
        """
        now = self.now()
        self._require_as_planned(now)
        state = self._state()
        if now is None:
            self.topics.create(
                self.plan.target,
                self.plan.partition_count,
                during(self.plan.settings),
                self._deadline(),
                replication_factor=self.how.replication_factor,
            )
            now = self.online()
        state = state.bound(now.identity.topic_id)
        if self.plan.exists and not state.proven:
            given = {
                name: value
                for name, value in self.plan.settings.items()
                if now.identity.config.get(name) != value and name not in REMOVED_IN_4
            }
            self.topics.configure(self.plan.target, {**given, **OPEN}, (), self._deadline())
        return state

    def close(self, state: RestoreState) -> None:
        """Restore the settings of the topic, and wait until a broker shows them.

        Raises: as `opened`, for errors of the cluster.
        """
        self.require_same(state)
        back, defaults = afterwards(state.settings)
        deadline = self._deadline()
        self.topics.configure(self.plan.target, back, defaults, deadline)
        while not self._has(state, back, defaults):
            if deadline.passed:
                raise OutcomeUnknown(
                    f"topic {self.plan.target} should have its own settings again, but no broker "
                    "shows them yet: compare the settings before you do anything else"
                )
            time.sleep(LOOK_SECONDS)

    def online(self) -> TopicSource:
        """The topic, once every partition of it has a leader.

        Raises ClusterError: a partition stays without a leader, or has too few replicas.
        """
        deadline = self._deadline()
        while True:
            found = self.now()
            if found is not None and not found.unread:
                self._require_replicas(found, deadline)
                return found
            if deadline.passed:
                raise ClusterError(
                    f"topic {self.plan.target} has partitions without a leader: run "
                    "`breakglass triage`, then run again with --resume"
                )
            time.sleep(LOOK_SECONDS)

    def require_same(self, state: RestoreState) -> TopicSource:
        """The topic as it is now.

        Raises ClusterError: it is not the topic with which the restore started.
        """
        found = self.now()
        if found is None or str(found.identity.topic_id) != state.topic_id:
            raise ClusterError(
                f"topic {self.plan.target} was deleted during its restore: start again without "
                "--resume"
            )
        return found

    def now(self) -> TopicSource | None:
        """The topic; None if it does not exist."""
        deadline = self._deadline()
        if not self.client.partitions((self.plan.target,), deadline):
            return None
        (found,) = read_targets(self.client, (self.plan.target,), deadline)
        return found

    def _has(
        self, state: RestoreState, settings: Mapping[str, str], defaults: Collection[str]
    ) -> bool:
        own = self.require_same(state).identity.config
        return settings.items() <= own.items() and own.keys().isdisjoint(defaults)

    def _state(self) -> RestoreState:
        plan = self.plan
        state = read_state(self._folder)
        if plan.resumed and state is not None:
            return replace(state, settings=dict(plan.settings)).keep()
        return RestoreState(
            restore_id=new_restore_id(),
            target=plan.target,
            source=plan.source,
            folder=plan.state_folder,
            settings=dict(plan.settings),
            spans={partition.partition: partition.spans for partition in plan.partitions},
            transactional=self.how.transactional,
            alone=plan.empty,
        ).begin()

    def _require_as_planned(self, now: TopicSource | None) -> None:
        plan = self.plan
        topic_id = None if now is None else str(now.identity.topic_id)
        if topic_id != plan.topic_id:
            raise EvidenceChanged(
                f"topic {plan.target} was created or deleted after the plan was made: plan again"
            )
        state = read_state(self._folder) if plan.resumed else None
        begun = state is not None and state.topic_id is not None
        if now is not None and plan.empty and not begun and (written := _written(now)):
            raise EvidenceChanged(
                f"{written} was written after the plan was made: find the writer, then plan again"
            )
        for partition in plan.partitions:
            found = runs_within(plan.stored[partition.partition], partition.spans)
            if sum(len(run.offsets) for run in found) != partition.records:
                raise EvidenceChanged(
                    f"{plan.source} has other records of partition {partition.partition} than when "
                    "the plan was made: plan again"
                )

    def _require_replicas(self, found: TopicSource, deadline: Deadline) -> None:
        """Check that writes with acks=all can succeed: they would otherwise only time out."""
        needed = int(self.plan.settings.get(MIN_INSYNC, 1))
        states = self.client.partitions((found.name,), deadline)
        fewest = min(len(state.assignment) for state in states)
        if fewest < needed:
            raise ClusterError(
                f"topic {found.name} has {fewest} replicas and {MIN_INSYNC}={needed}, so nothing "
                f"can be written: delete it, then add --replication-factor {needed} or "
                f"--topic-config {MIN_INSYNC}={fewest}"
            )

    @property
    def _folder(self) -> Path:
        return Path(self.plan.state_folder)

    def _deadline(self) -> Deadline:
        return Deadline.after(patience.JOB)
