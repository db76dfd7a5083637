"""What benchmarks stand on: whole processes, measured from start to end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main, names
from benchmarks._measure import Program, Run, in_turn, median_wall, meets, ours, run

BUSY = "sum(n * n for n in range(2_000_000))"
LARGE = "held = b'x' * 80_000_000"


def python(script: str, name: str = "python") -> Program:
    return Program(name, [sys.executable, "-c", script])


def test_processor_time_is_that_of_the_process_alone(tmp_path: Path) -> None:
    idle = run(python("import time; time.sleep(0.3)"), tmp_path)
    busy = run(python(BUSY), tmp_path)
    assert idle.wall > 0.3
    assert idle.cpu < 0.2 < busy.cpu + 0.15
    assert busy.cpu > idle.cpu


def test_memory_is_the_most_that_the_process_held(tmp_path: Path) -> None:
    """Whatever the process held that started it."""
    mine = b"x" * 80_000_000
    small, large = run(python("pass"), tmp_path), run(python(LARGE), tmp_path)
    assert small.peak_rss < 30 < len(mine) / 1e6
    assert 75 < large.peak_rss - small.peak_rss < 90


def test_a_program_that_fails_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="triage ended with 3: no broker answers"):
        run(python("import sys; print('no broker answers'); sys.exit(3)", "triage"), tmp_path)


def test_programs_run_in_turn_after_one_run_for_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    programs = [python(f"open({str(log)!r}, 'a').write({letter!r})") for letter in "ab"]
    measured = in_turn(2, programs, tmp_path)
    assert log.read_text() == "ababab"
    assert [len(runs) for runs in measured] == [2, 2]


def test_a_target_is_met_by_what_is_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert meets("ratio", 0.5, 0.5)
    assert not meets("ratio", 0.51, 0.5)
    assert capsys.readouterr().out.split()[-1] == "MISSED"


def test_the_middle_run_counts() -> None:
    assert median_wall([Run(9.0, 1, 1), Run(1.0, 1, 1), Run(2.0, 1, 1)]) == 2.0


def test_ours_run_with_their_bytecode_kept_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    program = ours("breakglass", tmp_path, "--version")
    run(program, tmp_path)
    assert os.path.basename(program.command[0]) == "breakglass"
    assert list((tmp_path / "bytecode").rglob("cli.*.pyc"))


def test_every_module_but_the_private_ones_is_a_benchmark() -> None:
    assert names() == [
        "backup",
        "backup-small",
        "browse",
        "checkpoint",
        "checkpoint-copy",
        "checkpoint-lineage",
        "checkpoint-live",
        "comparison",
        "continuous",
        "first-frame",
        "keys",
        "metastore",
        "planning",
        "recovery",
        "refresh",
        "restore",
        "scaling",
        "startup",
        "triage",
        "verification",
        "volume",
    ]


def test_a_benchmark_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no-such"])
    assert "no such benchmark: no-such; there is backup," in capsys.readouterr().err
