"""The ``java`` that Spark is given, around one that says how it was run."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from breakglass.services.pipeline.java import (
    ABANDONED_SECONDS,
    NICENESS,
    ClassArchive,
    class_archive,
    find_java,
    shim,
)

SAYS_HOW = """\
#!/bin/sh
nice
printf '%s,' "$@"
cat /proc/self/autogroup 2>/dev/null
"""
OPTIONS = ["--add-modules=jdk.incubator.vector", "-Dsome=a thing", "Main"]


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """What runs a Java that tells its niceness, its options and its session's weight."""
    real = tmp_path / "real java"
    real.write_text(SAYS_HOW)
    real.chmod(0o755)
    return shim(real, tmp_path / "home") / "bin" / "java"


def run(java: Path, niceness: int | None) -> list[str]:
    """What Java said, by lines."""
    given = {} if niceness is None else {NICENESS: str(niceness)}
    answer = subprocess.run(
        [str(java), *OPTIONS], env=os.environ | given, capture_output=True, text=True, check=True
    )
    assert not answer.stderr
    return answer.stdout.splitlines()


def test_the_module_that_a_trimmed_runtime_lacks_is_left_out(java: Path) -> None:
    _, options, *_ = run(java, None)
    assert options.startswith("-Dsome=a thing,Main,")
    assert "jdk.incubator.vector" not in options


@pytest.mark.parametrize("niceness", [None, 0])
def test_it_runs_like_any_other_process(java: Path, niceness: int | None) -> None:
    assert run(java, niceness)[0] == str(os.nice(0))


def test_it_runs_behind_the_others_with_all_it_was_given(java: Path) -> None:
    niceness, told = run(java, 7)
    assert niceness == str(min(19, os.nice(0) + 7))
    assert told.startswith("-Dsome=a thing,Main,")
    if (found := Path("/proc/self/autogroup")).exists() and found.read_text().strip():
        assert told.endswith("nice 7")


SPARK = find_spec("pyspark")
assert SPARK is not None
assert SPARK.origin is not None
CLASS_PATH = str(next((Path(SPARK.origin).parent / "jars").glob("*.jar")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spark"


def chosen(folder: Path, *depends: str) -> ClassArchive:
    return class_archive(find_java(), depends, folder)


def run_with(archive: ClassArchive) -> subprocess.CompletedProcess[str]:
    """A JVM with these options, of the class path that is noted."""
    archive.note(CLASS_PATH)
    command = [str(find_java()), *archive.options, "-cp", CLASS_PATH, "-version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)


@pytest.fixture
def left(folder: Path) -> Path:
    """What the JVM of the first session has left."""
    first = chosen(folder)
    assert run_with(first).stdout == "", "stdout is the command's own"
    assert first.written is not None
    return first.written


def test_the_second_session_uses_what_the_first_has_left(folder: Path, left: Path) -> None:
    second = chosen(folder)
    assert second.written is None
    (option,) = [option for option in second.options if option.startswith("-XX:SharedArchiveFile=")]
    archive = Path(option.partition("=")[2])
    assert [*folder.iterdir()] == [archive]
    assert run_with(second).stdout == ""
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
