"""Restores a checkpoint: topics, consumer groups, and the proof that both are complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from breakglass.services import patience
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.wording import (
    RestoreAsked,
    promise,
    settings_given,
    settings_told,
)
from breakglass.services.errors import Refused
from breakglass.services.guard.act import Act, ActStep, Ending, Front, Frozen, Means
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.lock import file_name
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.acts.restore import (
    destinations,
    ended,
    outcomes_of,
    restore_run,
    targets_of,
)
from breakglass.services.pipeline.restore.options import RestoreSettings
from breakglass.services.state_folder import state_folder
from breakglass.services.topic_backup.store.store import open_store

if TYPE_CHECKING:
    from breakglass.services.checkpoint.spark.restore import CheckpointPlan
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint
    from breakglass.services.pipeline.restore.restore import TopicRestored


@dataclass(frozen=True, slots=True)
class RestoreCheckpoint(Act["CheckpointPlan"]):
    """Restore checkpoint *id* of *store* into the requested topics."""

    doing: ClassVar[str] = "restoring a checkpoint"
    store: BackupStore
    id: int
    asked: RestoreAsked
    how: RestoreSettings = field(default_factory=RestoreSettings)
    progress: Path | None = None
    """Folder of restore progress; None: next to the journals."""
    elsewhere: bool = False
    """Only into another cluster than the checkpoint was taken of, which the consent names."""

    def freeze(self, front: Front) -> Frozen[CheckpointPlan]:
        """The target of each topic and group; every byte of the checkpoint is read.

        Raises:
            Refused: the checkpoint is gone, or cannot be restored; it is to be restored elsewhere,
                and the addresses lead to its own cluster.
        """
        from breakglass.services.checkpoint.spark.restore import make_plan

        found = self.store.read(self.id)
        if found is None:
            raise Refused(f"checkpoint {self.id} is gone: look at the list again.")
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.JOB)).cluster_id
            elsewhere = tuple(self._elsewhere(found, cluster_id))
            folder = self.progress or (
                (front.state_folder or state_folder()) / "restores" / file_name(cluster_id)
            )
            plan = make_plan(client, self.store, found, self.asked, folder)
        return Frozen(
            cluster_id,
            (ConsentPhrase(plan.phrase + f" of cluster {cluster_id}" * self.elsewhere),),
            (
                *elsewhere,
                ("Checkpoint", f"{self.id} of {self.store.address}"),
                ("Promise", promise(found)),
                ("Topics", "; ".join(destinations(plan.plan)) or "every one is restored already"),
                ("Groups", ", ".join(groups_in(plan)) or "none gets offsets"),
            ),
            tuple(targets_of(plan.plan)),
            tuple(line for given in settings_given(plan) for line in settings_told(given)),
            plan,
            plan.plan.source,
        )

    def _elsewhere(self, found: StoredCheckpoint, cluster_id: str) -> Iterator[tuple[str, str]]:
        """The evidence of which cluster it is. Raises Refused: it is the checkpoint's own."""
        if not self.elsewhere:
            return
        own = None if found.take is None else found.take.cluster_id
        if own == cluster_id:
            raise Refused(
                f"--to-bootstrap-server leads to cluster {cluster_id}, of which checkpoint "
                f"{found.id} was taken: name another cluster there, or restore into this one "
                "with --bootstrap-server"
            )
        yield "Cluster", f"{cluster_id}; the checkpoint was taken of {own or '?'}"

    def carry_out(self, front: Front, means: Means, frozen: Frozen[CheckpointPlan]) -> Ending:
        """Restore topics and groups; the ending's value is the list of `TopicRestored`."""
        from breakglass.services.checkpoint.spark.restore import restore

        plan, cluster_id = frozen.plan, frozen.cluster_id
        store = open_store(plan.copies[0].store.address)
        with (
            restore_run(front, means, cluster_id, store, self.how) as run,
            means.cluster.markers(cluster_id) as markers,
        ):
            done = restore(run, markers, plan, self.asked.control_topic)
        for topic in done:
            for outcome in outcomes_of(topic, plan.plan):
                front.tell(outcome)
            for line in topic.remarks():
                front.tell(ActStep(line))
        return replace(ended(done), text=how_it_ended(done, plan.earlier))


def groups_in(plan: CheckpointPlan) -> list[str]:
    """The groups whose offsets are restored."""
    by_partition = (groups for topic in plan.plan.topics for groups in topic.groups.values())
    return sorted({name for groups in by_partition for name in groups})


def how_it_ended(done: Sequence[TopicRestored], earlier: Sequence[str] = ()) -> str:
    """Whether members may be started, and what that rests on.

    *earlier* are topics that an earlier run restored.
    """
    torn = [topic.target for topic in done if not topic.complete]
    if not torn:
        notes = [] if all(topic.verified for topic in done) else ["not every topic was compared"]
        if earlier:
            notes.append(f"this run did not compare {', '.join(earlier)}, as an earlier run did")
        but = f", but {' and '.join(notes)}" if notes else ""
        return f"Restored completely{but}: members of the groups may be started."
    return (
        f"Not restored completely: {', '.join(torn)}. Start no members; follow each topic's "
        "advice, then run the restore again with --resume."
    )
