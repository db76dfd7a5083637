"""Writers of one account take turns at the lock of the cluster, as long as `--timeout` says."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import NoReturn
from unittest.mock import MagicMock

import pytest

from breakglass.services import patience
from breakglass.services.errors import AlreadyRunning, ConnectFailed
from breakglass.services.guard.act import Frozen
from breakglass.services.guard.journal import Journal
from breakglass.services.metastore.acts import command_topic as module
from breakglass.services.metastore.acts.command_topic import HandToServer, SubmitStatement
from breakglass.services.metastore.ksql_server import KsqlServer, server_url
from breakglass.services.metastore.log.validator import StatementRejected
from tests.kit.deadlines import HOUR
from tests.kit.waiting import DEADLINE_SECONDS

CLUSTER = "a-cluster"


def opened(seconds: float, folder: Path) -> Journal:
    act = SubmitStatement("ksql_", "DROP TYPE t;", seconds)
    return act.open_journal(Frozen(CLUSTER, ()), folder)


def test_a_writer_waits_for_the_lock_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Event()
    open_journal = Journal.open.__func__  # type: ignore[attr-defined]

    def noting(cls: type[Journal], cluster_id: str, folder: Path | None = None) -> Journal:
        try:
            journal: Journal = open_journal(cls, cluster_id, folder)
        except AlreadyRunning:
            refused.set()
            raise
        return journal

    with ThreadPoolExecutor(1) as pool:
        with Journal.open(CLUSTER, tmp_path):
            monkeypatch.setattr(Journal, "open", classmethod(noting))
            second = pool.submit(opened, HOUR, tmp_path)
            assert refused.wait(DEADLINE_SECONDS)
        second.result(DEADLINE_SECONDS).close()


def test_s50_the_first_look_of_a_submission_has_the_time_of_the_submission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []

    def info(_: KsqlServer, seconds: float) -> NoReturn:
        given.append(seconds)
        raise ConnectFailed("it hangs")

    log = MagicMock()
    monkeypatch.setattr(module, "CommandLog", log)
    monkeypatch.setattr(KsqlServer, "info", info)
    server = KsqlServer(server_url("http://127.0.0.1:1"))
    front = MagicMock()
    with pytest.raises(ConnectFailed):
        HandToServer("ksql_", "DROP TYPE t;", server, HOUR).freeze(front)
    with pytest.raises(StatementRejected):
        SubmitStatement("ksql_", "DROP TYPE t;", HOUR).freeze(front)
    asked = [
        *front.reading().__enter__().describe.call_args_list,
        *log().__enter__().catch_up.call_args_list,
    ]
    assert [patience.JOB < seconds <= HOUR for seconds in given] == [True]
    assert len(asked) == 4
    assert all(call.args[0].remaining() > patience.JOB for call in asked)


def test_a_lock_that_stays_is_said_once_the_time_is_up(tmp_path: Path) -> None:
    with Journal.open(CLUSTER, tmp_path), pytest.raises(AlreadyRunning):
        opened(0.0, tmp_path)
