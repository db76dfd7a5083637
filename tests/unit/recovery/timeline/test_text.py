"""The timeline that is pasted: complete for an incident, bounded and inert for anything."""

import stat
from pathlib import Path

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal
from breakglass.services.guard.lock import operator
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import ELECT, REORDER, RESTORE
from breakglass.services.recovery.timeline.account import Account, ExecutionState, account_of
from breakglass.services.recovery.timeline.text import (
    SAID,
    save_timeline,
    timeline_text,
)
from tests.unit.recovery.timeline import journals
from tests.unit.recovery.timeline.journals import CLUSTER, plan, step, timed


def told(path: Path, seconds: float = 1.0) -> list[str]:
    return timeline_text([Account(timed(path, seconds), ExecutionState.ENDED)]).splitlines()


def test_a_recovery_is_told_from_its_consent_to_its_end(tmp_path: Path) -> None:
    path = journals.recovery(tmp_path)
    assert told(path) == [
        "Recovery of 4 partitions: partly failed",
        "Cluster  prod-eu-1",
        "When     2023-11-14 22:13:20Z to 2023-11-14 22:13:31Z (UTC)",
        f"Who      {operator()}",
        "Loses    50 records, as agreed to",
        f"Digest   {journals.DIGEST}",
        f"Journal  {path}",
        "",
        f"22:13:20  begun by {operator()}",
        "22:13:21  plan of 4 partitions of ledger, orders, digest nusus-babab-babab",
        f"22:13:22  {operator()} agreed: 4 partitions lose 50",
        "22:13:23  rescue: ledger-3",
        "22:13:24  rescue: 1 saved",
        "22:13:25  reorder: 4 partitions of ledger, orders",
        "22:13:26  reorder: 4 accepted",
        "22:13:27  elect: 4 partitions of ledger, orders",
        "22:13:28  elect: 3 elected, 1 unknown",
        "22:13:29  restore order: 3 partitions of ledger, orders",
        "22:13:30  restore order: 3 accepted",
        "22:13:31  ended: partly failed",
        "",
        "ledger [3]: 1 elected, led by b1, loses 50, 50 records rescued",
        "orders [0-2]: 2 elected, 1 unknown, led by b1, loses 0",
        "",
        "Not as it was meant to be:",
        "  orders [2] unknown, order not put back: the controller did not answer in time",
        "",
        "Rescued records (print them with `breakglass backup cat FOLDER`):",
        "  ledger-3 b2: 50 records in rescues/prod-eu-1/topics/ledger/3",
    ]


def test_a_journal_of_many_requests_is_told_by_kind_and_stays_short(tmp_path: Path) -> None:
    partitions = [TopicPartition(f"topic-{number:03}", 0) for number in range(200)]
    with Journal.open(CLUSTER, tmp_path) as journal:
        plan(journal, dict.fromkeys(partitions, "0"))
        for partition in partitions:
            step(journal, REORDER, {partition: "accepted"})
            step(
                journal,
                ELECT,
                {partition: journals.elected(leader=1 + (partition == partitions[0]))},
            )
        step(journal, RESTORE, dict.fromkeys(partitions, "accepted"))
        journal.finish("succeeded")
    lines = told(journal.path)
    assert "22:13:23  reorder, from here on in 200 requests: 200 accepted" in lines
    assert "22:13:25  elect, from here on in 200 requests: 200 elected" in lines
    assert "topic-000 [0]: 1 elected, led by b2, loses 0" in lines
    assert lines[-1] == "and 150 more topics"
    assert len(lines) < 80


def test_hostile_text_is_inert_and_bounded(tmp_path: Path) -> None:
    text = timeline_text([account_of(journals.hostile(tmp_path))])
    assert all(line.isprintable() for line in text.split("\n"))
    assert all(len(line) <= SAID + 20 for line in text.split("\n"))
    assert "[b]refused[/]" in text


def test_a_timeline_is_written_for_its_owner_alone_in_place_of_an_older_one(tmp_path: Path) -> None:
    folder = tmp_path / "timelines"
    for text in ("an older and longer one", "text"):
        path = save_timeline(text, folder, "20231114T221320.000000Z")
    assert path.read_text() == "text\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(StorageError):
        save_timeline("text", path, "below a file")
