"""Kafka's jars, resolved once by Maven coordinates into the user's cache, and Java to run them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from breakglass.services.errors import LabError
from breakglass.services.extras import missing
from breakglass.services.lab.java import find_java
from breakglass.services.maven.repository import REPOSITORY_VARIABLE, cache_lock, repository

if TYPE_CHECKING:
    from jgo.env import Environment

DEFAULT_VERSION = "4.3.1"
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
        """Value of ``java -cp``."""
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

    Proxy settings and certificates come from the environment as `requests` reads them.

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
    _remember(cache, version, jars)
    return tuple(jars)


def _jars(environment: Environment) -> list[Path]:
    folders = (environment.jars_dir, environment.modules_dir)
    return sorted(jar for folder in folders for jar in folder.glob("*.jar"))


def _build(cache: Path, endpoint: str, version: str) -> Environment:
    try:
        import requests
        from jgo.env import EnvironmentBuilder, LinkStrategy

        from breakglass.services.maven.context import maven_context
    except ModuleNotFoundError as error:
        raise missing("lab", str(error.name)) from None
    builder = EnvironmentBuilder(
        context=maven_context(), cache_dir=cache / "jgo", link_strategy=LinkStrategy.AUTO
    )
    try:
        return builder.from_endpoint(endpoint)
    except (requests.RequestException, OSError, RuntimeError, ValueError) as error:
        raise LabError(
            f"Kafka {version} could not be fetched from {repository()} ({error}): "
            f"check the version, the network and the proxy, or set {REPOSITORY_VARIABLE} to a "
            "mirror."
        ) from error
