"""Jars of Maven Central by their coordinates, kept in the user's cache, without what they need."""

from pathlib import Path

from breakglass.services.lab.maven import maven_context


def fetched(*coordinates: str) -> tuple[Path, ...]:
    """The jars of these *coordinates*, from the cache, or fetched now where one is missing."""
    context = maven_context()
    found = []
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        component = context.project(group, artifact).at_version(version)
        found.append(Path(component.artifact().resolve()))
    return tuple(found)
