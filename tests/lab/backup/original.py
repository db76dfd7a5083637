"""Kafka Backup itself, as its users run it: its connectors in Connect's own standalone worker.

Its sources are in tests/golden/kafka_backup, unchanged; Connect comes with Kafka's tools.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import Distribution, distribution
from breakglass.services.lab.maven import maven_context
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.unit.topic_backup.golden import GOLDEN

SOURCES = GOLDEN.parent / "kafka_backup" / "src" / "main" / "java"
COMPILER = "org.eclipse.jdt:ecj:3.38.0"
ANNOTATED = """\
package edu.umd.cs.findbugs.annotations;
public @interface SuppressFBWarnings {
    String[] value() default {};
    String justification() default "";
}
"""
"""Of a checker of code that the original is built with, and nothing runs."""
WORKER = "org.apache.kafka.connect.cli.ConnectStandalone"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CLIENT_BYTES = "org.apache.kafka.common.serialization.ByteArray"
END_SECONDS = DEADLINE_SECONDS
TOO_SOON = '"this.endOffsets" is null'
"""A snapshot's task dies if Connect calls its `put`, without records, before its `open`
(BackupSinkTask.java, terminateIfCompleted): on a busy machine its group takes long to form."""
TRIES = 5


def fetched(*coordinates: str) -> tuple[Path, ...]:
    """The jars of these *coordinates*, from the cache, or fetched now where one is missing."""
    context = maven_context()
    found = []
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        component = context.project(group, artifact).at_version(version)
        found.append(Path(component.artifact().resolve()))
    return tuple(found)


def compiled(target: Path, *more: Path) -> Original:
    """Kafka Backup's classes, and those of *more* sources, in the folder *target*."""
    kafka = distribution()
    annotation = target / "edu/umd/cs/findbugs/annotations/SuppressFBWarnings.java"
    annotation.parent.mkdir(parents=True)
    annotation.write_text(ANNOTATED, encoding="utf-8")
    (compiler,) = fetched(COMPILER)
    options = ["-17", "-nowarn", "-proc:none", "-cp", kafka.classpath, "-d", str(target)]
    files = map(str, [annotation, *SOURCES.rglob("*.java"), *more])
    subprocess.run([str(kafka.java), "-jar", str(compiler), *options, *files], check=True)
    return Original(kafka, target)


@dataclass(frozen=True, slots=True)
class Original:
    """Kafka Backup, compiled."""

    kafka: Distribution
    classes: Path

    @property
    def classpath(self) -> str:
        """Value of ``java -cp``."""
        return os.pathsep.join((str(self.classes), self.kafka.classpath))

    def back_up(self, broker: Cluster, target: Path, *topics: str) -> str:
        """A snapshot of *topics* to *target*; what the worker logged until it ended by itself."""
        connector = {
            "connector.class": "de.azapps.kafkabackup.sink.BackupSinkConnector",
            "topics": ",".join(topics),
            "target.dir": str(target),
            "max.segment.size.bytes": "4000",
            "snapshot": "true",
            "cluster.bootstrap.servers": broker.bootstrap_servers,
        }
        for _ in range(TRIES):
            with self._worker(broker, connector) as worker:
                wait_until(lambda: worker.ended or TOO_SOON in worker.said, "its end")
                if TOO_SOON not in worker.said:
                    assert worker.wait(END_SECONDS) == 0, worker.said
                    return worker.said
        raise AssertionError(f"{TRIES} tasks were given no partition before their first put")

    def restore(self, broker: Cluster, source: Path, done: Callable[[], bool], *topics: str) -> str:
        """Restore *topics* from *source* until it is *done*; what the worker logged."""
        connector = {
            "connector.class": "de.azapps.kafkabackup.source.BackupSourceConnector",
            "topics": ",".join(topics),
            "source.dir": str(source),
            "batch.size": "10",
            "cluster.bootstrap.servers": broker.bootstrap_servers,
            "cluster.key.deserializer": f"{CLIENT_BYTES}Deserializer",
            "cluster.value.deserializer": f"{CLIENT_BYTES}Deserializer",
        }
        with self._worker(broker, connector) as worker:
            wait_until(lambda: done() or worker.failed, "the restore", instead=worker.log.read_text)
            log = worker.log.read_text(encoding="utf-8")
            assert not worker.failed, log
        return log

    def _worker(self, broker: Cluster, connector: Mapping[str, str]) -> Worker:
        folder = self.classes / f"worker-{len(list(self.classes.glob('worker-*')))}"
        folder.mkdir()
        worker = {
            "bootstrap.servers": broker.bootstrap_servers,
            "key.converter": BYTES,
            "value.converter": BYTES,
            "listeners": "http://127.0.0.1:0",
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "consumer.auto.offset.reset": "earliest",
            "consumer.session.timeout.ms": "6000",
            "plugin.discovery": "only_scan",
        }
        converters = {f"{name}.converter": BYTES for name in ("key", "value", "header")}
        task = {"name": folder.name, "tasks.max": "1", **converters, **connector}
        files = [
            properties(folder / f"{name}.properties", settings)
            for name, settings in (("worker", worker), ("connector", task))
        ]
        java = [str(self.kafka.java), "-Xmx256m", "-cp", self.classpath]
        return Worker([*java, WORKER, *map(str, files)], folder)


def properties(file: Path, settings: Mapping[str, str]) -> Path:
    """*settings* written to *file*."""
    text = "".join(f"{name}={value}\n" for name, value in settings.items())
    file.write_text(text, encoding="utf-8")
    return file


class Worker:
    """A worker of Connect's; leaving the ``with`` block ends it."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)

    @property
    def said(self) -> str:
        """What it has logged."""
        return self.log.read_text(encoding="utf-8")

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def failed(self) -> bool:
        """It ended, or its task threw something."""
        return self.ended or "xception" in self.said

    def wait(self, seconds: float) -> int:
        """Its exit code, once it ended by itself.

        Raises:
            AssertionError: it did not end within *seconds*; its log is shown.
        """
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            log = self.log.read_text(encoding="utf-8")
            raise AssertionError(f"The worker did not end within {seconds:g} s: {log}") from None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
