"""The jars that let Spark read Kafka, by exact coordinates, kept in the user's cache.

Dependencies are not followed: the connector's own helper has not been published for every Spark
release, and Spark's parent POM names a repository that may not answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from services.errors import PipelineError
from services.extras import missing
from services.maven.repository import REPOSITORY_VARIABLE

if TYPE_CHECKING:
    from jgo.maven import MavenContext

COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.commons:commons-pool2:2.12.1",
    "org.apache.kafka:kafka-clients:3.9.2",
)
"""What works together with pyspark 4.2.0; what these need beyond ships with it."""


def kafka_jars() -> tuple[Path, ...]:
    """The jars that Spark needs to read Kafka. Raises as `fetched`."""
    return fetched(*COORDINATES)


def fetched(*coordinates: str) -> tuple[Path, ...]:
    """The jars of these *coordinates*, from the cache, or fetched now where one is missing.

    Raises:
        PipelineError: no network.
        MissingExtra: the extra ``pipeline`` is not installed.
    """
    context = _maven()
    return tuple(_jar(context, one) for one in coordinates)


def _maven() -> MavenContext:
    try:
        from services.maven.context import maven_context
    except ModuleNotFoundError as error:
        raise missing("pipeline", str(error.name)) from None
    return maven_context()


def _jar(context: MavenContext, coordinates: str) -> Path:
    import requests

    group, artifact, version = coordinates.split(":")
    component = context.project(group, artifact).at_version(version)
    try:
        return Path(component.artifact().resolve())
    except (requests.RequestException, OSError, RuntimeError, ValueError) as error:
        raise PipelineError(
            f"{coordinates} could not be fetched ({error}): check the network and the proxy, or "
            f"set {REPOSITORY_VARIABLE} to a mirror."
        ) from error
