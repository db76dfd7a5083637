"""Jobs tell other processes how far they are; one whose process is gone is told as dead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.services.backup_watch import job as jobs
from breakglass.services.backup_watch.job import FORGET_MS, SILENT_MS, Life, announced, read_jobs
from breakglass.services.clock import now_ms
from breakglass.services.lag import Behind, CaughtUpAgain
from breakglass.services.pipeline.report import CopyProgress
from tests.kit.waiting import wait_until

SECONDS = 10.0
HALF = CopyProgress("orders", 50, 100, 5_000, 2.0)
ELSEWHERE = """
import sys, time
from pathlib import Path
from breakglass.services.backup_watch.job import announced
with announced("backup", "/b", Path(sys.argv[1])):
    print("told", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def prompt_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs tell at once what they have to tell."""
    monkeypatch.setattr(jobs, "BEAT_SECONDS", 0.01)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / jobs.FOLDER).iterdir())


@pytest.mark.usefixtures("prompt_beat")
def test_a_job_is_seen_with_its_progress_and_is_gone_after_its_end(tmp_path: Path) -> None:
    with announced("backup", "/b", tmp_path) as tell:
        assert tell is not None
        (begun,) = read_jobs(now_ms(), tmp_path)
        assert (begun.job.topic, begun.job.total) == ("", 0)
        tell(HALF)
        wait_until(lambda: read_jobs(now_ms(), tmp_path)[0].job.done == 50, "the progress")
        (seen,) = read_jobs(now_ms(), tmp_path)
        assert (seen.life, seen.job.kind, seen.job.url) == (Life.RUNNING, "backup", "/b")
        assert (seen.job.pid, seen.job.bytes_a_second) == (os.getpid(), 2_500.0)
    assert read_jobs(now_ms(), tmp_path) == []
    assert files(tmp_path) == []


def test_that_a_job_is_behind_is_seen_at_once_and_not_after_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "BEAT_SECONDS", 3_600.0)
    with announced("backup", "/b", tmp_path) as tell:
        assert tell is not None
        tell.lag(Behind(7, "no leader"))
        (seen,) = read_jobs(now_ms(), tmp_path)
        assert (seen.job.behind_since_ms, seen.job.behind) == (7, "no leader")
        tell.lag(CaughtUpAgain(7, 8))
        (seen,) = read_jobs(now_ms(), tmp_path)
        assert (seen.job.behind_since_ms, seen.job.behind) == (0, "")
    tell.lag(Behind(9, "too late"))
    assert files(tmp_path) == []


def test_a_job_whose_process_was_killed_is_dead_and_forgotten_when_it_is_done_again(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ELSEWHERE, tmp_path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "told\n"
        (seen,) = read_jobs(now_ms(), tmp_path)
        assert (seen.life, seen.job.pid) == (Life.RUNNING, other.pid)
        other.send_signal(signal.SIGKILL)
    (seen,) = read_jobs(now_ms(), tmp_path)
    assert seen.life is Life.DEAD
    with announced("restore", "/b", tmp_path), announced("backup", "/c", tmp_path):
        assert seen.path in [job.path for job in read_jobs(now_ms(), tmp_path)]
    with announced("backup", "/b", tmp_path):
        assert seen.path not in [job.path for job in read_jobs(now_ms(), tmp_path)]


def test_a_job_that_tells_nothing_any_more_is_silent(tmp_path: Path) -> None:
    with announced("restore", "/b", tmp_path):
        (seen,) = read_jobs(now_ms() + SILENT_MS + 5_000, tmp_path)
        assert seen.life is Life.SILENT


def test_a_job_of_another_machine_is_judged_by_its_age(tmp_path: Path) -> None:
    with announced("backup", "/b", tmp_path):
        (seen,) = read_jobs(now_ms(), tmp_path)
        said = json.loads(seen.path.read_text())
    away = seen.path.with_name("77-far.json")
    away.write_text(json.dumps(said | {"host": "elsewhere"}))
    assert read_jobs(said["told_at_ms"] + 1_000, tmp_path)[0].life is Life.RUNNING
    assert read_jobs(said["told_at_ms"] + SILENT_MS + 1, tmp_path)[0].life is Life.SILENT


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"done": "x"}, {"kind": "[red]"}, {"pid": None}, {"new": 1}, {"seconds": "1"}],
)
def test_what_is_no_job_is_passed_over(tmp_path: Path, change: dict[str, object]) -> None:
    with announced("backup", "/b", tmp_path):
        (seen,) = read_jobs(now_ms(), tmp_path)
        said = json.loads(seen.path.read_text())
    (tmp_path / jobs.FOLDER / "1-a.json").write_text(json.dumps(said | change))
    (tmp_path / jobs.FOLDER / "2-b.json").write_bytes(b"\xff[1")
    (tmp_path / jobs.FOLDER / "3-c.json").write_text("[]")
    assert read_jobs(now_ms(), tmp_path) == []


def test_what_died_long_ago_is_forgotten(tmp_path: Path) -> None:
    with announced("backup", "/b", tmp_path):
        (seen,) = read_jobs(now_ms(), tmp_path)
        said = json.loads(seen.path.read_text())
    old = tmp_path / jobs.FOLDER / "1-a.json"
    old.write_text(json.dumps(said | {"url": "/x", "told_at_ms": now_ms() - FORGET_MS - 1}))
    with announced("backup", "/b", tmp_path):
        assert not old.exists()


def test_a_job_goes_on_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / jobs.FOLDER).write_text("in the way")
    with announced("backup", "/b", tmp_path) as tell:
        assert tell is None
    assert read_jobs(now_ms(), tmp_path) == []
