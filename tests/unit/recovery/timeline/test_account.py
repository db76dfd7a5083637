"""What a journal tells of itself: in a line, and by partition.

The timeline that is pasted: complete for an incident, bounded and inert for anything.
"""

import stat
from pathlib import Path, PurePath

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, StepName, UnreadableJournal
from breakglass.services.guard.lock import operator
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.end_transactions import STEP as END
from breakglass.services.recovery.execution.steps import ELECT, REORDER, RESCUE, RESTORE, UNDO
from breakglass.services.recovery.group_reset import RESTORE_STEP
from breakglass.services.recovery.timeline.account import (
    SAID,
    UNTROUBLED,
    Account,
    Brief,
    ExecutionState,
    Shelf,
    account_of,
    being_written,
    save_timeline,
    timeline_text,
)
from breakglass.services.recovery.timeline.ending import (
    NOT_ELECTED,
    NOTHING_SENT,
    PartitionEnding,
    RescuedReplica,
    stake_of,
)
from tests.unit.recovery.timeline import journals
from tests.unit.recovery.timeline.journals import CLUSTER, LEDGER, ORDERS, plan, step, timed


def ending(account: Account, partition: TopicPartition) -> PartitionEnding:
    return next(one for one in account.endings if one.partition == partition)


def only(told: list[Brief | UnreadableJournal]) -> Brief:
    (brief,) = told
    assert isinstance(brief, Brief)
    return brief


def test_each_partition_ends_with_leader_epoch_rung_price_and_what_was_rescued(
    tmp_path: Path,
) -> None:
    account = account_of(journals.recovery(tmp_path))
    path = PurePath("rescues/prod-eu-1/topics/ledger/3")
    assert ending(account, LEDGER) == PartitionEnding(
        LEDGER,
        "elected",
        "",
        1,
        6,
        "redundant",
        "50",
        (RescuedReplica(LEDGER, 2, 50, path),),
        False,
    )
    lost = ending(account, ORDERS[2])
    assert (lost.result, lost.reason, lost.leader) == ("unknown", journals.TIMED_OUT, 1)
    assert lost.order_kept


def test_an_order_that_was_written_and_not_put_back_is_told_until_it_is(tmp_path: Path) -> None:
    with Journal.open(CLUSTER, tmp_path) as journal:
        plan(journal, {ORDERS[0]: "0"})
        step(journal, REORDER, {ORDERS[0]: "accepted"})
        written = ending(account_of(journal.path), ORDERS[0])
        step(journal, UNDO, {ORDERS[0]: "accepted"})
    undone = ending(account_of(journal.path), ORDERS[0])
    assert (written.result, written.order_kept) == (NOT_ELECTED, True)
    assert (undone.result, undone.order_kept) == ("undone", False)


@pytest.mark.parametrize(
    ("name", "result", "counted"),
    [
        (StepName.RESTORE_RECORDS, None, "unknown"),
        (StepName.RESTORE_RECORDS, "restored", "restored"),
        (StepName.RESTORE_COMMAND_TOPIC, "succeeded", "restored"),
        (StepName.TAKE_CHECKPOINT, "done", "started"),
        (StepName.TAKE_CHECKPOINT, "unknown", "unknown"),
    ],
)
def test_each_step_ends_as_its_outcome_says_or_unknown(
    tmp_path: Path, name: str, result: str | None, counted: str
) -> None:
    with Journal.open(CLUSTER, tmp_path) as journal:
        step(journal, name, {LEDGER: result})
    account = account_of(journal.path)
    assert (account.brief.counts, account.brief.resumable) == ({counted: 1}, False)
    assert ({one.result for one in account.endings} <= UNTROUBLED) == (counted != "unknown")


@pytest.mark.parametrize("name", [END, *StepName])
def test_no_step_that_was_sent_is_called_nothing_sent(tmp_path: Path, name: str) -> None:
    with Journal.open(CLUSTER, tmp_path) as journal:
        step(journal, name, {LEDGER: "done"})
    brief = account_of(journal.path).brief
    assert (NOTHING_SENT in brief.counts, "nothing" in brief.what) == (False, False)


@pytest.mark.parametrize(
    ("groups", "result", "reason"),
    [
        ({"result": "moved", "reason": ""}, "restored", ""),
        ({"result": "failed", "reason": "its consumers run"}, "failed", "its consumers run"),
    ],
    ids=["its groups moved", "a group stays"],
)
def test_a_restore_ends_as_its_records_did_unless_a_group_stays_behind(
    tmp_path: Path, groups: dict[str, str], result: str, reason: str
) -> None:
    """Records are announced first; their outcome is noted behind that of the groups."""
    with Journal.open(CLUSTER, tmp_path) as journal:
        records = journal.request(StepName.RESTORE_RECORDS, {LEDGER: {}, ORDERS[0]: {}})
        moved = journal.request(RESTORE_STEP, {LEDGER: {"from": None, "to": 7}}, group="bank")
        journal.outcome(moved, {LEDGER: groups})
        differs = {"result": "differs"}
        journal.outcome(records, {LEDGER: {"result": "restored"}, ORDERS[0]: differs})
        journal.finish("partly failed")
    account = account_of(journal.path)
    told = ending(account, LEDGER)
    assert (told.result, told.reason) == (result, reason)
    assert ending(account, ORDERS[0]).result == "differs"
    assert f"1 {result}" in timeline_text([account])


@pytest.mark.parametrize("saved", [7, "text", {}, [{"broker": "seven"}, {"path": "x"}, None]])
def test_a_rescue_entry_of_a_foreign_hand_is_left_out(tmp_path: Path, saved: object) -> None:
    with Journal.open(CLUSTER, tmp_path) as journal:
        plan(journal, {LEDGER: "50"})
        step(journal, RESCUE, {LEDGER: {"result": "saved", "saved": saved}})
    assert ending(account_of(journal.path), LEDGER).rescued == ()


@pytest.mark.parametrize("path", ["../../etc/passwd", "/dev/zero"])
def test_a_path_in_a_journal_is_told_and_cannot_be_opened(tmp_path: Path, path: str) -> None:
    """A journal may be of a foreign hand: what it names is a text, not a file of ours."""
    with Journal.open(CLUSTER, tmp_path) as journal:
        plan(journal, {LEDGER: "50"})
        saved = [{"broker": 1, "records": 5, "path": path}]
        step(journal, RESCUE, {LEDGER: {"result": "saved", "saved": saved}})
    (rescued,) = ending(account_of(journal.path), LEDGER).rescued
    assert str(rescued.path) == path
    assert not isinstance(rescued.path, Path)


@pytest.mark.parametrize("line", [b'{"schema": 1' + 5_000 * b"1" + b"}", 99_999 * b"[" + b"\n"])
def test_a_line_too_large_to_be_read_makes_an_unreadable_journal(
    tmp_path: Path, line: bytes
) -> None:
    path = journals.group_reset(tmp_path)
    for text, why in ((line.rstrip(), "too large to be read"), (b"nothing", "line 1")):
        path.write_bytes(text + b"\n")
        (told,) = Shelf(tmp_path).briefs([CLUSTER])
        assert isinstance(told, UnreadableJournal)
        assert why in told.reason


class TestShelf:
    def test_one_that_is_being_written_is_running_until_its_writer_is_gone(
        self, tmp_path: Path
    ) -> None:
        shelf = Shelf(tmp_path)
        with Journal.open(CLUSTER, tmp_path) as journal:
            plan(journal, {LEDGER: "50"})
            assert being_written(journal.path)
            running = only(shelf.briefs([CLUSTER]))
            assert (running.result, running.resumable) == ("running", False)
        assert only(shelf.briefs([CLUSTER])).result == "interrupted"


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ([], "-"),
        ([None, ""], "-"),
        (["0", "0"], "0"),
        (["50", "1,874"], "1,924"),
        (["50", "~3"], "~53"),
        (["50", "unknown", "[7]"], "50 + ? (2)"),
        (["unknown"], "0 + ? (1)"),
        (["9" * 5_000], "0 + ? (1)"),
    ],
)
def test_prices_are_summed_and_unknown_ones_never_added_up(
    prices: list[object], expected: str
) -> None:
    assert str(stake_of(prices)) == expected


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
