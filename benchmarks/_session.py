"""A session of ours in a process of its own, told job after job: the first finds a cold JVM.

``python -m benchmarks._session BOOTSTRAP`` is the process: jobs come in as lines of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks._measure import Peak, spent
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup import back_up
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.restore.options import RestoreOptions, RestoreSettings
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


@dataclass(frozen=True, slots=True)
class Job:
    """One job that was done."""

    records: int
    seconds: float
    """As our own report has them."""
    cpu: Mapping[str, float]
    """Seconds of processor time by role."""
    peak: Mapping[str, float]
    """Megabytes by role."""

    def costs(self) -> str:
        """In words, for a line of figures."""
        return f"{self.seconds:.1f} s; cpu {_by_role(self.cpu, '.1f')} s"

    def memory(self) -> str:
        """In words, too."""
        return f"at most {_by_role(self.peak, '.0f')} MB"


def _by_role(figures: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{role} {figure:{form}}" for role, figure in figures.items())


class Session:
    """The process, from this side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def back_up(self, topic: str, folder: Path) -> Job:
        """Copy *topic* into *folder*, which is empty."""
        return self._ask(do="backup", topic=topic, folder=str(folder))

    def verify(self, topic: str, folder: Path) -> Job:
        """Compare the copy in *folder* with its *topic*, which must be the same."""
        return self._ask(do="verify", topic=topic, folder=str(folder))

    def restore(self, topic: str, folder: Path, target: str, state: Path) -> Job:
        """Make the topic *target* of the copy in *folder*; *state* keeps how far it is."""
        where = {"folder": str(folder), "target": target, "state": str(state)}
        return self._ask(do="restore", topic=topic, **where)

    def _ask(self, **job: str) -> Job:
        driver = psutil.Process(self._process.pid)
        assert self._process.stdin
        assert self._process.stdout
        before = spent(driver)
        with Peak(driver) as peak:
            print(json.dumps(job), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the session ended with {self._process.wait()}")
        cpu = {role: seconds - before[role] for role, seconds in spent(driver).items()}
        told = json.loads(answer)
        return Job(told["records"], told["seconds"], cpu, peak.megabytes)


@contextmanager
def session(bootstrap: str) -> Iterator[Session]:
    """A session that has started, Spark included."""
    command = [sys.executable, "-m", "benchmarks._session", bootstrap]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        if not process.stdout.readline():
            raise RuntimeError(f"the session did not start: it ended with {process.wait()}")
        yield Session(process)
        assert process.stdin
        process.stdin.close()


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
            (done,) = restore(
                RestoreRun(run, topics, journal, plan.cluster_id, RestoreSettings(verify=False)),
                plan,
            )
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
