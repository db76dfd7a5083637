"""A standalone cluster of Spark on loopback: a master and two workers, processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from secrets import token_hex
from types import TracebackType

import psutil
import pyspark

from breakglass.services.lab.layout import free_ports
from breakglass.services.pipeline.java import find_java, java_home
from tests.kit.waiting import wait_until

LOOPBACK = "127.0.0.1"
WORKERS = {1: LOOPBACK, 2: "127.0.0.2"}
"""Hosts of their own: a second attempt of a task never begins where the first one runs."""
DEPLOY = "org.apache.spark.deploy"


class SparkCluster:
    """Entered, it runs; at the end everything that it started is gone."""

    def __init__(self, folder: Path) -> None:
        """Choose where it listens; logs and work go to *folder*, which is there."""
        self._folder = folder
        self._port, self._web = free_ports(2)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._workers = 0
        self.login = (
            f"spark.authenticate true\nspark.authenticate.secret {token_hex()}\n"
            "spark.network.crypto.enabled true\n"
        )
        """Of master, workers and drivers, in spark-defaults.conf."""
        self._configured = folder / "spark-conf"
        self._configured.mkdir()
        (self._configured / "spark-defaults.conf").write_text(self.login)
        self.master = f"spark://{LOOPBACK}:{self._port}"

    def __enter__(self) -> SparkCluster:
        where = ["--host", LOOPBACK, "--port", str(self._port), "--webui-port", str(self._web)]
        try:
            self._start("master", f"{DEPLOY}.master.Master", *where)
            self.start_worker(1)
            self.start_worker(2)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def environment(self) -> dict[str, str]:
        """What a driver on this machine needs to be reached by the workers."""
        # Code is not compiled well for what is killed soon.
        java = "-XX:TieredStopAtLevel=1"
        own = {"SPARK_CONF_DIR": str(self._configured)}
        return {**own, **os.environ, "SPARK_LOCAL_IP": LOOPBACK, "JAVA_TOOL_OPTIONS": java}

    def start_worker(self, number: int) -> None:
        """Start worker 1 or 2; back when the master knows it."""
        given = ["--host", WORKERS[number], "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        given += ["--work-dir", str(self._folder / f"work-{number}"), self.master]
        name = f"worker-{number}"
        self._start(name, f"{DEPLOY}.worker.Worker", *given, host=WORKERS[number])
        self._workers += 1
        log = self._folder / "master.log"

        def registered() -> bool:
            return log.read_text().count("Registering worker") >= self._workers

        wait_until(registered, "the workers to register", instead=log.read_text)

    def kill_worker(self, number: int) -> None:
        """SIGKILL for a worker and all that runs on it, as when its machine is lost."""
        process = self._processes.pop(f"worker-{number}")
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        _kill(process)

    def _start(self, name: str, *words: str, host: str = LOOPBACK) -> None:
        """A process in a group of its own."""
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        java = {"JAVA_HOME": str(java_home(find_java())), "PYSPARK_PYTHON": sys.executable}
        with (self._folder / f"{name}.log").open("a") as log:
            self._processes[name] = subprocess.Popen(
                [str(spark_class), *words],
                stdout=log,
                stderr=log,
                env={
                    **self.environment,
                    **java,
                    "SPARK_LOCAL_IP": host,
                    "SPARK_CONF_DIR": str(self._configured),
                },
                start_new_session=True,
            )

    def _end(self) -> None:
        for process in self._processes.values():
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
