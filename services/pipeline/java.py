"""Finds the Java that runs Spark, and makes it start faster with a class data archive (JEP 350).

A ``java`` script of ours removes an option of Spark's launcher: the option needs an incubating
module that a trimmed runtime lacks. A session without an archive writes one when it exits; a later
session first checks that it is complete, because a partial archive, left by a killed JVM, would
crash every JVM that uses it. A JVM ignores an archive of another Java or class path.

Starts Spark's JVM on this machine directly, and chooses the files for its logs.

Spark's own scripts first run a second JVM to build this JVM's command, and PySpark polls for the
answer ten times a second. The scripts are used only if the environment configures Spark's start.
"""

from __future__ import annotations

import atexit
import hashlib
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

from platformdirs import user_cache_path

from breakglass.services import class_data
from breakglass.services.class_data import fingerprint, is_whole
from breakglass.services.errors import PipelineError
from breakglass.services.rights import make_folders, open_new
from breakglass.services.state_folder import state_folder
from breakglass.services.topic_backup.folder import storage_errors

NICENESS = "BREAKGLASS_NICENESS"
"""The variable with the niceness of Java and its children."""
SHIM = """\
#!/bin/sh
# What Spark and its workers write, and the sockets they listen on, are for their owner alone.
umask 077
# Spark asks for a module that a trimmed runtime does not have.
for option do
  shift
  [ "$option" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$option"
done
[ "${{BREAKGLASS_NICENESS:-0}}" -gt 0 ] || exec "{java}" "$@"
set -- nice -n "$BREAKGLASS_NICENESS" "{java}" "$@"
command -v setsid >/dev/null || exec "$@"
# Linux weighs sessions against each other, and processes only within theirs.
weighed='{{ echo "$0" >/proc/self/autogroup; }} 2>/dev/null; exec "$@"'
exec setsid sh -c "$weighed" "$BREAKGLASS_NICENESS" "$@"
"""


def java_home(java: Path) -> Path:
    """The JAVA_HOME that makes Spark use *java*; made in the user's cache."""
    return shim(java, user_cache_path("breakglass") / "java")


def find_java() -> Path:
    """A ``java`` that runs Spark 4. Raises: PipelineError: there is none."""
    return class_data.find_java("Spark", "pipeline", PipelineError)


def shim(java: Path, home: Path) -> Path:
    """Write a ``java`` that runs *java* into a folder of *home*; return that folder."""
    home = home / hashlib.sha256(str(java).encode()).hexdigest()[:16]
    script = home / "bin" / "java"
    content = SHIM.format(java=java)
    if not script.exists() or script.read_text(encoding="utf-8") != content:
        make_folders(script.parent)
        partial = script.with_name(f"java.{os.getpid()}.partial")
        partial.write_text(content, encoding="utf-8")
        partial.chmod(0o700)
        partial.replace(script)
    return home


ABANDONED_SECONDS = 600.0
"""A partial archive this old will not be completed."""
UNUSED_SECONDS = 30 * 24 * 3600.0
"""An unused archive, of another Java or Spark, is removed after this time."""
SUFFIX, PARTIAL, CLASS_PATH = ".jsa", ".partial", ".classpath"
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Without these options a JVM prints about archives to stdout, which belongs to the command."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The class data archive that the JVM of one session uses or writes."""

    options: tuple[str, ...] = ()
    written: Path | None = None
    """The file that the JVM writes when it exits; None if it uses an archive or cannot write
    one."""

    def note(self, class_path: str) -> None:
        """Record the class path of that JVM, which the proof of the archive needs."""
        if self.written is not None:
            with suppress(OSError), open(_noted(self.written), "x", opener=open_new) as file:
                file.write(class_path)


def class_archive(java: Path, depends: Sequence[str], folder: Path) -> ClassArchive:
    """The archive in *folder* for *java* and what else it *depends* on, or how to write it."""
    name = fingerprint(java, *depends)
    archive = folder / f"{name}{SUFFIX}"
    try:
        make_folders(folder)
        # Remove abandoned partial archives, and archives that have not been used for a month.
        for left in folder.iterdir():
            longest = UNUSED_SECONDS if left.suffix == SUFFIX else ABANDONED_SECONDS
            with suppress(FileNotFoundError):
                if left != archive and time.time() - left.stat().st_mtime > longest:
                    left.unlink()
        if archive.exists() or _installed_archive(java, archive):
            return ClassArchive(_using(archive))
    except OSError:
        # Without a cache Spark works, but starts slower.
        return ClassArchive()
    written = folder / f"{name}.{os.getpid()}.{time.monotonic_ns()}{PARTIAL}"
    return ClassArchive((*QUIET, f"-XX:ArchiveClassesAtExit={written}"), written)


def _installed_archive(java: Path, archive: Path) -> bool:
    """Install a complete archive that an earlier session wrote; whether there was one."""
    for partial in sorted(archive.parent.glob(f"{archive.stem}.*{PARTIAL}")):
        with suppress(FileNotFoundError):
            if is_whole(java, _using(partial), _noted(partial).read_text()):
                partial.replace(archive)
                _noted(partial).unlink()
                return True
    return False


def _using(archive: Path) -> tuple[str, ...]:
    return (*QUIET, f"-XX:SharedArchiveFile={archive}")


def _noted(partial: Path) -> Path:
    return partial.with_name(partial.name + CLASS_PATH)


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

    Raises StorageError: its folder cannot be written.
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

        Raises PipelineError: the JVM ended, or does not listen in time.
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
