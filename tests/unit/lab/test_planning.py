"""What is made once of a Kafka version, where the making itself is not needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.class_data import fingerprint
from breakglass.services.lab import planning
from breakglass.services.lab.distribution import Distribution
from breakglass.services.lab.planning import prepared


def test_an_archive_stands_on_that_of_java_and_an_empty_one_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    kafka = Distribution("4.3.1", java, (tmp_path / "kafka.jar",))
    monkeypatch.setattr(planning, "distribution", lambda version, cache: kafka)
    archive = tmp_path / f"kafka-4.3.1-{fingerprint(java, kafka.classpath)}.jsa"
    archive.touch()
    assert prepared("4.3.1", tmp_path) == kafka
    archive.write_bytes(b"classes")
    assert prepared("4.3.1", tmp_path).node_options == (f"-XX:SharedArchiveFile={archive}",)
    base = archive.with_suffix(".base.jsa")
    base.write_bytes(b"java's")
    assert prepared("4.3.1", tmp_path).node_options == (f"-XX:SharedArchiveFile={base}:{archive}",)
