"""A server of checkpoints: finished in the background, by a schedule, gone on with."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from breakglass.services.checkpoint.background_errors import Doing, ErrorKind, Troubles
from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.finishing import NEVER_ACKNOWLEDGED, Finisher
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.served_holds import ServedHolds
from breakglass.services.checkpoint.serving import (
    AGAIN_MS,
    MOST_WAITING,
    SameId,
    Schedule,
    Serving,
    due,
)
from breakglass.services.checkpoint.stop_request import StopRequest
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    StartedDocument,
    TakeDocument,
)
from breakglass.services.checkpoint.store.retention import Retention
from breakglass.services.clock import now_ms
from breakglass.services.errors import ClusterError, StorageError
from tests.kit.waiting import wait_until
from tests.unit.checkpoint.store.stores import completed, take
from tests.unit.checkpoint.test_finishing import World
from tests.unit.checkpoint.topics import Logs

HOUR = 3_600_000
DAILY = Schedule(24 * HOUR)


@pytest.mark.parametrize(
    ("newest", "now", "wanted"),
    [(None, 0, True), (0, 24 * HOUR - 1, False), (0, 24 * HOUR, True), (0, 1000 * HOUR, True)],
)
def test_the_next_one_is_due_so_long_after_the_last(
    newest: int | None, now: int, wanted: bool
) -> None:
    assert due(newest, DAILY, now) is wanted


def test_without_a_schedule_none_is_ever_due() -> None:
    assert not due(None, Schedule(), 10**15)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return BackupStore(str(tmp_path))


class Heard(list[str]):
    """What the server said, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._said = threading.Condition()

    def say(self, text: str) -> None:
        with self._said:
            self.append(text)
            self._said.notify_all()

    def wait(self, text: str) -> None:
        with self._said:
            assert self._said.wait_for(lambda: text in self, 30), self


def serving(
    store: BackupStore,
    heard: Heard,
    world: World,
    schedule: Schedule | None = None,
    logs: Logs | None = None,
) -> Serving:
    finisher = Finisher(store, world, world, wait=lambda _: None)
    return Serving(store, Coordinator(store, logs or Logs()), finisher, heard.say, schedule)


def test_what_is_taken_is_completed_without_anybody_waiting(store: BackupStore) -> None:
    heard = Heard()
    found = serving(store, heard, World())
    with found.running():
        assert found.take(1) == 1
        heard.wait("checkpoint 1  completed")
    assert [checkpoint.status for checkpoint in found.all()] == [Status.COMPLETED]


def test_why_one_has_failed_is_said(store: BackupStore) -> None:
    heard = Heard()
    found = serving(store, heard, World(ClusterError("group bank lags")))
    with found.running():
        found.take(1)
        heard.wait("checkpoint 1: group bank lags")
    assert found.troubles.counts()[Doing.COPYING, ErrorKind.EXPECTED] == 1


def test_i09_a_server_that_comes_up_goes_on_with_what_it_had_begun(store: BackupStore) -> None:
    Coordinator(store, Logs()).take(1)
    heard = Heard()
    with serving(store, heard, World()).running():
        heard.wait("checkpoint 1  completed")


def test_by_retention_a_server_removes_what_a_killed_deletion_left(store: BackupStore) -> None:
    for id in (1, 2):
        completed(store, id)
    folder = Path(store.address) / "checkpoints" / "1"
    (folder / "deleted.json").write_text('{"schema": 1, "at_ms": 5}')
    heard = Heard()
    with serving(store, heard, World()).running():
        pass
    assert store.deleted_with_rest() == (1,)
    with serving(store, heard, World(), Schedule(None, Retention(keep=5))).running():
        heard.wait("checkpoint 1 is deleted: what was left of it")
    assert store.deleted_with_rest() == ()
    assert [checkpoint.id for checkpoint in store.all()] == [2]


def test_i09_a_take_that_died_fails_beside_newer_ones_while_the_server_runs(
    store: BackupStore,
) -> None:
    found = serving(store, Heard(), World())
    assert store.reserve(take(1)) is None
    completed(store, 2)
    store.start(2, {})
    found.look()
    assert [checkpoint.status for checkpoint in found.all()] == [Status.COMPLETED, Status.FAILED]


def test_i09_a_server_that_comes_up_has_what_was_never_acknowledged_fail(
    store: BackupStore,
) -> None:
    assert store.reserve(take(1)) is None
    heard = Heard()
    with serving(store, heard, World()).running():
        heard.wait(f"checkpoint 1  failed: {NEVER_ACKNOWLEDGED}")
    found = store.read(1)
    assert found is not None
    assert found.status is Status.FAILED


def test_by_a_schedule_it_takes_them_and_lets_old_ones_go(
    store: BackupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third one fails: were it completed, it would let the second one go, too."""
    monkeypatch.setattr("breakglass.services.checkpoint.serving.LOOK_SECONDS", 3_600.0)
    heard, world = Heard(), World()
    found = serving(store, heard, world, Schedule(0, Retention(keep=1)))
    with found.running():
        for id in (1, 2):
            found.look()
            heard.wait(f"checkpoint {id}  completed")
        world.refusal = ClusterError("group bank lags")
        found.look()
        heard.wait("checkpoint 1 is deleted: retention")
        assert store.read(2) is not None


def test_a_request_that_is_sent_again_is_finished_once(store: BackupStore) -> None:
    heard = Heard()
    found = serving(store, heard, World())
    with found.running():
        for _ in range(3):
            found.take(1, "mine")
        heard.wait("checkpoint 1  completed")
        found.take(1, "mine")
        found.take(2, "another")
        heard.wait("checkpoint 2  completed")
    assert heard == ["checkpoint 1  completed", "checkpoint 2  completed"]


class Broken(Logs):
    """Topics that answer with an error, as long as there is one."""

    error: Exception | None = None

    def latest_id(self) -> int:
        if self.error is not None:
            raise self.error
        return super().latest_id()


def test_old_ones_go_where_no_other_can_be_taken(store: BackupStore) -> None:
    heard, logs = Heard(), Broken()
    found = serving(store, heard, World(), Schedule(0, Retention(keep=1)), logs)
    with found.running():
        for id in (1, 2):
            found.look()
            heard.wait(f"checkpoint {id}  completed")
        logs.error = StorageError("no space is left")
        found.look()
        heard.wait("checkpoint 1 is deleted: retention")


@dataclass
class Delayed(World):
    """It decides only when it may."""

    may: threading.Event = field(default_factory=threading.Event)

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        assert self.may.wait(30)
        return super().decide(take, started)


def test_the_schedule_takes_no_other_while_many_are_not_finished_and_says_so(
    store: BackupStore,
) -> None:
    heard, world = Heard(), Delayed()
    found = serving(store, heard, world, Schedule(0))
    with found.running():
        for _ in range(2 * MOST_WAITING):
            found.look()
        assert [checkpoint.id for checkpoint in found.all()] == [3, 2, 1]
        assert found.lag.now is not None
        assert found.lag.now.reason == "3 checkpoints are not finished yet"
        world.may.set()
        heard.wait("checkpoint 3  completed")
        wait_until(lambda: found.lag.now is None, "that it has caught up")
        found.look()
        heard.wait("checkpoint 4  completed")


def test_the_schedule_says_an_error_once_until_it_changes(store: BackupStore) -> None:
    heard, logs = Heard(), Broken()
    found = serving(store, heard, World(), Schedule(0), logs)
    for words in (*3 * ["There is no topic nosuch"], "no quorum"):
        logs.error = ClusterError(words)
        found.look()
    said = [text for text in heard if text.startswith("schedule")]
    assert said == ["schedule: There is no topic nosuch", "schedule: no quorum"]
    logs.error = None
    found.look()
    logs.error = ClusterError("no quorum")
    found.look()
    assert heard.count("schedule: no quorum") == 2
    assert found.troubles.counts()[Doing.SCHEDULE, ErrorKind.EXPECTED] == 5


def test_an_error_that_nobody_expected_does_not_end_the_schedule(
    store: BackupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.services.checkpoint.serving.LOOK_SECONDS", 0.01)
    heard, logs = Heard(), Broken()
    logs.error = TypeError("an id is None")
    found = serving(store, heard, World(), DAILY, logs)
    with found.running():
        heard.wait("schedule: failed unexpectedly (TypeError: an id is None); please report it")
        logs.error = None
        heard.wait("checkpoint 1  completed")
    assert found.troubles.counts()[Doing.SCHEDULE, ErrorKind.UNEXPECTED] >= 1


def test_an_error_that_nobody_expected_does_not_end_the_copying(store: BackupStore) -> None:
    heard = Heard()
    world = World(KeyError(3))
    found = serving(store, heard, world)
    with found.running():
        found.take(1)
        heard.wait("checkpoint 1: failed unexpectedly (KeyError: 3); please report it")
        world.refusal = None
        found.take(2)
        heard.wait("checkpoint 2  completed")
    assert found.troubles.counts()[Doing.COPYING, ErrorKind.UNEXPECTED] == 1


def test_one_that_cannot_be_deleted_keeps_no_other_from_going(
    store: BackupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    found = serving(store, heard, World(), Schedule(None, Retention(keep=1)))
    with found.running():
        for id in (1, 2, 3):
            found.take(id)
            heard.wait(f"checkpoint {id}  completed")
    delete = store.delete

    def stuck(id: int) -> None:
        if id == 1:
            raise StorageError("the disk is read-only")
        delete(id)

    monkeypatch.setattr(store, "delete", stuck)
    for _ in range(2):
        found.look()
    assert heard.count("retention, checkpoint 1: the disk is read-only") == 1
    assert heard.count("checkpoint 2 is deleted: retention") == 1
    assert found.troubles.counts()[Doing.RETENTION, ErrorKind.EXPECTED] == 2


def test_the_details_of_what_nobody_expected_are_kept_and_named() -> None:
    heard = Heard()
    Troubles(heard.say, keep=lambda _: "/there").met(Doing.COPYING, "checkpoint 1", KeyError(3))
    assert heard == [
        "checkpoint 1: failed unexpectedly (KeyError: 3); please report it with /there"
    ]


def test_a_schedule_that_is_not_kept_says_since_when_and_that_it_is_kept_again(
    store: BackupStore,
) -> None:
    heard, logs = Heard(), Broken()
    found = serving(store, heard, World(), Schedule(0), logs)
    logs.error = ClusterError("no quorum")
    found.look()
    assert [text for text in heard if text.startswith("checkpoints are behind since ")]
    assert found.lag.now is not None
    logs.error = None
    with found.running():
        found.look()
        wait_until(lambda: found.lag.now is None, "the next one")
    assert [text for text in heard if text.startswith("checkpoints caught up again at ")]


def test_in_place_of_one_that_failed_another_is_taken_soon_and_later_each_time(
    store: BackupStore,
) -> None:
    """One that failed by a fault would leave a gap of a whole day."""
    heard, now = Heard(), [now_ms()]
    finisher = Finisher(store, World(ClusterError("no leader")), World(), wait=lambda _: None)
    found = Serving(
        store, Coordinator(store, Logs()), finisher, heard.say, DAILY, clock=lambda: now[0]
    )
    with found.running():
        found.look()
        for id, wait in ((1, AGAIN_MS), (2, 2 * AGAIN_MS), (3, 4 * AGAIN_MS)):
            heard.wait(f"checkpoint {id}: no leader")
            failed = found.all()[0].created_at_ms
            assert failed is not None
            for now[0], count in ((failed + wait - 1, id), (failed + wait, id + 1)):
                found.look()
                assert len(found.all()) == count


def test_without_a_schedule_nothing_is_behind(store: BackupStore) -> None:
    heard = Heard()
    found = serving(store, heard, World(ClusterError("group bank lags")))
    with found.running():
        found.take(1)
        heard.wait("checkpoint 1: group bank lags")
    assert found.lag.now is None


@pytest.mark.parametrize(
    ("same_id", "again"), [(SameId.REFUSED, NotHigher(1, 1)), (SameId.ACKNOWLEDGED, 1)]
)
def test_the_same_id_twice_is_refused_as_by_zeebe_or_acknowledged_as_the_zep_says(
    store: BackupStore, same_id: SameId, again: int | NotHigher
) -> None:
    heard, logs = Heard(), Logs()
    finisher = Finisher(store, World(), World(), wait=lambda _: None)
    found = Serving(store, Coordinator(store, logs), finisher, heard.say, same_id=same_id)
    with found.running():
        assert found.take(1) == 1
        heard.wait("checkpoint 1  completed")
        assert found.take(1) == again
    assert heard == ["checkpoint 1  completed"]
    assert [log.count(1) for log in logs.records.values()] == [1, 1, 1]


def test_an_id_that_failed_or_was_deleted_is_acknowledged_by_no_server(store: BackupStore) -> None:
    completed(store, 1)
    store.delete(1)
    assert store.reserve(take(2)) is None
    store.fail_checkpoint(2, "group bank lags")
    finisher = Finisher(store, World(), World(), wait=lambda _: None)
    coordinator = Coordinator(store, Logs())
    found = Serving(store, coordinator, finisher, Heard().say, same_id=SameId.ACKNOWLEDGED)
    for id in (1, 2):
        assert found.take(id) == NotHigher(id, 2)


class Halting(World):
    """A stop is requested while the first partition is copied."""

    def __init__(self, stop: StopRequest) -> None:
        super().__init__()
        self._stop = stop

    def require_kept(self, take: TakeDocument) -> None:
        self._stop.request()


def stoppable(store: BackupStore, heard: Heard, world: World, stop: StopRequest) -> Serving:
    finisher = Finisher(store, world, world, side_by_side=1, wait=stop.wait)
    return Serving(store, Coordinator(store, Logs()), finisher, heard.say, stop=stop)


def test_a_server_that_is_stopped_ends_the_partition_under_way_and_leaves_the_rest(
    store: BackupStore,
) -> None:
    heard, stop = Heard(), StopRequest()
    found = stoppable(store, heard, Halting(stop), stop)
    with found.running():
        assert found.take(1) == 1
        wait_until(lambda: stop.requested, "the first copy")
        assert found.take(2) == 2
    left = [text for text in heard if "is acknowledged, and not copied yet" in text]
    assert [text.split()[1] for text in left] == ["1", "2"]
    (second, first) = found.all()
    assert [part.status for part in first.partitions].count(Status.COMPLETED) == 1
    assert (second.status, first.status) == (Status.ONGOING, Status.ONGOING)
    with serving(store, heard, World()).running():
        heard.wait("checkpoint 1  completed")
        heard.wait("checkpoint 2  completed")


class Waiting(World):
    """A group lags, so the decision waits; a stop ends the wait."""

    def __init__(self, stop: StopRequest) -> None:
        super().__init__()
        self._stop = stop

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        self._stop.request()
        self._stop.wait(60)
        raise AssertionError("the stop was not heeded")


def test_a_stop_ends_a_decision_that_waits_and_fails_nothing(store: BackupStore) -> None:
    heard, stop = Heard(), StopRequest()
    found = stoppable(store, heard, Waiting(stop), stop)
    with found.running():
        found.take(1)
        wait_until(lambda: stop.requested, "the decision")
    assert found.all()[0].status is Status.ONGOING
    assert found.troubles.counts()[Doing.COPYING, ErrorKind.UNEXPECTED] == 0


class Held(set[str]):
    """The requests that hold retention back, in place of a cluster's control topic."""

    error: Exception | None = None

    def let_go(self, request: str) -> None:
        if self.error is not None:
            raise self.error
        self.remove(request)


def holding(store: BackupStore, heard: Heard, world: World, held: Held) -> Serving:
    holds = ServedHolds(store, held.add, held.let_go, lambda: set(held))
    finisher = Finisher(store, world, world, wait=lambda _: None)
    coordinator = Coordinator(store, Logs(), prepare=holds.hold)
    return Serving(store, coordinator, finisher, heard.say, release=holds.release_ended)


class Watching(World):
    """Notes what is held while it decides."""

    def __init__(self, held: Held, refusal: Exception | None = None) -> None:
        super().__init__(refusal)
        self.held, self.seen = held, set[str]()

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        self.seen = set(self.held)
        return super().decide(take, started)


@pytest.mark.parametrize("refusal", [None, ClusterError("group bank lags")])
def test_retention_is_held_until_the_checkpoint_has_ended_and_others_stay_held(
    store: BackupStore, refusal: Exception | None
) -> None:
    heard, held = Heard(), Held({"of another store"})
    world = Watching(held, refusal)
    found = holding(store, heard, world, held)
    with found.running():
        found.take(1, "mine")
        heard.wait("checkpoint 1  completed" if refusal is None else f"checkpoint 1: {refusal}")
        wait_until(lambda: held == {"of another store"}, "the release")
    assert world.seen == {"of another store", "mine"}


def test_a_request_that_is_refused_holds_nothing(store: BackupStore) -> None:
    heard, held = Heard(), Held()
    found = holding(store, heard, World(), held)
    with found.running():
        found.take(1, "mine")
        heard.wait("checkpoint 1  completed")
        assert found.take(1, "another") == NotHigher(1, 1)
    assert held == set()


def test_a_release_that_fails_is_tried_again_and_a_server_that_comes_up_ends_old_holds(
    store: BackupStore,
) -> None:
    heard, held = Heard(), Held()
    held.error = ClusterError("no quorum")
    found = holding(store, heard, World(), held)
    with found.running():
        found.take(1, "mine")
        heard.wait("checkpoint 1  completed")
        heard.wait("retention of topics: no quorum")
    assert held == {"mine"}
    held.error = None
    with holding(store, heard, World(), held).running():
        wait_until(lambda: not held, "the release")


def test_a_hold_of_a_checkpoint_that_is_copied_stays(store: BackupStore) -> None:
    Coordinator(store, Logs()).take(1, "mine")
    completed(store, 2)
    held = Held({"mine", "request 2"})
    ServedHolds(store, held.add, held.let_go, lambda: set(held)).release_ended()
    assert held == {"mine"}
