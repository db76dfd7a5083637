"""The ``java`` that Spark is given, around one that says how it was run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from services.pipeline.java import NICENESS, shim

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
