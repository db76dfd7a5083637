"""A server of checkpoints: finished in the background, by a schedule, gone on with."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from services.checkpoint.coordinator import NEVER_ACKNOWLEDGED, Coordinator
from services.checkpoint.finishing import Finisher
from services.checkpoint.protocol.values import Status
from services.checkpoint.serving import Schedule, Serving, due
from services.checkpoint.store.backup_store import BackupStore
from services.checkpoint.store.retention import Retention
from services.errors import ClusterError
from tests.unit.checkpoint.store.stores import take
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
    store: BackupStore, heard: Heard, world: World, schedule: Schedule | None = None
) -> Serving:
    finisher = Finisher(store, world, world, wait=lambda _: None)
    return Serving(store, Coordinator(store, Logs()), finisher, heard.say, schedule)


def test_what_is_taken_is_completed_without_anybody_waiting(store: BackupStore) -> None:
    heard = Heard()
    found = serving(store, heard, World())
    with found.running():
        assert found.take(1) == 1
        heard.wait("checkpoint 1  completed")
    assert [one.status for one in found.all()] == [Status.COMPLETED]


def test_why_one_has_failed_is_said(store: BackupStore) -> None:
    heard = Heard()
    found = serving(store, heard, World(ClusterError("group bank lags")))
    with found.running():
        found.take(1)
        heard.wait("checkpoint 1  group bank lags")


def test_i09_a_server_that_comes_up_goes_on_with_what_it_had_begun(store: BackupStore) -> None:
    Coordinator(store, Logs()).take(1)
    heard = Heard()
    with serving(store, heard, World()).running():
        heard.wait("checkpoint 1  completed")


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


def test_by_a_schedule_it_takes_them_and_lets_old_ones_go(store: BackupStore) -> None:
    heard = Heard()
    found = serving(store, heard, World(), Schedule(0, Retention(keep=1)))
    with found.running():
        for id in (1, 2):
            found.look()
            heard.wait(f"checkpoint {id}  completed")
        found.look()
        heard.wait("checkpoint 1 is deleted: retention")
        assert store.read(2) is not None
