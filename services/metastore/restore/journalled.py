"""A restore with its journal: what was agreed to, what was asked for, how it ended."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.connection.security import confluent_config
from breakglass.services.guard.journal import Journal
from breakglass.services.metastore.private_files import private_folder
from breakglass.services.metastore.restore.execution import RestoredMetastore, RestoreWork, restore
from breakglass.services.metastore.restore.plan import MetastoreRestorePlan
from breakglass.services.metastore.restore.writing import TellStep
from breakglass.services.session import Power


def restore_with_journal(
    power: Power,
    plan: MetastoreRestorePlan,
    snapshots: Path,
    tell: TellStep,
    state_folder: Path | None = None,
) -> RestoredMetastore:
    """Carry out *plan*, which was agreed to; *tell* hears each step.

    Raises: as `restore`; AlreadyRunning where something else changes the cluster from here.
    """
    access = power.access
    private_folder(snapshots)
    with (
        Journal.open(plan.cluster_id, state_folder) as journal,
        access.reading() as client,
        power.command_topic(plan.cluster_id) as topics,
    ):
        clients = confluent_config(access.settings)
        work = RestoreWork(access, client, topics, clients, journal, snapshots, tell)
        journal.consent(plan.phrase)
        tell(f"journal: {journal.path}")
        done = restore(work, plan)
        journal.finish("succeeded" if done.verified else "differs")
        return done
