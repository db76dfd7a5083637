"""Places of backups looked at again and again, and jobs that tell how far they are."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from breakglass.services.backup_watch import job as jobs
from breakglass.services.backup_watch.job import Life, announced, read_jobs
from breakglass.services.backup_watch.location import (
    ABSENT,
    NO_MANIFEST,
    BackupState,
    LiveEnds,
    LocationHeld,
    read_location,
    state_of,
)
from breakglass.services.backup_watch.watch import (
    EVERY_MS,
    BackupPartitionLine,
    BackupStanding,
    BackupSurvey,
    BackupsView,
    BackupWatch,
    Line,
    PlaceLine,
    TopicLine,
    TopicOrder,
    WatchedLocation,
    key_of,
    lines,
    survey,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError
from breakglass.services.health.figure import Figure
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind, CaughtUpAgain
from breakglass.services.model import Unknown
from breakglass.services.pipeline.backup_context import CopyProgress
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.notes import note_verified
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.screens.backups.held import (
    ENDS,
    FAR,
    MAIN,
    NOW_MS,
    CannedBackups,
    Places,
    every_state,
    job,
    seen,
)
from tests.unit.topic_backup.backups import as_the_originals, back_up
from tests.unit.topic_backup.shapes import run


def looked(watch: BackupWatch, *, now: bool = False) -> BackupStanding:
    """What is known once every look that was begun has ended."""
    watch.look(now=now)
    wait_until(
        lambda: all(place.reading_since_ms is None for place in watch.standing.places),
        "every look to end",
    )
    return watch.standing


def test_a_real_folder_is_read_topic_by_topic(tmp_path: Path) -> None:
    back_up(tmp_path, run(0, 8))
    as_the_originals(back_up(tmp_path, run(0, 8), identity=TopicIdentity("bare")))
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / MANIFEST).write_text("{")
    note_verified(LocalFolder(tmp_path / "orders"), 1, "files", None, whole=True)

    bare, orders, unread = read_location(str(tmp_path)).topics

    assert (orders.name, orders.records, orders.lost) == ("orders", 8, 0)
    assert state_of(bare) is BackupState.BARE
    assert state_of(orders) is BackupState.VERIFIED
    assert state_of(orders, {"orders"}) is BackupState.RUNNING
    assert state_of(unread) is BackupState.UNREADABLE
    assert "no JSON" in unread.unread or "Expecting" in unread.unread


def test_what_was_read_stays_with_its_age_when_it_cannot_be_read_again() -> None:
    places = Places({MAIN: every_state()})
    watch = CannedBackups(places)
    looked(watch)
    read_at = watch.at_ms
    places.held[MAIN] = StorageError("/backups/main: Stale file handle; check the disk.")
    watch.at_ms += EVERY_MS

    (place,) = looked(watch).places

    assert len(place.topics) == 7
    assert place.held.read_at_ms == read_at
    assert place.held.failed == Unknown("/backups/main: Stale file handle; check the disk.")


def test_a_place_that_hangs_keeps_nobody() -> None:
    released, hanging = threading.Event(), threading.Event()

    def hang() -> LocationHeld:
        hanging.set()
        released.wait()
        return every_state()

    places = Places({FAR: hang, MAIN: every_state()})
    watch = CannedBackups(places)
    try:
        glance = watch.glance(Deadline.after(0.2))
        wait_until(hanging.is_set, "the place to be read")
        assert f"{FAR}: it is being read" in glance.trouble
        watch.look(now=True)
        assert places.reads.count(FAR) == 1
    finally:
        released.set()
    wait_until(lambda: watch.standing.places[0].topics, "what the place held to be taken in")


def test_the_glance_tells_jobs_what_is_verified_and_what_is_wrong() -> None:
    dead = seen(job("restore", FAR), Life.DEAD)
    watch = CannedBackups(Places({MAIN: every_state()}), [seen(job()), dead])

    glance = watch.glance(Deadline.after(DEADLINE_SECONDS))

    assert glance.state == "backup running, 2 of 6 verified"
    assert glance.trouble == (
        "clicks damaged; orders lost 12 offsets; torn unreadable; "
        f"a restore to {FAR} died: run it again"
    )


def test_a_place_that_a_job_works_with_is_looked_at_unnamed(tmp_path: Path) -> None:
    back_up(tmp_path, run(0, 8))
    watch = BackupWatch(jobs=lambda _: [seen(job(url=str(tmp_path)))])

    (place,) = looked(watch).places

    assert place.url == str(tmp_path)
    assert [topic.name for topic in place.topics] == ["orders"]
    (nowhere,) = looked(BackupWatch(["nfs://far/b"], jobs=lambda _: [])).places
    assert isinstance(nowhere.held.value, Unknown)
    assert "nfs://far/b" in nowhere.held.value.reason


STANDING = BackupStanding(
    (WatchedLocation(MAIN, Figure(every_state(), NOW_MS)), WatchedLocation(FAR)), ()
)


@pytest.fixture
def judged() -> BackupSurvey:
    """Every state, with the ends of some topics."""
    return survey(STANDING, ENDS)


def names(shown: list[Line]) -> list[str]:
    return [key[1] or key[0] for key in map(key_of, shown)]


def test_the_worst_comes_first_or_topics_are_sorted_by_a_figure(judged: BackupSurvey) -> None:
    standing = BackupStanding(STANDING.places, (seen(job()), seen(job(), Life.DEAD)))
    shown = lines(survey(standing, ENDS), BackupsView())
    assert isinstance(shown[0], PlaceLine)
    assert shown[0].jobs == 1
    states = {line.held.name: line.state for line in shown if isinstance(line, TopicLine)}
    assert states["payments"] == "running"
    assert names(lines(judged, BackupsView())) == [
        MAIN, "torn", "clicks", "orders", "audit", "refunds", "orders~2", "payments", FAR,
    ]  # fmt: skip
    for order, first in (
        ("NAME", "audit"),
        ("LAG", "audit"),
        ("AGE", "audit"),
        ("SIZE", "payments"),
    ):
        assert names(lines(judged, BackupsView(order=TopicOrder[order])))[1] == first


def test_lags_are_counted_or_have_a_reason(judged: BackupSurvey) -> None:
    shown = lines(judged, BackupsView(opened=frozenset({(MAIN, "payments"), (MAIN, "orders~2")})))
    lag = {line.held.name: line.lag for line in shown if isinstance(line, TopicLine)}
    assert (lag["clicks"], lag["refunds"], lag["orders~2"]) == (0, 500, 25)
    assert lag["orders"] is None
    assert lag["audit"] == NO_MANIFEST
    assert lag["payments"] == Unknown("it is offline: no leader serves it")
    assert isinstance(lag["torn"], Unknown)
    (_, clicks, *_) = every_state().topics
    assert clicks.status is not None
    for ends, expected in (
        (LiveEnds("another", ENDS.ends, ENDS.topic_ids), None),
        (LiveEnds(ENDS.cluster_id, ENDS.ends, {}), 0),
        (LiveEnds(ENDS.cluster_id), ABSENT),
    ):
        found = ends.total_lag(clicks.status)
        assert found == expected or (expected is None and isinstance(found, Unknown))
    parts = [
        line.lag
        for line in shown
        if isinstance(line, BackupPartitionLine) and line.held.topic != "orders"
    ]
    assert parts == [0, 400, Unknown("it is offline: no leader serves it")]


ELSEWHERE = """
import sys
from pathlib import Path
from breakglass.services.backup_watch.job import announced
with announced("backup", "/b", Path(sys.argv[1])):
    print("told", flush=True)
    sys.stdin.read()
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
        tell(CopyProgress("orders", 50, 100, 5_000, 2.0))
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
        [sys.executable, "-c", ELSEWHERE, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
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
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / jobs.FOLDER).write_text("in the way")
    with announced("backup", "/b", tmp_path / "away") as tell:
        assert tell is None, "it goes on where nothing can be written"
