"""An archive of classes is used once a JVM has proved that it is whole, and never before."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from services.pipeline.class_archive import ABANDONED_SECONDS, ClassArchive, class_archive
from services.pipeline.java import find_java

SPARK = find_spec("pyspark")
assert SPARK is not None
assert SPARK.origin is not None
CLASS_PATH = str(next((Path(SPARK.origin).parent / "jars").glob("*.jar")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spark"


def chosen(folder: Path, *depends: str) -> ClassArchive:
    return class_archive(find_java(), depends, folder)


def run(archive: ClassArchive) -> subprocess.CompletedProcess[str]:
    """A JVM with these options, of the class path that is noted."""
    archive.note(CLASS_PATH)
    command = [str(find_java()), *archive.options, "-cp", CLASS_PATH, "-version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)


@pytest.fixture
def left(folder: Path) -> Path:
    """What the JVM of the first session has left."""
    first = chosen(folder)
    assert run(first).stdout == "", "stdout is the command's own"
    assert first.written is not None
    return first.written


def test_the_second_session_uses_what_the_first_has_left(folder: Path, left: Path) -> None:
    second = chosen(folder)
    assert second.written is None
    (option,) = [one for one in second.options if one.startswith("-XX:SharedArchiveFile=")]
    archive = Path(option.partition("=")[2])
    assert [*folder.iterdir()] == [archive]
    assert run(second).stdout == ""
    assert chosen(folder) == second, "and so does the third"


def test_an_archive_that_is_cut_short_is_not_used(folder: Path, left: Path) -> None:
    left.chmod(0o600)
    os.truncate(left, left.stat().st_size // 2)
    assert chosen(folder).written is not None


def test_one_whose_class_path_was_not_noted_is_not_used(folder: Path, left: Path) -> None:
    for noted in folder.glob("*.classpath"):
        noted.unlink()
    assert chosen(folder).written is not None


def test_one_of_another_spark_is_not_used(folder: Path, left: Path) -> None:
    assert chosen(folder, "another").written is not None


def test_what_nobody_writes_to_any_more_is_removed(folder: Path, left: Path) -> None:
    chosen(folder, "another")
    assert left.exists()
    long_ago = left.stat().st_mtime - ABANDONED_SECONDS - 1
    for file in folder.iterdir():
        os.utime(file, (long_ago, long_ago))
    chosen(folder, "another")
    assert [*folder.iterdir()] == []


def test_without_a_cache_spark_starts_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert chosen(tmp_path / "file" / "spark") == ClassArchive()
