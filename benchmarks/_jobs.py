"""The process of a session of ours: jobs come in as lines of JSON, and answers go out.

``python -m benchmarks._jobs BOOTSTRAP``; see `benchmarks._session` for the other side.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup import back_up
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.restore.options import RestoreOptions
from breakglass.services.pipeline.restore.plan import make_plan
from breakglass.services.pipeline.restore.restore import RestoreRun, restore
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.pipeline.verify import verify_content
from breakglass.services.session import Power, ReadAccess
from breakglass.services.topic_backup.catalog import held_topics
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.store.store import LocalStore

ASK_SECONDS = 60.0

Done = tuple[int, float]
"""Records, and seconds as our own report has them."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Does one job after the other in one session of Spark."""

    settings: ConnectionSettings
    client: ReadClient
    spark: Spark

    def do(self, job: Mapping[str, str]) -> Done:
        """Do what *job* says, which has to succeed."""
        jobs: Mapping[str, Callable[[Mapping[str, str]], Done]] = {
            "backup": self._back_up,
            "verify": self._verify,
            "restore": self._restore,
        }
        return jobs[job["do"]](job)

    def _back_up(self, job: Mapping[str, str]) -> Done:
        report = back_up(self._run(job), WantedTopics((job["topic"],)))
        assert report.whole, report.topics
        return report.records, report.seconds

    def _verify(self, job: Mapping[str, str]) -> Done:
        place = LocalFolder(Path(job["folder"]) / job["topic"])
        manifest = read_manifest(place)
        assert manifest is not None
        found = verify_content(self._run(job), place, manifest, job["topic"])
        assert found.identical, found.partitions
        return found.equal, found.seconds

    def _restore(self, job: Mapping[str, str]) -> Done:
        """Without the comparison at its end, which is a figure of its own."""
        state = Path(job["state"])
        run = self._run(job)
        held = held_topics(run.settings.store, [job["topic"]])
        options = RestoreOptions(renamed={job["topic"]: job["target"]})
        plan = make_plan(self.client, held, options, state)
        cluster_id = self.client.describe(Deadline.after(ASK_SECONDS)).cluster_id
        with (
            Journal.open(cluster_id, state) as journal,
            Power(ReadAccess(self.settings)).topics(cluster_id) as topics,
        ):
            (done,) = restore(RestoreRun(run, topics, journal, plan.cluster_id, verify=False), plan)
        assert done.whole, done.error
        return done.records, done.seconds

    def _run(self, job: Mapping[str, str]) -> BackupRun:
        where = BackupSettings(LocalStore(Path(job["folder"])))
        access = ReadAccess(self.settings)
        return BackupRun(self.client, self.spark, access, where, Meter(lambda _: None))


def serve(bootstrap: str) -> None:
    """Start a session, say that it is there, and do the jobs that stdin names until it ends."""
    settings = connection_settings(ConnectionOptions(bootstrap_server=bootstrap), {})
    with Spark() as spark, ReadAccess(settings).reading() as client:
        spark.context()
        _tell({})
        worker = Worker(settings, client, spark)
        for line in sys.stdin:
            records, seconds = worker.do(json.loads(line))
            _tell({"records": records, "seconds": seconds})


def _tell(what: Mapping[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
