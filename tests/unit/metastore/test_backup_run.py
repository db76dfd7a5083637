"""The watch never ends in silence, and an alarm that cannot be written is told all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from breakglass.services.errors import WrongCluster
from breakglass.services.kafka.replicas.list_offsets import OffsetError
from breakglass.services.kafka.wire.answers import OFFSET_NOT_AVAILABLE
from breakglass.services.lag import Behind, LagAlarm
from breakglass.services.metastore import backup_run
from breakglass.services.metastore.backup_run import (
    BackupJob,
    MetastoreWatch,
    TopicChanged,
    TopicRun,
    _Noting,
)
from breakglass.services.metastore.events import Event, NotNoted, Shorter
from breakglass.services.metastore.glance import alarm_file
from breakglass.services.metastore.live_backup import LiveBackup
from breakglass.services.metastore.topic import Alarm, Danger, PolledCommands, TopicState, dangers
from breakglass.services.model import Unknown
from breakglass.services.session import ReadAccess
from tests.kit.clock import Clock
from tests.kit.waiting import wait_until
from tests.unit.metastore.generating import Generator

ALARM = Alarm(Danger.RETENTION_TIME, "topic t has retention.ms=0", {"value": "0"})


class BrokenAccess:
    """Whatever asks it finds a fault of ours."""

    def client(self, name: str) -> None:
        raise LookupError(name)


def test_what_ends_a_watch_is_raised_to_who_asks_it() -> None:
    access = cast("ReadAccess", BrokenAccess())
    with (
        MetastoreWatch(access, "t", lambda _: None) as watch,
        pytest.raises(LookupError, match="breakglass-metastore-watch"),
    ):
        wait_until(watch.check, "the fault")


@pytest.mark.parametrize("there", [True, False])
def test_an_alarm_is_told_whether_or_not_it_can_be_put_on_disk(tmp_path: Path, there: bool) -> None:
    folder = tmp_path if there else tmp_path / "gone"
    told: list[Event] = []
    _Noting(BackupJob("t", folder), told.append)(ALARM)
    assert told[0] == ALARM
    assert [type(event) for event in told[1:]] == ([] if there else [NotNoted])
    assert alarm_file(folder, "t").exists() is there


def test_a_topic_that_never_was_there_is_no_alarm_and_one_that_is_gone_is() -> None:
    """A mistyped service id names such a topic."""
    assert list(dangers(None, "t", None)) == []
    assert [alarm.danger for alarm in dangers(None, "t", "id")] == [Danger.TOPIC_MISSING]


STATE = TopicState("topic-id", 1, 1, {}, 0, 20, 3, leader_epoch=3)
RECORDS = tuple(Generator(8).records(4))


class Cluster:
    """Tells its id, which may change."""

    cluster_id = "a"
    sender = None

    def describe(self, _: object) -> Cluster:
        return self


class Backup(list[Any]):
    """Takes what it is given."""

    def take(self, records: object) -> None:
        self.append(records)


@pytest.fixture
def heard() -> list[object]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(
    tmp_path: Path, heard: list[object], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> TopicRun:
    """A run whose leader still says that it leads the same topic."""
    monkeypatch.setattr(backup_run, "topic_id_at", lambda *_: STATE.topic_id)
    watch = MetastoreWatch(cast("ReadAccess", None), "t", lambda _: None, clock)
    watch.newest = STATE
    job = BackupJob("t", tmp_path, follow=True)
    client = cast("Any", Cluster())
    lag = LagAlarm(heard.append)
    return TopicRun(client, job, watch, heard.append, lag, lambda: False, clock)


@pytest.mark.parametrize(("epoch", "taken"), [(2, True), (3, True), (4, False)])
def test_commands_of_a_later_leader_epoch_are_not_appended_before_the_log_is_compared(
    run: TopicRun, epoch: int, taken: bool
) -> None:
    """The client may follow the new leader before anybody else has heard of it."""
    backup = Backup()
    take: Callable[[], None] = lambda: run._take(  # noqa: E731
        cast("LiveBackup", backup), PolledCommands(RECORDS, True, 4, epoch), STATE
    )
    if taken:
        take()
        assert backup == [RECORDS]
    else:
        with pytest.raises(TopicChanged, match="leader epoch 4"):
            take()
        assert backup == []


def test_another_leader_has_the_log_compared_again_and_an_older_answer_does_not(
    run: TopicRun,
) -> None:
    run._watch.newest = replace(STATE, leader=2, leader_epoch=2)
    run._judge(STATE, 20, caught_up=True)
    run._watch.newest = replace(STATE, leader=2, leader_epoch=4)
    with pytest.raises(TopicChanged, match="b2 leads the topic in leader epoch 4"):
        run._judge(STATE, 20, caught_up=True)


@pytest.mark.parametrize(
    ("seen", "position", "caught_up", "reason"),
    [
        (STATE, 20, True, ""),
        (STATE, 19, True, "the topic ends at offset 20, and it was read up to 19"),
        (STATE, 20, False, "the topic ends at offset 20, and it was read up to 20"),
        (replace(STATE, leader=None, stable_end=Unknown("no leader")), 20, True, "no leader"),
        (None, 20, True, "the topic is gone"),
    ],
)
def test_it_is_behind_while_nobody_knows_that_everything_was_read(
    run: TopicRun,
    heard: list[object],
    clock: Clock,
    seen: TopicState | None,
    position: int,
    caught_up: bool,
    reason: str,
) -> None:
    clock.advance(backup_run.BEHIND_SECONDS)
    run._watch.judge(seen)
    run._judge(STATE, position, caught_up=caught_up)
    assert heard == []
    clock.advance(0.1)
    run._judge(STATE, position, caught_up=caught_up)
    assert [one.reason for one in heard if isinstance(one, Behind)] == ([reason] if reason else [])


def test_a_new_leader_that_does_not_know_the_end_yet_is_asked_again(
    run: TopicRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it lets consumers read less, which would look as if the log had been cut."""
    answers = [OffsetError("not yet", OFFSET_NOT_AVAILABLE), 20]
    monkeypatch.setattr(backup_run, "stable_end", lambda *_: answers.pop(0))
    assert run._stable_end(STATE) is None
    assert run._stable_end(STATE) == 20


def test_another_cluster_behind_the_same_addresses_ends_it(run: TopicRun) -> None:
    run._cluster_id = "a"
    run._require_same_cluster()
    Cluster.cluster_id, before = "b", Cluster.cluster_id
    try:
        with pytest.raises(WrongCluster):
            run._require_same_cluster()
    finally:
        Cluster.cluster_id = before


class Short(Backup):
    """A backup that holds three commands more than the topic."""

    name = path = None
    lines = appended = 0

    def __init__(self, tell: Callable[[Shorter], None]) -> None:
        super().__init__()
        self._tell = tell

    def reached_end(self) -> int:
        self._tell(Shorter("a.bak", 0, 3))
        return 3


def test_a_topic_that_was_shorter_from_the_first_look_on_was_not_cut_at_an_election(
    run: TopicRun, heard: list[object]
) -> None:
    """It was deleted and created again; after each fault it is compared from its beginning."""
    short = Short(lambda event: run._told(event, STATE))
    for _ in range(2):
        run._caught_up(cast("LiveBackup", short), 0, STATE)
    assert run._watch.alarms == 0
    assert "the topic holds no command" in map(str, heard)
