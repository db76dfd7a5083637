"""Finding Kafka's jars: resolved once, remembered, reused without network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from breakglass.services.errors import LabError, MissingExtra
from breakglass.services.lab import distribution as module
from breakglass.services.lab.distribution import (
    Distribution,
    coordinates,
    distribution,
)
from breakglass.services.maven.repository import REPOSITORY_VARIABLE

VERSION = "4.3.1"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that knows the two jars of one version."""
    jars = [tmp_path / "jars" / name for name in ("kafka_2.13-4.3.1.jar", "kafka-tools-4.3.1.jar")]
    jars[0].parent.mkdir()
    for jar in jars:
        jar.touch()
    remembered = "".join(f"{jar}\n" for jar in jars)
    (tmp_path / f"kafka-{VERSION}.classpath").write_text(remembered)
    return tmp_path


def test_coordinates_name_broker_and_tools_of_one_version() -> None:
    assert coordinates("3.9.2") == (
        "org.apache.kafka:kafka_2.13:3.9.2",
        "org.apache.kafka:kafka-tools:3.9.2",
    )


def test_remembered_jars_are_used_without_resolving(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jgo", None)
    kafka = distribution(VERSION, cache)
    assert [jar.name for jar in kafka.jars] == ["kafka_2.13-4.3.1.jar", "kafka-tools-4.3.1.jar"]
    assert kafka.classpath == f"{kafka.jars[0]}:{kafka.jars[1]}"


def test_a_missing_jar_is_resolved_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "jars" / "kafka-tools-4.3.1.jar").unlink()
    monkeypatch.setitem(sys.modules, "jgo.env", None)
    with pytest.raises(MissingExtra, match=r"pip install 'breakglass\[lab\]'"):
        distribution(VERSION, cache)


def test_a_mirror_that_does_not_answer_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, "http://127.0.0.1:9/maven2")
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(LabError, match=rf"127\.0\.0\.1:9.*set {REPOSITORY_VARIABLE}"):
        distribution("4.3.1", tmp_path)
    assert not list(tmp_path.glob("*.classpath"))


def test_what_was_resolved_is_remembered(tmp_path: Path) -> None:
    jar = tmp_path / "kafka.jar"
    jar.touch()
    module._remember(tmp_path, VERSION, [jar])
    assert distribution(VERSION, tmp_path).jars == (jar,)


def test_the_major_version_is_a_number() -> None:
    assert Distribution("3.9.2", Path("java"), ()).major == 3
