"""Builds what takes and what finishes checkpoints, for one cluster and one store.

One worker of a node at a time copies a checkpoint: two would replace each other's files. A node is
one machine, so a file lock is enough, which the operating system releases when its process ends.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.checkpoint.coordinator import SIDE_BY_SIDE, Coordinator, Finisher
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.promises import CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.errors import StorageError
from breakglass.services.file_lock import lock, open_lock_file, unlock
from breakglass.services.guard.lock import private_folder
from breakglass.services.state_folder import state_folder
from breakglass.services.topic_backup.manifest import tool_version
from breakglass.services.topic_backup.store.store import local_path, open_store

if TYPE_CHECKING:
    from breakglass.services.kafka.marker_client import MarkerClient
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.session import ReadAccess


@contextmanager
def alone(address: str, node: int, folder: Path, id: int) -> Iterator[None]:
    """Exclude other workers of *node* from checkpoint *id* of the store at *address* for the block.

    Excludes workers that use the same *folder*, in other threads and in other processes.

    Raises:
        AlreadyRunning: another worker has the lock.
        StorageError: the lock file cannot be used.
    """
    # Tells stores apart, in whatever form their path is written.
    local = local_path(address)
    place = address if local is None else str(local.resolve())
    digest = hashlib.sha256(place.encode()).hexdigest()[:16]
    path = private_folder(folder) / f"checkpoint-{digest}-{node}-{id}.lock"
    busy = (
        f"node {node} is at work on checkpoint {id}, in another process: wait until that has "
        f"ended; `breakglass checkpoint show {id}` says how far it is."
    )
    descriptor = _locked(path, busy)
    try:
        yield
    finally:
        # Removed under the lock: a process that opened the file earlier sees that its name is gone.
        path.unlink(missing_ok=True)
        unlock(descriptor)


def _locked(path: Path, busy: str) -> int:
    """The descriptor of a locked file that still has the name *path*."""

    def unusable(reason: str) -> str:
        return f"lock file {path} cannot be used ({reason}): check its rights, or remove it"

    while True:
        try:
            descriptor = open_lock_file(path)
        except OSError as error:
            raise StorageError(unusable(str(error.strerror))) from error
        try:
            lock(descriptor, lambda: busy, unusable)
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(descriptor)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def coordinator_of(
    client: ReadClient,
    markers: MarkerClient | None,
    store: BackupStore,
    wanted: WantedCheckpoint,
    prepare: Callable[[str], object] = lambda _: None,
) -> Coordinator:
    """The coordinator of the *wanted* checkpoints; coordinated checkpoints require *markers*.

    *prepare*: see `Coordinator`.
    """
    topics, node = KafkaTopics(client, markers, wanted), wanted.how.node
    return Coordinator(store, topics, node=node, tool_version=tool_version(), prepare=prepare)


@contextmanager
def finisher_of(
    access: ReadAccess,
    client: ReadClient,
    store: BackupStore,
    how: CopySettings,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Finisher]:
    """The finisher that decides and copies, until the end of the block; *wait*: see `Finisher`."""
    from breakglass.services.checkpoint.kafka.deciding import Decider
    from breakglass.services.checkpoint.spark.logs import read_contents, read_lineages
    from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
    from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
    from breakglass.services.pipeline.session import BEHIND_OTHERS, Spark

    version = tool_version()
    # A rate limit means that the copy shares the brokers with live traffic.
    niceness = 0 if how.rate is None else BEHIND_OTHERS
    with Spark(how.master, niceness=niceness) as spark:
        settings = BackupSettings(open_store(store.address), bytes_per_second=how.rate)
        run = BackupRun(client, spark, access, settings, Meter(lambda _: None))
        yield Finisher(
            store,
            Decider(
                client,
                how.drain_seconds,
                wait,
                control_topic=how.control_topic,
                read_lineages=partial(read_lineages, run),
                read_contents=partial(read_contents, run),
            ),
            KafkaSources(run, how.control_topic, version),
            how.node,
            version,
            # The rate limits each copy by itself.
            side_by_side=SIDE_BY_SIDE if how.rate is None else 1,
            wait=wait,
            alone=partial(alone, store.address, how.node, state_folder() / "locks"),
        )
