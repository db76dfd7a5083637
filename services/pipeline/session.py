"""One Spark session for everything a command does: where it runs, and how it is set up."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from services.errors import PipelineError
from services.extras import missing
from services.pipeline.class_archive import ClassArchive, class_archive
from services.pipeline.jars import kafka_jars
from services.pipeline.java import NICENESS, find_java, java_home
from services.rights import make_folders, open_new
from services.state_folder import state_folder
from services.topic_backup.folder import storage_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[*,4]"
"""Every core of this machine, and four attempts of a task: `local[*]` would have one."""
LOOPBACK = "127.0.0.1"
BEHIND_OTHERS = 10
"""The niceness of what is to leave the machine to brokers and clients that run on it, too."""
STDERR = 2
"""The file descriptor, which every process started here inherits."""

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    # What tasks are given has secrets in it: as a broadcast it would be written to a file.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
    # Nobody looks at what is over: a thousand plans would stay in memory, of a run without an end.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
}
LEAN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""No record passes the driver's JVM: compiling once, and one thread for garbage, are enough."""
KEPT_LOGS = 20
"""Runs whose logs stay."""
LOGGING = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.append = false
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""


class Spark:
    """A session that is started when it is first asked for, and ended with the block."""

    def __init__(
        self,
        master: str = MASTER,
        settings: Mapping[str, str] | None = None,
        log: Path | None = None,
        niceness: int = 0,
    ) -> None:
        """Choose where it runs; *settings* are Spark's own, and win. *log* is its driver's.

        *niceness* is that of its JVM and Python workers on this machine.
        """
        self._master = master
        self._niceness = niceness
        self._settings = settings or {}
        self._log = log
        self._session: SparkSession | None = None
        self._starting = threading.Lock()
        self._shared = False
        """Whether it was there before, and is somebody else's to end."""
        self.seconds_to_start = 0.0
        """How long starting took; 0 before."""

    def __enter__(self) -> Spark:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None and not self._shared:
            _stop(self._session)

    def session(self) -> SparkSession:
        """The session, which is the same for every thread.

        Raises:
            PipelineError: Spark, Java or the jars are missing, or it does not start.
        """
        with self._starting:
            if self._session is None:
                began, self._shared = time.monotonic(), _running()
                log = self._log or log_file()
                self._session = _start(self._master, self._settings, log, self._niceness)
                self.seconds_to_start = time.monotonic() - began
            return self._session


@contextmanager
def jvm_errors(doing: str) -> Iterator[None]:
    """Let what fails within for want of the JVM fail with a PipelineError that says so."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise PipelineError(
            f"{doing}: Spark's JVM does not answer, perhaps it was killed for want of memory; see "
            "the system's log, then run it again."
        ) from error


def _running() -> bool:
    """Whether this process has a session of Spark, which is what it would be given again."""
    try:
        from pyspark import SparkContext
    except ImportError:
        return False
    return SparkContext._active_spark_context is not None


def _start(master: str, settings: Mapping[str, str], log: Path, niceness: int) -> SparkSession:
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise missing("pipeline", str(error.name)) from None
    builder = SparkSession.builder.master(master).appName("breakglass")
    java, jars = find_java(), list(map(str, kafka_jars()))
    archive = _class_archive(java, jars)
    given = {**SETTINGS, **_here_or_elsewhere(master, jars)}
    given["spark.driver.extraJavaOptions"] = _java_options(log, archive)
    for key, value in {**given, **settings}.items():
        builder = builder.config(key, value)
    try:
        local = master.startswith("local")
        with (
            _environment(_wanted(java_home(java), niceness, local=local)),
            _stderr_to(log.with_suffix(".err")),
            _interrupts_as_before(),
        ):
            session = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise PipelineError(
            f"Spark does not start on {master} ({error}): check that address, and that "
            "`java -version` works."
        ) from error
    jvm = session.sparkContext._jvm
    if jvm is not None:
        archive.note(str(jvm.System.getProperty("java.class.path")))
    return session


def _class_archive(java: Path, jars: Sequence[str]) -> ClassArchive:
    """For Spark's classes of this installation, with the jars that go with them."""
    import pyspark

    depends = (str(pyspark.__file__), pyspark.__version__, *jars)
    return class_archive(java, depends, user_cache_path("breakglass") / "spark")


def _here_or_elsewhere(master: str, jars: Sequence[str]) -> dict[str, str]:
    """What depends on whether all of Spark is one JVM of this machine.

    Its class path is quicker than jars that are handed out. And only here Breakglass is known to
    be where Python finds it: workers elsewhere may be sent it, but their daemon is not.
    """
    if master == "local" or master.startswith("local["):
        return {
            "spark.driver.extraClassPath": os.pathsep.join(jars),
            "spark.python.daemon.module": "services.pipeline.daemon",
        }
    return {"spark.jars": ",".join(jars)}


def _stop(session: SparkSession) -> None:
    """End *session*, also when its JVM is gone already."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, ConnectionError):
        session.stop()


def log_file() -> Path:
    """Where Spark's driver of this run logs, warnings and worse: no two runs share a file."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return state_folder() / "spark" / f"{stamp}-{os.getpid()}.log"


def _make_room(folder: Path) -> None:
    """Remove the logs of old runs."""
    with suppress(OSError):
        old = sorted(folder.glob("*.log"))[: -KEPT_LOGS + 1]
        for log in old:
            for suffix in (".log", ".err", ".properties"):
                log.with_suffix(suffix).unlink(missing_ok=True)


def _java_options(log: Path, archive: ClassArchive) -> str:
    """Options of the driver's JVM, which otherwise logs to stderr."""
    configuration = log.with_suffix(".properties")
    with storage_errors(str(log.parent)):
        make_folders(log.parent)
        _make_room(log.parent)
        for path, content in ((configuration, LOGGING.format(log=log)), (log, "")):
            with open(path, "w", encoding="utf-8", opener=open_new) as file:
                file.write(content)
    logging = f"-Dlog4j2.configurationFile=file:{configuration}"
    return " ".join(f'"{option}"' for option in (*LEAN, *archive.options, logging))


def _wanted(java: Path, niceness: int, *, local: bool) -> dict[str, str]:
    """What the JVM and the Python workers are to find in their environment."""
    found = {"JAVA_HOME": str(java), "PYSPARK_PYTHON": sys.executable, NICENESS: str(niceness)}
    return {**found, "SPARK_LOCAL_IP": LOOPBACK} if local else found


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Let what is started meanwhile find *wanted* in its environment."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Let what is started meanwhile keep *path* as its stderr: workers write tracebacks there."""
    sys.stderr.flush()
    ours = os.dup(STDERR)
    try:
        with open(path, "wb", opener=open_new) as file:
            os.dup2(file.fileno(), STDERR)
        yield
    finally:
        os.dup2(ours, STDERR)
        os.close(ours)


@contextmanager
def _interrupts_as_before() -> Iterator[None]:
    """Take Spark's own handler of Ctrl-C away: what it means is for the command to say."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
