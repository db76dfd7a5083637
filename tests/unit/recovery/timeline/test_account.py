"""What a journal tells of itself: in a line, and by partition."""

from pathlib import Path, PurePath

import pytest

from breakglass.services.guard import steps
from breakglass.services.guard.journal import Journal, UnreadableJournal
from breakglass.services.guard.steps import RESTORE_COMMAND_TOPIC as COMMAND_TOPIC
from breakglass.services.guard.steps import RESTORE_RECORDS as RECORDS
from breakglass.services.guard.steps import TAKE_CHECKPOINT as TAKE
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.end_transactions import STEP as END
from breakglass.services.recovery.execution.steps import REORDER, RESCUE, UNDO
from breakglass.services.recovery.group_reset import RESTORE_STEP
from breakglass.services.recovery.timeline.account import (
    Account,
    Brief,
    Shelf,
    account_of,
    being_written,
)
from breakglass.services.recovery.timeline.ending import (
    NOT_ELECTED,
    NOTHING_SENT,
    PartitionEnding,
    RescuedReplica,
    stake_of,
)
from breakglass.services.recovery.timeline.text import UNTROUBLED, timeline_text
from tests.unit.recovery.timeline import journals
from tests.unit.recovery.timeline.journals import CLUSTER, LEDGER, ORDERS, plan, step


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
        (RECORDS, None, "unknown"),
        (RECORDS, "restored", "restored"),
        (COMMAND_TOPIC, "succeeded", "restored"),
        (TAKE, "done", "started"),
        (TAKE, "unknown", "unknown"),
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


@pytest.mark.parametrize(
    "name", [END, *(value for name, value in vars(steps).items() if name.isupper())]
)
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
        records = journal.request(RECORDS, {LEDGER: {}, ORDERS[0]: {}})
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
