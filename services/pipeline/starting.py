"""Starts Spark: its JVM directly if all of Spark is on this machine, else by Spark's scripts."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from breakglass.services.errors import PipelineError
from breakglass.services.extras import missing
from breakglass.services.pipeline.gateway import (
    Gateway,
    Launch,
    errors_file,
    logging_option,
    scripted,
)
from breakglass.services.pipeline.java import (
    NICENESS,
    ClassArchive,
    class_archive,
    find_java,
    java_home,
)
from breakglass.services.rights import open_new

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

LOOPBACK = "127.0.0.1"
STDERR = 2
"""The file descriptor that every child process inherits."""

MEBIBYTE = 2**20
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    # Functions of tasks contain secrets: a broadcast would write them to a file.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
    # Workers keep the memory of a fetch for the next fetch: a fresh page costs as much as
    # copying its bytes.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 * MEBIBYTE),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 * MEBIBYTE),
    # A continuous run would otherwise keep a thousand finished plans in memory.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}
LEAN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""No record passes the driver's JVM, so one compiler tier and one collector thread are enough."""


@dataclass(frozen=True, slots=True)
class WantedSpark:
    """Where and how Spark runs."""

    master: str
    settings: Mapping[str, str]
    """Spark's own settings, which override ours."""
    log: Path
    niceness: int
    """The niceness of the JVM and of Python workers on this machine."""

    @property
    def local(self) -> bool:
        """Whether all of Spark is on this machine, in one JVM or several."""
        return self.master.startswith("local")

    @property
    def one_jvm(self) -> bool:
        """Whether all of Spark is one JVM of this machine."""
        return self.master == "local" or self.master.startswith("local[")

    def environment(self, java: Path) -> dict[str, str]:
        """The environment variables for the JVM and the Python workers."""
        found = {"PYSPARK_PYTHON": sys.executable, NICENESS: str(self.niceness)}
        found["JAVA_HOME"] = str(java)
        return {**found, "SPARK_LOCAL_IP": LOOPBACK} if self.local else found


def start(wanted: WantedSpark, begun: Callable[[Gateway], None]) -> SparkContext:
    """Start Spark; *begun* gets the JVM at once, so that it can be killed before it listens.

    Raises:
        MissingExtra: the extra ``pipeline`` is not installed.
        PipelineError: Java is missing, or Spark does not start.
    """
    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            raise missing("pipeline", package)
    java = find_java()
    environment = wanted.environment(java_home(java))
    directly = wanted.one_jvm and not scripted(os.environ) and not _jvm_there()
    class_path = _class_path()
    archive = _class_archive(java, class_path, "directly" if directly else "by scripts")
    options = (*LEAN, *archive.options, logging_option(wanted.log))
    with _environment(environment):
        if not directly:
            return _by_scripts(wanted, archive, options)
        launch = Launch(
            java_home(java) / "bin" / "java",
            class_path,
            wanted.settings.get("spark.driver.memory", "1g"),
            options,
            environment,
            errors_file(wanted.log),
        )
        return _directly(wanted, launch, archive, begun)


def _directly(
    wanted: WantedSpark, launch: Launch, archive: ClassArchive, begun: Callable[[Gateway], None]
) -> SparkContext:
    gateway = Gateway(launch)
    begun(gateway)
    # Importing PySpark takes as long as the JVM takes to listen.
    conf = _conf(wanted, {})
    with _environment(gateway.environment()):
        context = _context(wanted, conf)
    # PySpark keeps the process, as it does with a JVM that it starts itself.
    context._gateway.proc = gateway.process  # type: ignore[union-attr]
    _note(archive, context)
    return context


def _by_scripts(wanted: WantedSpark, archive: ClassArchive, options: Sequence[str]) -> SparkContext:
    quoted = " ".join(f'"{option}"' for option in options)
    conf = _conf(wanted, {"spark.driver.extraJavaOptions": quoted})
    with _stderr_to(errors_file(wanted.log)), _interrupts_as_before():
        context = _context(wanted, conf)
    _note(archive, context)
    return context


def _conf(wanted: WantedSpark, given: Mapping[str, str]) -> SparkConf:
    """All settings; our daemon module is set only if all workers run on this machine.

    Workers on other machines cannot import Breakglass when their daemon starts.
    """
    from pyspark import SparkConf

    settings = {**SETTINGS, **given}
    if wanted.one_jvm:
        settings["spark.python.daemon.module"] = "breakglass.services.pipeline.daemon"
    conf = SparkConf().setMaster(wanted.master).setAppName("breakglass")
    return conf.setAll(list({**settings, **wanted.settings}.items()))


def _context(wanted: WantedSpark, conf: SparkConf) -> SparkContext:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    _without_pandas()
    # py4j writes a traceback to the root logger for each lost connection, before it raises what is
    # reported here; also for a JVM that is killed because its command ended without a job.
    logging.getLogger().addFilter(_not_by_py4j)
    try:
        return SparkContext.getOrCreate(conf)
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise PipelineError(
            f"Spark does not start on {wanted.master} ({error}): check that address, and that "
            "`java -version` works."
        ) from error


def _not_by_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _without_pandas() -> None:
    """Remove the converter for NumPy arrays from calls of the JVM: it alone imports pandas."""
    from py4j import protocol
    from pyspark.sql.types import NumpyArrayConverter

    kept = [
        converter
        for converter in protocol.INPUT_CONVERTER
        if not isinstance(converter, NumpyArrayConverter)
    ]
    protocol.INPUT_CONVERTER[:] = kept


def _jvm_there() -> bool:
    """Whether PySpark already has a JVM, which it would use again."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def forget_jvm() -> None:
    """Make PySpark start a new JVM the next time: its JVM is gone."""
    from pyspark import SparkContext

    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


def _class_path() -> str:
    """The class path that Spark's launcher builds."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    home = Path(spark.origin).parent
    return os.pathsep.join([str(home / "conf"), str(home / "jars" / "*")])


def _class_archive(java: Path, *depends: str) -> ClassArchive:
    """The archive of the classes of the installed Spark, for these further dependencies."""
    return class_archive(
        java, (version("pyspark"), *depends), user_cache_path("breakglass") / "spark"
    )


def _note(archive: ClassArchive, context: SparkContext) -> None:
    jvm = context._jvm
    if jvm is not None:
        archive.note(str(jvm.System.getProperty("java.class.path")))


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set *wanted* in the environment within the block."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect stderr to *path* for processes that the block starts."""
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
    """Restore the handler of Ctrl-C that Spark replaces: the command handles Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
