"""The topic that is restored into: made or opened before, given its own settings afterwards."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from services.errors import ClusterError, EvidenceChanged, OutcomeUnknown
from services.kafka.read_client import ReadClient
from services.kafka.topic_client import TopicClient
from services.kafka.wire.deadline import Deadline
from services.pipeline.restore.options import OPEN, REMOVED_IN_4, afterwards, during
from services.pipeline.restore.planned import TopicPlan, stored_of
from services.pipeline.restore.state import RestoreState, new_restore_id, read_state
from services.pipeline.restore.target_choice import read_targets
from services.pipeline.restore.task import runs_within
from services.pipeline.source import TopicSource

ASK_SECONDS = 60.0
LOOK_SECONDS = 0.1
MIN_INSYNC = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """The topic of one plan."""

    plan: TopicPlan
    client: ReadClient
    topics: TopicClient
    replication_factor: int
    transactional: bool

    def opened(self) -> RestoreState:
        """Make the topic ready to take records of any age, once its state is written down.

        Raises:
            EvidenceChanged: topic or backup are not what the plan says; nothing was changed.
            NotAuthorized, ClusterError, OutcomeUnknown: the cluster did not make or open it.
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
                replication_factor=self.replication_factor,
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
        """Give the topic its own settings, and see that it has them.

        Raises: as `opened` does of the cluster.
        """
        self.require_same(state)
        back, defaults = afterwards(state.settings)
        deadline = self._deadline()
        self.topics.configure(self.plan.target, back, defaults, deadline)
        while not self._has(state, back, defaults):
            if deadline.passed:
                raise OutcomeUnknown(
                    f"topic {self.plan.target} was given its own settings, and no broker shows "
                    "them yet: compare them before anything else is done"
                )
            time.sleep(LOOK_SECONDS)

    def online(self) -> TopicSource:
        """The topic, once every partition of it has a leader.

        Raises:
            ClusterError: some have none for long, or too few replicas for its settings.
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
                    "`breakglass triage`, then go on with --resume"
                )
            time.sleep(LOOK_SECONDS)

    def require_same(self, state: RestoreState) -> TopicSource:
        """The topic as it is now.

        Raises:
            ClusterError: it is not the one that the restore began with.
        """
        found = self.now()
        if found is None or str(found.identity.topic_id) != state.topic_id:
            raise ClusterError(
                f"topic {self.plan.target} was deleted while it was being restored: start again, "
                "without --resume"
            )
        return found

    def now(self) -> TopicSource | None:
        """The topic; None where there is none."""
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
        held = read_state(self._folder)
        if plan.resumed and held is not None:
            return replace(held, settings=dict(plan.settings)).keep()
        return RestoreState(
            restore_id=new_restore_id(),
            target=plan.target,
            source=plan.source,
            folder=plan.state_folder,
            settings=dict(plan.settings),
            spans={one.partition: one.spans for one in plan.partitions},
            transactional=self.transactional,
            alone=plan.empty,
        ).begin()

    def _require_as_planned(self, now: TopicSource | None) -> None:
        plan = self.plan
        topic_id = None if now is None else str(now.identity.topic_id)
        if topic_id != plan.topic_id:
            raise EvidenceChanged(
                f"topic {plan.target} was created or deleted since the plan was made: make it again"
            )
        state = read_state(self._folder) if plan.resumed else None
        begun = state is not None and state.topic_id is not None
        if now is not None and plan.empty and not begun:
            filled = [one for one in now.partitions if one.high_watermark > one.log_start]
            if filled:
                raise EvidenceChanged(
                    f"{filled[0].partition} was written to since the plan was made: look who does, "
                    "then make it again"
                )
        for one in plan.partitions:
            found = runs_within(stored_of(plan, one.partition), one.spans)
            if sum(len(run.offsets) for run in found) != one.records:
                raise EvidenceChanged(
                    f"{plan.source} holds other records of partition {one.partition} than when the "
                    "plan was made: make it again"
                )

    def _require_replicas(self, found: TopicSource, deadline: Deadline) -> None:
        """An acks=all write that can never succeed would only be seen to time out."""
        needed = int(self.plan.settings.get(MIN_INSYNC, 1))
        states = self.client.partitions((found.name,), deadline)
        fewest = min(len(one.assignment) for one in states)
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
        return Deadline.after(ASK_SECONDS)
