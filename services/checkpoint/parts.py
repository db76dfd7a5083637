"""What takes checkpoints and what finishes them, put together for one cluster and one store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.finishing import SIDE_BY_SIDE, Finisher
from breakglass.services.checkpoint.kafka.topics import KafkaTopics, WantedCheckpoint
from breakglass.services.checkpoint.node_lock import alone
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.state_folder import state_folder
from breakglass.services.topic_backup.manifest import tool_version

if TYPE_CHECKING:
    from breakglass.services.kafka.marker_client import MarkerClient
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.session import ReadAccess

MASTER = "local[*,4]"
DRAIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CopySettings:
    """How checkpoints are taken and copied."""

    node: int = 0
    """The number of this machine among those that copy."""
    drain_seconds: float = DRAIN_SECONDS
    """For groups to process what is in a checkpoint."""
    rate: float | None = None
    """Bytes per second, at most; None: as fast as it goes."""
    master: str = MASTER
    """Where Spark runs, which is started for large logs only."""


def coordinator_of(
    client: ReadClient,
    markers: MarkerClient | None,
    store: BackupStore,
    wanted: WantedCheckpoint,
    how: CopySettings,
) -> Coordinator:
    """Takes checkpoints of what is *wanted*; coordinated ones with *markers* alone."""
    topics = KafkaTopics(client, markers, wanted)
    return Coordinator(store, topics, node=how.node, tool_version=tool_version())


@contextmanager
def finisher_of(
    access: ReadAccess,
    client: ReadClient,
    store: BackupStore,
    wanted: WantedCheckpoint,
    how: CopySettings,
) -> Iterator[Finisher]:
    """Decides and copies, until the end of the block."""
    from breakglass.services.checkpoint.kafka.deciding import Decider
    from breakglass.services.checkpoint.spark.lineages import SparkLineages
    from breakglass.services.checkpoint.spark.sources import KafkaSources
    from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from breakglass.services.pipeline.session import BEHIND_OTHERS, Spark
    from breakglass.services.topic_backup.store.store import open_store

    version = tool_version()
    # Who names a rate copies beside live traffic.
    niceness = 0 if how.rate is None else BEHIND_OTHERS
    with Spark(how.master, niceness=niceness) as spark:
        settings = BackupSettings(open_store(store.address), bytes_per_second=how.rate)
        run = BackupRun(client, spark, access, settings, Meter(lambda _: None))
        yield Finisher(
            store,
            Decider(
                client,
                how.drain_seconds,
                control_topic=wanted.control_topic,
                read_lineages=SparkLineages(run),
            ),
            KafkaSources(run, wanted.control_topic, version),
            how.node,
            version,
            # A rate is that of one copy.
            side_by_side=SIDE_BY_SIDE if how.rate is None else 1,
            alone=partial(alone, store.address, how.node, state_folder() / "locks"),
        )
