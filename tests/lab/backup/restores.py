"""Restoring in tests."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup_context import (
    BackupRun,
    BackupSettings,
    CopyProgress,
    Meter,
    Tell,
)
from breakglass.services.pipeline.restore.options import (
    RestoreOptions,
    RestorePlan,
    RestoreSettings,
)
from breakglass.services.pipeline.restore.plan import make_plan
from breakglass.services.pipeline.restore.restore import RestoreRun, TopicRestored, restore
from breakglass.services.pipeline.restore.tail_plan import TailOptions, tail_plan
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.session import Power
from breakglass.services.topic_backup.catalog import held_topics
from tests.lab.backup.backups import SECONDS, BackUp, unheard
from tests.lab.backup.visited import Visited, nothing


class Killed(BaseException):
    """The restore ends here, as if its process had been killed."""


def die(now: CopyProgress) -> None:
    """End it in the thread that restores: the one that watches beside it may be told first."""
    if now.done == now.total and threading.current_thread() is threading.main_thread():
        raise Killed


@dataclass(frozen=True, slots=True)
class Restore:
    """Restores from the backup of a test into the same brokers."""

    back_up: BackUp
    state: Path

    @property
    def power(self) -> Power:
        return Power(self.back_up.access)

    def plan(self, topic: str, target: str, **options: Any) -> RestorePlan:
        held = held_topics(self.back_up.store, [topic])
        wanted = RestoreOptions(renamed={topic: target}, **options)
        return make_plan(self.back_up.client, held, wanted, self.state)

    def tail_plan(self, *partitions: TopicPartition) -> RestorePlan:
        """Of what elections of these partitions cut off, from every generation of the backup."""
        entries = tuple(
            PlanEntry(topic=partition.topic, number=partition.partition, leader=1)
            for partition in partitions
        )
        plan = Plan(entries=entries)
        store = self.back_up.store
        return tail_plan(self.back_up.client, plan, store, TailOptions(), self.state)

    def __call__(
        self,
        plan: RestorePlan,
        number: int = 0,
        *,
        tell: Tell = unheard,
        created: Callable[[], object] = nothing,
        **how: Any,
    ) -> TopicRestored:
        """Carry out *plan*; what became of its topic of that *number*.

        Somebody else acts as soon as the topic is *created*.
        """
        plan = replace(plan, topics=(plan.topics[number],))
        with (
            Journal.open(plan.cluster_id, self.state) as journal,
            self.power.topics(plan.cluster_id) as topics,
        ):
            settings = BackupSettings(self.back_up.store)
            made, access = self.back_up, self.back_up.access
            run = BackupRun(made.client, made.spark, access, settings, Meter(tell))
            visited = Visited(topics, created)
            work = RestoreRun(run, visited, journal, plan.cluster_id, RestoreSettings(**how))
            (done,) = restore(work, plan)
        return done

    def exists(self, topic: str) -> bool:
        """Whether there is such a topic."""
        return bool(self.back_up.client.partitions((topic,), self.deadline))

    @property
    def deadline(self) -> Deadline:
        return Deadline.after(SECONDS)

    def topic(self, topic: str, target: str, **options: Any) -> TopicRestored:
        """Restore one topic, which must succeed and be the same."""
        done = self(self.plan(topic, target, **options))
        assert done.error == ""
        assert done.verified is True
        return done
