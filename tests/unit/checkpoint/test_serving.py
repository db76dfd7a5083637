"""A server of checkpoints: finished in the background, by a schedule, gone on with."""

import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.checkpoint import serving as module
from breakglass.services.checkpoint.acts.take import release_ended
from breakglass.services.checkpoint.coordinator import NEVER_ACKNOWLEDGED, Coordinator, Finisher
from breakglass.services.checkpoint.protocol.values import NotHigher, Status
from breakglass.services.checkpoint.serving import (
    AGAIN_MS,
    MOST_WAITING,
    Doing,
    ErrorKind,
    SameId,
    Schedule,
    Serving,
    StopRequest,
)
from breakglass.services.checkpoint.store.backup_store import BackupStore, Retention
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    StartedDocument,
    TakeDocument,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import ClusterError, StorageError
from tests.kit.waiting import wait_until
from tests.unit.checkpoint.store.stores import completed, failure, stored, take
from tests.unit.checkpoint.test_coordinator import World
from tests.unit.checkpoint.topics import Logs

HOUR = 3_600_000
DAILY = Schedule(24 * HOUR)
LAGS = ClusterError("group bank lags")


@pytest.fixture(autouse=True)
def looks_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 1e6)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return BackupStore(str(tmp_path))


class Heard(list[str]):
    """What the server said, and a way to wait for it."""

    def wait(self, text: str) -> None:
        wait_until(lambda: text in self, text, instead=lambda: f"among {self}")

    def ended(self, *ids: int) -> None:
        for id in ids:
            self.wait(f"checkpoint {id}  completed")


@pytest.fixture
def heard() -> Heard:
    return Heard()


def serving(
    store: BackupStore,
    heard: Heard,
    world: World,
    schedule: Schedule | None = None,
    logs: Logs | None = None,
    **options: Any,
) -> Serving:
    finisher = Finisher(store, world, world, wait=lambda _: None)
    coordinator = Coordinator(store, logs or Logs())
    return Serving(store, coordinator, finisher, heard.append, schedule, **options)


# --- copying in the background


@pytest.mark.parametrize("error", [LAGS, KeyError(3)], ids=["expected", "unexpected"])
def test_why_one_has_failed_is_said_and_the_next_is_copied(
    store: BackupStore, heard: Heard, error: Exception
) -> None:
    world = World(error)
    found = serving(store, heard, world)
    with found.running():
        found.take(1)
        wait_until(lambda: heard, "what has happened")
        world.refusal = None
        found.take(2)
        heard.ended(2)
    assert str(error) in heard[0]
    kind = ErrorKind.EXPECTED if error is LAGS else ErrorKind.UNEXPECTED
    assert found.troubles.counts()[Doing.COPYING, kind] >= 1, "a copy is tried again"
    assert found.lag.now is None, "without a schedule nothing is behind"


def test_i09_a_server_that_comes_up_has_what_was_never_acknowledged_fail(
    store: BackupStore, heard: Heard
) -> None:
    assert store.reserve(take(1)) is None
    with serving(store, heard, World()).running():
        pass
    assert failure(store) == NEVER_ACKNOWLEDGED
    assert heard == [f"checkpoint 1  failed: {NEVER_ACKNOWLEDGED}"]


@pytest.mark.parametrize(
    ("same_id", "again"), [(SameId.REFUSED, NotHigher(1, 1)), (SameId.ACKNOWLEDGED, 1)]
)
def test_the_same_id_twice_is_refused_as_by_zeebe_or_acknowledged_as_the_zep_says(
    store: BackupStore, heard: Heard, same_id: SameId, again: int | NotHigher
) -> None:
    logs = Logs()
    found = serving(store, heard, World(), logs=logs, same_id=same_id)
    with found.running():
        assert found.take(1) == 1
        heard.ended(1)
        assert found.take(1) == again
    assert heard == ["checkpoint 1  completed"]
    assert [log.count(1) for log in logs.records.values()] == [1, 1, 1]


# --- the schedule


class Broken(Logs):
    """Topics that answer with an error, as long as there is one."""

    error: Exception | None = None

    def latest_id(self) -> int:
        if self.error is not None:
            raise self.error
        return super().latest_id()


@pytest.mark.parametrize("fails", ["the copying", "the taking"])
def test_by_a_schedule_it_takes_them_and_lets_old_ones_go(
    store: BackupStore, heard: Heard, fails: str
) -> None:
    """The third one fails: were it completed, it would let the second one go, too."""
    world, logs = World(), Broken()
    found = serving(store, heard, world, Schedule(0, Retention(keep=1)), logs)
    with found.running():
        for id in (1, 2):
            found.look()
            heard.ended(id)
        if fails == "the copying":
            world.refusal = LAGS
        else:
            logs.error = StorageError("no space is left")
        found.look()
        heard.wait("checkpoint 1 is deleted: retention")
        assert store.read(2) is not None


@dataclass
class Delayed(World):
    """It decides only when it may."""

    may: threading.Event = field(default_factory=threading.Event)

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        self.may.wait()
        return super().decide(take, started)


def test_the_schedule_takes_no_other_while_many_are_not_finished_and_says_so(
    store: BackupStore, heard: Heard
) -> None:
    world = Delayed()
    found = serving(store, heard, world, Schedule(0))
    with found.running():
        try:
            for _ in range(2 * MOST_WAITING):
                found.look()
            assert [checkpoint.id for checkpoint in found.all()] == [3, 2, 1]
            assert found.lag.now is not None
        finally:
            world.may.set()
        heard.ended(3)
        wait_until(lambda: found.lag.now is None, "that it has caught up")
        found.look()
        heard.ended(4)


def test_the_schedule_says_an_error_once_until_it_changes_and_since_when_it_is_behind(
    store: BackupStore, heard: Heard
) -> None:
    logs = Broken()
    found = serving(store, heard, World(), Schedule(0), logs)
    for words in (*3 * ["no topic"], "no quorum", None, "no quorum"):
        logs.error = ClusterError(words) if words else None
        found.look()
    said = [text for text in heard if text.startswith("schedule: ")]
    assert said == ["schedule: no topic", "schedule: no quorum", "schedule: no quorum"]
    assert found.troubles.counts()[Doing.SCHEDULE, ErrorKind.EXPECTED] == 5
    assert found.lag.now is not None
    logs.error = None
    with found.running():
        wait_until(lambda: found.lag.now is None, "the next one")
    assert [text.split(" ", 2)[:2] for text in heard if text.startswith("checkpoints ")] == [
        ["checkpoints", "are"],
        ["checkpoints", "caught"],
    ]


def test_an_error_that_nobody_expected_does_not_end_the_schedule(
    store: BackupStore, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    logs = Broken()
    logs.error = TypeError("an id is None")
    found = serving(store, heard, World(), DAILY, logs)
    with found.running():
        wait_until(
            lambda: found.troubles.counts()[Doing.SCHEDULE, ErrorKind.UNEXPECTED], "the error"
        )
        logs.error = None
        heard.ended(1)


def test_one_that_cannot_be_deleted_keeps_no_other_from_going(
    store: BackupStore, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id in (1, 2, 3):
        completed(store, id)
        store.start(id, {})
    found = serving(store, heard, World(), Schedule(None, Retention(keep=1)))
    delete = store.delete

    def stuck(id: int) -> None:
        if id == 1:
            raise StorageError("read-only")
        delete(id)

    monkeypatch.setattr(store, "delete", stuck)
    for _ in range(2):
        found.look()
    assert heard == ["retention, checkpoint 1: read-only", "checkpoint 2 is deleted: retention"]
    assert found.troubles.counts()[Doing.RETENTION, ErrorKind.EXPECTED] == 2


def test_in_place_of_one_that_failed_another_is_taken_soon_and_later_each_time(
    store: BackupStore, heard: Heard
) -> None:
    """One that failed by a fault would leave a gap of a whole day."""
    now = [now_ms()]
    found = serving(store, heard, World(LAGS), DAILY, clock=lambda: now[0])
    with found.running():
        found.look()
        for id, wait in ((1, AGAIN_MS), (2, 2 * AGAIN_MS), (3, 4 * AGAIN_MS)):
            heard.wait(f"checkpoint {id}: {LAGS}")
            wait_until(lambda: not found._under_way, "the end of the copying")
            failed = found.all()[0].created_at_ms
            assert failed is not None
            now[0] = failed + wait - 1
            found.look()
            assert len(found.all()) == id
            now[0] = failed + wait

            def is_taken(id: int = id) -> bool:
                found.look()
                return len(found.all()) == id + 1

            wait_until(is_taken, "another one to be taken")


# --- a stop


@dataclass
class Halting(World):
    """A stop is requested while the first partition is copied."""

    stop: StopRequest = field(default_factory=StopRequest)

    def require_kept(self, take: TakeDocument) -> None:
        self.stop.request()


def test_a_server_that_is_stopped_ends_the_partition_under_way_and_leaves_the_rest(
    store: BackupStore, heard: Heard
) -> None:
    world = Halting()
    finisher = Finisher(store, world, world, side_by_side=1, wait=world.stop.wait)
    found = Serving(store, Coordinator(store, Logs()), finisher, heard.append, stop=world.stop)
    with found.running():
        assert found.take(1) == 1
        wait_until(lambda: world.stop.requested, "the first copy")
        assert found.take(2) == 2
    assert [text.split()[1] for text in heard if "`checkpoint finish" in text] == ["1", "2"]
    copies = [part.status for part in stored(store, 1).partitions]
    assert copies.count(Status.COMPLETED) == 1
    assert [stored(store, id).status for id in (1, 2)] == [Status.ONGOING, Status.ONGOING]
    with serving(store, heard, World()).running():
        heard.ended(1, 2)


# --- retention that is held back


@dataclass
class Holding(World):
    """The requests that hold retention back, in place of a cluster's control topic."""

    held: set[str] = field(default_factory=set)
    error: Exception | None = None
    seen: frozenset[str] = frozenset()
    """What was held while it was decided."""

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        self.seen = frozenset(self.held)
        return super().decide(take, started)

    def let_go(self, request: str) -> None:
        if self.error is not None:
            raise self.error
        self.held.remove(request)

    def release_ended(self, store: BackupStore) -> None:
        release_ended(store, set(self.held), self.let_go)


def holding(store: BackupStore, heard: Heard, world: Holding) -> Serving:
    finisher = Finisher(store, world, world, wait=lambda _: None)
    coordinator = Coordinator(store, Logs(), prepare=world.held.add)
    release = partial(world.release_ended, store)
    return Serving(store, coordinator, finisher, heard.append, release=release)


@pytest.mark.parametrize("refusal", [None, LAGS])
def test_retention_is_held_until_the_checkpoint_has_ended_and_others_stay_held(
    store: BackupStore, heard: Heard, refusal: Exception | None
) -> None:
    world = Holding(refusal, held={"of another store"})
    found = holding(store, heard, world)
    with found.running():
        found.take(1, "mine")
        wait_until(lambda: heard, "the end")
        assert found.take(1, "another") == NotHigher(1, 1)
    assert world.held == {"of another store"}
    assert world.seen == {"of another store", "mine"}


def test_a_release_that_fails_is_tried_again_and_a_server_that_comes_up_ends_old_holds(
    store: BackupStore, heard: Heard
) -> None:
    world = Holding(error=ClusterError("no quorum"))
    found = holding(store, heard, world)
    with found.running():
        found.take(1, "mine")
        heard.ended(1)
        found.look()
        heard.wait("retention of topics: no quorum")
    assert world.held == {"mine"}
    world.error = None
    with holding(store, heard, world).running():
        pass
    assert world.held == set()


def test_a_hold_of_a_checkpoint_that_is_copied_stays(store: BackupStore) -> None:
    Coordinator(store, Logs()).take(1, "mine")
    completed(store, 2)
    world = Holding(held={"mine", "request 2"})
    world.release_ended(store)
    assert world.held == {"mine"}
