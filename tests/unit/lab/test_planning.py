"""What is made once of a Kafka version, where the making itself is not needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.class_data import fingerprint
from breakglass.services.lab import planning
from breakglass.services.lab.distribution import Distribution
from breakglass.services.lab.planning import prepared


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    """A Kafka that is there, with a Java that is a file."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    found = Distribution("4.3.1", java, (tmp_path / "kafka.jar",))
    monkeypatch.setattr(planning, "distribution", lambda version, cache: found)
    return found


def archive_of(kafka: Distribution, cache: Path) -> Path:
    return cache / f"kafka-4.3.1-{fingerprint(kafka.java, kafka.classpath)}.jsa"


def test_an_archive_stands_on_the_one_of_java_itself_if_there_is_one(
    kafka: Distribution, tmp_path: Path
) -> None:
    archive = archive_of(kafka, tmp_path)
    base = archive.with_suffix(".base.jsa")
    archive.write_bytes(b"classes")
    assert prepared("4.3.1", tmp_path).node_options == (f"-XX:SharedArchiveFile={archive}",)
    base.write_bytes(b"java's")
    assert prepared("4.3.1", tmp_path).node_options == (f"-XX:SharedArchiveFile={base}:{archive}",)


def test_a_java_that_makes_no_archive_is_not_asked_twice(
    kafka: Distribution, tmp_path: Path
) -> None:
    archive_of(kafka, tmp_path).touch()
    assert prepared("4.3.1", tmp_path) == kafka
