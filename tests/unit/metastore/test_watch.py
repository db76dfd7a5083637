"""The watch never ends in silence, and an alarm that cannot be written is told all the same."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from breakglass.services.metastore.backup_job import BackupJob
from breakglass.services.metastore.backup_run import _Noting
from breakglass.services.metastore.events import Event, NotNoted
from breakglass.services.metastore.status_file import alarm_file
from breakglass.services.metastore.topic_state import Alarm, Danger, dangers
from breakglass.services.metastore.watch import MetastoreWatch
from breakglass.services.session import ReadAccess
from tests.kit.waiting import wait_until

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
