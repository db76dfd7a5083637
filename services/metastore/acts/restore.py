"""Restores a command topic: backs up, deletes and recreates the topic, and compares the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import SplitResult

from breakglass.services.guard.act import (
    SUCCEEDED,
    Act,
    ActStep,
    Armed,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import list_journals
from breakglass.services.metastore.private_files import private_folder
from breakglass.services.metastore.restore.execution import RestoreWork, restore
from breakglass.services.metastore.restore.plan import MetastoreRestorePlan, going_on, make_plan

if TYPE_CHECKING:
    from breakglass.services.metastore.restore.source import RestoreSource
    from breakglass.services.metastore.settings import MetastoreSettings

SNAPSHOTS = "before-restore"
"""The folder next to a backup for backups of replaced topics."""
DIFFERS = "differs"
"""How a journal records a topic that differs from the backup."""


@dataclass(frozen=True, slots=True)
class RestoreCommandTopic(Act[MetastoreRestorePlan]):
    """Replace the content of the command topic with *source*."""

    doing: ClassVar[str] = "restoring the command topic"
    read_source: Callable[[], RestoreSource]
    settings: MetastoreSettings
    snapshots: Path
    servers: tuple[SplitResult, ...] = ()
    """URLs of ksqlDB servers to ask whether they run."""

    def freeze(self, front: Front) -> Frozen[MetastoreRestorePlan]:
        source = self.read_source()
        with front.reading() as client:
            plan = make_plan(client, self.settings, source, self.servers)
        return frozen_plan(going_on(plan, list_journals(plan.cluster_id, front.state_folder)))

    def carry_out(self, front: Front, means: Means, frozen: Frozen[MetastoreRestorePlan]) -> Ending:
        """Replace the topic; the ending's value is the `RestoredMetastore`."""
        private_folder(self.snapshots)
        access, plan = front.cluster, frozen.plan
        front.tell(Armed())
        with (
            front.reading() as client,
            means.cluster.command_topic(plan.cluster_id) as topics,
            means.cluster.records(plan.cluster_id) as records,
        ):
            work = RestoreWork(
                access,
                client,
                topics,
                records,
                means.journal,
                self.snapshots,
                lambda step: front.tell(ActStep(step)),
            )
            done = restore(work, plan)
        text = f"{done.commands:,} commands restored, {done.state}"
        result = TargetResult.DONE if done.verified else TargetResult.FAILED
        front.tell(TargetOutcome(f"{plan.topic}-0", result, text))
        return Ending(SUCCEEDED if done.verified else DIFFERS, text, done)


def frozen_plan(plan: MetastoreRestorePlan) -> Frozen[MetastoreRestorePlan]:
    """*plan* as the user consents to it."""
    return Frozen(
        plan.cluster_id,
        () if plan.done else (ConsentPhrase(plan.phrase),),
        tuple(_facts(plan)),
        (f"{plan.topic}-0",),
        tuple(_remarks(plan)),
        plan,
    )


def _facts(plan: MetastoreRestorePlan) -> Iterator[tuple[str, str]]:
    source, present = plan.source, plan.present
    yield "Backup", f"{source.file}"
    yield "Commands", f"{len(source.commands):,}, offsets {source.offsets.value}"
    if plan.done:
        yield "Topic", f"{plan.topic} holds these very commands already: nothing is to be done"
    elif present is None:
        yield "Topic", plan.creation
    else:
        yield (
            "Topic",
            f"{plan.topic} holds {present.commands:,} commands and will be deleted; "
            f"{present.lost:,} of them are not in the backup",
        )


def _remarks(plan: MetastoreRestorePlan) -> Iterator[str]:
    if plan.shortage:
        yield plan.shortage
    for server in plan.servers.seen:
        yield f"a server seems to run: {server}"
    for unseen in plan.servers.unseen:
        yield f"? {unseen}"
