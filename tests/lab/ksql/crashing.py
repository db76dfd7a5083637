"""A restore that is killed before its n-th operation on the cluster or its files, or not at all.

`python -m tests.lab.ksql.crashing BOOTSTRAP SERVICE FILE FOLDER POINT` kills itself with
SIGKILL there. The operations are enumerated: every call that reaches a broker with a consequence,
and the snapshot.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import breakglass.services.metastore.restore.execution as execution
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.admin_client import TopicClient
from breakglass.services.metastore.log.writer import Transactions
from breakglass.services.metastore.restore.execution import RestoredMetastore, RestoreWork, restore
from breakglass.services.metastore.restore.plan import Skips, make_plan, read_source
from breakglass.services.metastore.settings import MetastoreSettings
from breakglass.services.metastore.topic import TopicReader
from breakglass.services.session import Power, ReadAccess

OPERATIONS: tuple[tuple[Any, str], ...] = (
    (Transactions, "init"),
    (Transactions, "begin"),
    (Transactions, "send"),
    (Transactions, "abort"),
    (Transactions, "commit"),
    (TopicClient, "delete"),
    (TopicClient, "create"),
    (TopicReader, "__init__"),
    (execution, "run_backup"),
)
"""Before each of these it can end, and after the last."""


class Countdown:
    """Counts operations, and ends the process before the one that is wanted."""

    def __init__(self, point: int) -> None:
        self._point = point
        self.seen = 0

    def before(self, act: Callable[..., Any]) -> Callable[..., Any]:
        """*act*, counted."""

        def counted(*words: Any, **named: Any) -> Any:
            self.seen += 1
            if self.seen == self._point:
                os.kill(os.getpid(), signal.SIGKILL)
            return act(*words, **named)

        return counted


def restore_here(bootstrap: str, service: str, file: Path, folder: Path) -> RestoredMetastore:
    """What `ksql restore` does once it was agreed to."""
    options = ConnectionOptions(bootstrap_server=bootstrap)
    access = ReadAccess(connection_settings(options, {}))
    snapshots = folder / "snapshots"
    snapshots.mkdir(parents=True, exist_ok=True)
    source = read_source(file, Skips())
    with access.reading() as client:
        plan = make_plan(client, MetastoreSettings(service), source)
        with (
            Journal.open(plan.cluster_id, folder) as journal,
            Power(access).command_topic(plan.cluster_id) as topics,
            Power(access).records(plan.cluster_id) as records,
        ):
            work = RestoreWork(access, client, topics, records, journal, snapshots, lambda _: None)
            return restore(work, plan)


def main() -> None:
    """Run it, and print how many operations there were."""
    bootstrap, service, file, folder, point = sys.argv[1:]
    countdown = Countdown(int(point))
    restored = None
    for owner, name in OPERATIONS:
        setattr(owner, name, countdown.before(getattr(owner, name)))
    restored = restore_here(bootstrap, service, Path(file), Path(folder))
    print(countdown.seen, restored.verified)


if __name__ == "__main__":
    main()
