"""Spark for one command: prepared early, started once, stopped with the command."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from breakglass.services.errors import PipelineError, UsageError
from breakglass.services.extras import missing
from breakglass.services.pipeline.java import (
    NICENESS,
    ClassArchive,
    Gateway,
    Launch,
    class_archive,
    errors_file,
    find_java,
    java_home,
    log_file,
    logging_option,
    private_folder,
    scripted,
    to_check,
)
from breakglass.services.rights import open_new
from breakglass.services.words.inert import bounded_url

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

LOOPBACK = "127.0.0.1"
STDERR = 2
"""The file descriptor that every child process inherits."""

SHOWN = 100
"""Characters of an address in a message."""
MEBIBYTE = 2**20
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    # Functions of tasks contain secrets: a broadcast would write them to a file.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
    # Workers import nothing from the current folder, in which others may put files (python -P).
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    # Workers keep the memory of a fetch for the next fetch: a fresh page costs as much as
    # copying its bytes.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 * MEBIBYTE),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 * MEBIBYTE),
    # A continuous run would otherwise keep a thousand finished plans in memory.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}
LEAN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""No record passes the driver's JVM, so one compiler tier and one collector thread are enough.
Performance data would be a file in the shared temporary folder."""
LOGIN, ENCRYPTION = "spark.authenticate", "spark.network.crypto.enabled"
TLS = "spark.ssl.rpc.enabled"
"""Spark's own alternative to its AES encryption."""


@dataclass(frozen=True, slots=True)
class WantedSpark:
    """Where and how Spark runs."""

    master: str
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
    # PySpark uses a JVM again that it already has.
    pyspark = sys.modules.get("pyspark")
    jvm_there = pyspark is not None and pyspark.SparkContext._gateway is not None
    directly = wanted.one_jvm and not scripted(os.environ) and not jvm_there
    # The class path that Spark's launcher builds.
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    home = Path(spark.origin).parent
    class_path = os.pathsep.join([str(home / "conf"), str(home / "jars" / "*")])
    depends = version("pyspark"), class_path, "directly" if directly else "by scripts"
    archive = class_archive(java, depends, user_cache_path("breakglass") / "spark")
    private = f"-Djava.io.tmpdir={private_folder()}"
    options = (*LEAN, private, *archive.options, logging_option(wanted.log))
    # What the start makes is for its owner alone, PySpark's sockets too.
    before = os.umask(0o077)
    try:
        with _environment(environment):
            if not directly:
                quoted = " ".join(f'"{option}"' for option in options)
                conf = _conf(wanted, {"spark.driver.extraJavaOptions": quoted})
                with _stderr_to(errors_file(wanted.log)), _interrupts_as_before():
                    context = _context(wanted, conf)
                _note(archive, context)
                require_login(wanted, context)
                return context
            launch = Launch(
                java_home(java) / "bin" / "java",
                class_path,
                "1g",
                options,
                environment,
                errors_file(wanted.log),
            )
            return _directly(wanted, launch, archive, begun)
    finally:
        os.umask(before)


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


def require_login(wanted: WantedSpark, context: SparkContext) -> None:
    """Refuse processes of Spark that anybody who reaches them can send objects and listen to.

    In one JVM Spark makes a secret of its own, which is in its memory alone. Elsewhere the secret
    belongs to the master and the workers, and only their operator can say that none is needed.

    Raises UsageError: nothing says whether there is a login, and encryption.
    """
    conf = context.getConf()
    wanted_keys = [LOGIN] if conf.get(TLS) == "true" else [LOGIN, ENCRYPTION]
    missing = [key for key in wanted_keys if conf.get(key) is None]
    if wanted.one_jvm or not missing:
        return
    context.stop()
    raise UsageError(
        f"Spark on {bounded_url(wanted.master, SHOWN)} would get records and passwords, and "
        f"{' and '.join(missing)} not set: set both to true, with spark.authenticate.secret, in "
        "the spark-defaults.conf of master, workers and this machine, or to false if only you "
        "reach them."
    )


def _conf(wanted: WantedSpark, given: Mapping[str, str]) -> SparkConf:
    """All settings; our daemon module is set only if all workers run on this machine.

    Workers on other machines cannot import Breakglass when their daemon starts.
    """
    from pyspark import SparkConf

    settings = {**SETTINGS, **given}
    if wanted.one_jvm:
        settings["spark.python.daemon.module"] = "breakglass.services.pipeline.daemon"
        # Otherwise Spark deserializes the objects of any process that connects to its port.
        settings[LOGIN] = settings[ENCRYPTION] = "true"
        settings["spark.network.crypto.saslFallback"] = "false"
        settings["spark.python.unix.domain.socket.dir"] = private_folder()
    conf = SparkConf().setMaster(wanted.master).setAppName("breakglass")
    return conf.setAll(list(settings.items()))


def _context(wanted: WantedSpark, conf: SparkConf) -> SparkContext:
    from py4j import protocol
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql.types import NumpyArrayConverter

    # The converter for NumPy arrays from calls of the JVM alone imports pandas.
    converters = protocol.INPUT_CONVERTER
    converters[:] = [one for one in converters if not isinstance(one, NumpyArrayConverter)]
    # py4j writes a traceback to the root logger for each lost connection, before it raises what is
    # reported here; also for a JVM that is killed because its command ended without a job.
    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
    try:
        return SparkContext.getOrCreate(conf)
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise PipelineError(
            f"Spark does not start on {wanted.master} ({error}): check that address, and "
            f"{to_check()}."
        ) from error


def forget_jvm() -> None:
    """Make PySpark start a new JVM the next time: its JVM is gone."""
    from pyspark import SparkContext

    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


def _note(archive: ClassArchive, context: SparkContext) -> None:
    jvm = context._jvm
    if jvm is not None:
        archive.note(str(jvm.System.getProperty("java.class.path")))


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
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


MASTER = "local[*,4]"
"""Every core of this machine, and four attempts of a task: `local[*]` would have one."""
BEHIND_OTHERS = 10
"""The niceness of jobs that share the machine with brokers and clients."""

PARTING_SECONDS = 10.0


class Spark:
    """Spark, started on `begin` or on first use, and stopped when the block ends."""

    def __init__(self, master: str = MASTER, log: Path | None = None, niceness: int = 0) -> None:
        """Choose where Spark runs, and its driver's *log*.

        *niceness* applies to its JVM and Python workers on this machine.
        """
        self._wanted = WantedSpark(master, log or log_file(), niceness)
        self._starting = threading.Lock()
        self._beginning: threading.Thread | None = None
        self._gateway: Gateway | None = None
        self._context: SparkContext | None = None
        self._error: Exception | None = None
        self._over = False
        self._shared = False
        """Whether Spark was already running, so that its owner stops it."""
        self.seconds_waited = 0.0
        """Seconds that callers have waited for the start."""

    def __enter__(self) -> Spark:
        return self

    def __exit__(self, *_: object) -> None:
        self._give_up()
        if self._context is not None and not self._shared:
            # Stop context, also if its JVM is already gone.
            from py4j.protocol import Py4JError

            # Stop the server of accumulators, which we do not use, in a thread: it takes a second.
            server, self._context._accumulatorServer = self._context._accumulatorServer, None  # type: ignore[assignment]
            threading.Thread(target=server.shutdown, name="accumulators", daemon=True).start()
            # This process may exit before the server does.
            if isinstance(server.server_address, str):
                Path(server.server_address).unlink(missing_ok=True)
            with suppress(Py4JError, ConnectionError):
                self._context.stop()

    def begin(self) -> None:
        """Start Spark and its workers in a thread, because a job will need them soon.

        An error is raised by `context`. Spark's scripts change the environment and stderr of the
        whole process, so where they start Spark, it starts on first use.
        """
        if self._wanted.one_jvm and self._beginning is None and _running() is None:
            self._beginning = threading.Thread(target=self._begin, name="spark", daemon=True)
            self._beginning.start()

    def context(self) -> SparkContext:
        """The context that runs jobs, the same for every thread.

        Raises PipelineError: Spark or Java is missing, or Spark does not start.
        """
        began = time.monotonic()
        context = self._started()
        self.seconds_waited += time.monotonic() - began
        return context

    def _started(self) -> SparkContext:
        with self._starting:
            if self._error is not None:
                raise self._error
            if self._context is None:
                there = _running()
                self._shared = there is not None
                self._context = there or start(self._wanted, self._note)
            return self._context

    def _note(self, gateway: Gateway) -> None:
        self._gateway = gateway
        if self._over:
            gateway.kill()

    def _begin(self) -> None:
        try:
            context = self._started()
        except Exception as error:  # noqa: BLE001 - it is raised where Spark is asked for
            self._error = error
            return
        # A worker spends half a second on imports before its first record.
        with suppress(Exception):
            cores = int(context.defaultParallelism)
            context.parallelize(range(cores), cores).foreachPartition(_nothing)

    def _give_up(self) -> None:
        """Kill a JVM that has not started yet; wait for workers that are starting."""
        self._over = True
        if self._beginning is None or not self._beginning.is_alive():
            return
        if self._context is None and self._gateway is not None:
            self._gateway.kill()
        self._beginning.join(PARTING_SECONDS)
        if self._context is None and self._gateway is not None:
            forget_jvm()


@contextmanager
def jvm_errors(doing: str) -> Iterator[None]:
    """Turn errors of a lost JVM within the block into a PipelineError."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise PipelineError(
            f"{doing}: Spark's JVM does not answer, perhaps it was killed for lack of memory; see "
            "the system's log, then run the command again."
        ) from error


def _nothing(_: object) -> None:
    """A task that only starts a worker."""


def _running() -> SparkContext | None:
    """The context that this process already runs, which PySpark would return again."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context
