"""Starts Spark's JVM on this machine directly, and chooses the files for its logs.

Spark's own scripts first run a second JVM to build this JVM's command, and PySpark polls for the
answer ten times a second. The scripts are used only if the environment configures Spark's start.
"""

from __future__ import annotations

import atexit
import os
import resource
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp

from breakglass.services.errors import PipelineError
from breakglass.services.pipeline.java import NICENESS
from breakglass.services.rights import make_folders, open_new
from breakglass.services.state_folder import state_folder
from breakglass.services.topic_backup.folder import storage_errors

KEPT_LOGS = 20
"""The number of runs whose logs are kept."""
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


def log_file() -> Path:
    """The log of this run's Spark driver, for warnings and errors: no two runs share a file."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return state_folder() / "spark" / f"{stamp}-{os.getpid()}.log"


def logging_option(log: Path) -> str:
    """Prepare *log*; return the option that makes a JVM log there instead of to stderr.

    Raises:
        StorageError: its folder cannot be written.
    """
    configuration = log.with_suffix(".properties")
    with storage_errors(str(log.parent)):
        make_folders(log.parent)
        _make_room(log.parent)
        for path, content in ((configuration, LOGGING.format(log=log)), (log, "")):
            with open(path, "w", encoding="utf-8", opener=open_new) as file:
                file.write(content)
    return f"-Dlog4j2.configurationFile=file:{configuration}"


def errors_file(log: Path) -> Path:
    """The file next to *log* for stderr of the JVM and of Python workers, with their tracebacks."""
    return log.with_suffix(".err")


@cache
def private_folder() -> str:
    """The temporary folder of this process's Spark, which lasts as long as the process.

    Spark keeps blocks, native libraries and sockets in it, and a process that connects to a socket
    is not asked for a login. Its name is short: a socket's path has at most 103 bytes on macOS.
    """
    folder = mkdtemp(prefix="bg-")
    atexit.register(rmtree, folder, ignore_errors=True)
    return folder


OPEN_FILES = 1024
"""So many files are enough for Spark, whose jars alone are some hundreds."""


def to_check() -> str:
    """What an operator checks where Spark does not start."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= files < OPEN_FILES:
        return f"raise the limit of open files, which is {files}, to {OPEN_FILES:,} (ulimit -n)"
    return "check that `java -version` works"


def _make_room(folder: Path) -> None:
    with suppress(OSError):
        old = sorted(folder.glob("*.log"))[: -KEPT_LOGS + 1]
        for log in old:
            for suffix in (".log", ".err", ".properties"):
                log.with_suffix(suffix).unlink(missing_ok=True)


MAIN = "org.apache.spark.api.python.PythonGatewayServer"
OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""The options that Spark's launcher gives each JVM (JavaModuleOptions.java, Spark 4.2)."""
SCRIPTED = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_SUBMIT_OPTS",
    "SPARK_DRIVER_MEMORY",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
)
"""Variables that only Spark's scripts, or a running JVM, obey."""
ANNOUNCED_IN = "_PYSPARK_DRIVER_CONN_INFO_PATH"
LONGEST_SECONDS = 120.0
LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Launch:
    """How the JVM is started."""

    java: Path
    class_path: str
    memory: str
    options: Sequence[str]
    environment: Mapping[str, str]
    errors: Path
    """The file for stdout and stderr of the JVM and of Python workers."""

    def command(self) -> list[str]:
        options = (f"-Xmx{self.memory}", *self.options, *OPTIONS)
        return [str(self.java), "-cp", self.class_path, *options, MAIN]


def scripted(environ: Mapping[str, str]) -> bool:
    """Whether *environ* configures how Spark starts."""
    return any(environ.get(name) for name in SCRIPTED)


class Gateway:
    """The JVM. It ends with this process, because its stdin is then closed."""

    def __init__(self, launch: Launch) -> None:
        """Start the JVM, without waiting until it listens."""
        self._folder = TemporaryDirectory(prefix="breakglass-spark-", ignore_cleanup_errors=True)
        self._announced = Path(self._folder.name) / "announced"
        environment = {**os.environ, **launch.environment, ANNOUNCED_IN: str(self._announced)}
        with ExitStack() as stack:
            errors = stack.enter_context(open(launch.errors, "wb", opener=open_new))
            self.process = subprocess.Popen(
                launch.command(),
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                env=environment,
                # Ctrl-C is for the command, not for the JVM. A JVM with a niceness starts a new
                # session (see SHIM), which the leader of a process group cannot do.
                process_group=0 if launch.environment.get(NICENESS, "0") == "0" else None,
            )

    def environment(self) -> dict[str, str]:
        """Wait until the JVM listens; return the variables for PySpark, a secret included.

        Raises:
            PipelineError: the JVM ended, or does not listen in time.
        """
        try:
            port, secret = self._heard()
        finally:
            self._folder.cleanup()
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self._folder.cleanup()

    def _heard(self) -> tuple[int, str]:
        """The port and the secret, as PythonGatewayServer.scala writes them."""
        give_up = time.monotonic() + LONGEST_SECONDS
        while not self._announced.exists():
            code = self.process.poll()
            if code is not None:
                self.kill()
                raise PipelineError(
                    f"Spark's JVM exited with status {code} during its start: see Spark's log, and "
                    f"{to_check()}."
                )
            if time.monotonic() > give_up:
                self.kill()
                raise PipelineError("Spark's JVM did not start in time: run the command again.")
            time.sleep(LOOK_SECONDS)
        data = self._announced.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        return port, data[8 : 8 + length].decode()
