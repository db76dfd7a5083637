"""Places are looked at beside each other, the last answer stays, and nobody waits for a place."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from breakglass.services.backup_watch.job import Life
from breakglass.services.backup_watch.location import (
    BackupState,
    LocationHeld,
    read_location,
    state_of,
)
from breakglass.services.backup_watch.watch import EVERY_MS, BackupStanding, BackupWatch
from breakglass.services.errors import StorageError
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown
from breakglass.services.topic_backup import verified
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from tests.kit.waiting import wait_until
from tests.screens.backups.held import FAR, MAIN, CannedBackups, Places, every_state, job, seen
from tests.unit.topic_backup.backups import as_the_originals, back_up
from tests.unit.topic_backup.shapes import run

SECONDS = 10.0


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
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / MANIFEST).write_text("{")
    verified.note(LocalFolder(tmp_path / "orders"), 1, "files", None, whole=True)

    orders, unread = read_location(str(tmp_path)).topics

    assert (orders.name, orders.records, orders.lost) == ("orders", 8, 0)
    assert state_of(orders) is BackupState.VERIFIED
    assert state_of(orders, {"orders"}) is BackupState.RUNNING
    assert state_of(unread) is BackupState.UNREADABLE
    assert "no JSON" in unread.unread or "Expecting" in unread.unread


def test_a_backup_of_the_originals_is_told_apart(tmp_path: Path) -> None:
    as_the_originals(back_up(tmp_path, run(0, 8)))

    (held,) = read_location(str(tmp_path)).topics

    assert state_of(held) is BackupState.BARE


def test_every_state_has_its_word() -> None:
    words = [state_of(topic) for topic in every_state().topics]

    assert words == [
        BackupState.BARE,
        BackupState.DAMAGED,
        BackupState.LOST,
        BackupState.VERIFIED,
        BackupState.VERIFIED,
        BackupState.UNVERIFIED,
        BackupState.UNREADABLE,
    ]


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


def test_a_place_is_not_looked_at_before_its_time() -> None:
    places = Places({MAIN: every_state()})
    watch = CannedBackups(places)
    looked(watch)
    watch.at_ms += EVERY_MS - 1
    looked(watch)
    assert places.reads == [MAIN]
    looked(watch, now=True)
    assert places.reads == [MAIN, MAIN]


def test_a_place_that_hangs_keeps_nobody() -> None:
    released, hanging = threading.Event(), threading.Event()

    def hang() -> LocationHeld:
        hanging.set()
        released.wait(SECONDS)
        return every_state()

    places = Places({FAR: hang, MAIN: every_state()})
    watch = CannedBackups(places)
    began = time.monotonic()
    try:
        glance = watch.glance(Deadline.after(0.2))
        assert time.monotonic() - began < SECONDS / 2
        assert hanging.wait(SECONDS)
        assert f"{FAR}: it is being read" in glance.trouble
        watch.look(now=True)
        assert places.reads.count(FAR) == 1
    finally:
        released.set()
    wait_until(lambda: watch.standing.places[0].topics, "what the place held to be taken in")


def test_the_glance_tells_jobs_what_is_verified_and_what_is_wrong() -> None:
    dead = seen(job("restore", FAR), Life.DEAD)
    watch = CannedBackups(Places({MAIN: every_state()}), [seen(job()), dead])

    glance = watch.glance(Deadline.after(SECONDS))

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


def test_an_address_that_is_none_is_told_of() -> None:
    watch = BackupWatch(["nfs://far/b"], jobs=lambda _: [])

    (place,) = looked(watch).places

    assert isinstance(place.held.value, Unknown)
    assert "nfs://far/b" in place.held.value.reason
