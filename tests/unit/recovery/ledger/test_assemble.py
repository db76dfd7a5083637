"""Ledgers from journals, rescue folders and restores: what each says, and what none says."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.guard.journal import Journal
from breakglass.services.model import ReplicaLog, TopicPartition, Unknown
from breakglass.services.recovery.ledger.assemble import (
    LeaderNow,
    LedgerSources,
    gathered,
    ledger_of,
)
from breakglass.services.recovery.ledger.entries import Fate, IncidentLedger, PartitionLedger
from breakglass.services.recovery.ledger.holdings import holdings_of, written_holdings
from breakglass.services.recovery.rescue.rescue import NOT_SAVED
from breakglass.services.recovery.timeline.account import account_of
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.ledger.incidents import EVENTS, FORKED, LEDGER, ORDERS
from tests.unit.recovery.replicas import log, offline
from tests.unit.recovery.timeline import journals

KEPT, BACK, RESCUED, LOST = Fate.KEPT, Fate.PUT_BACK, Fate.RESCUED, Fate.LOST


def made(folder: Path, path: Path) -> IncidentLedger:
    return ledger_of(gathered(account_of(path), folder))


def of(ledger: IncidentLedger, partition: TopicPartition = LEDGER) -> PartitionLedger:
    (found,) = (one for one in ledger.partitions if one.partition == partition)
    return found


def figures(one: PartitionLedger | IncidentLedger) -> Mapping[Fate, int]:
    return {fate: part.total for fate, part in one.sums.items()}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The folder of the rescue."""
    return incidents.rescued(tmp_path / "rescue")


def forked(folder: Path, path: Path | None, **rescue: Any) -> Path:
    """The journal of ledger-3 alone."""
    with incidents.begun(folder, FORKED) as journal:
        incidents.rescue(journal, path, **rescue)
        incidents.elect(journal, FORKED)
        journal.finish("succeeded")
    return journal.path


def elected(folder: Path, **outcome: Any) -> Path:
    """The journal of ledger-3 without a rescue."""
    with incidents.begun(folder, FORKED) as journal:
        incidents.elect(journal, FORKED, **outcome)
    return journal.path


def test_the_whole_incident_adds_up_and_says_who_agreed_to_what(tmp_path: Path) -> None:
    ledger = made(tmp_path, incidents.incident(tmp_path))
    assert figures(ledger) == {KEPT: 165, RESCUED: 50, Fate.WAITING: 12}
    assert (ledger.held, ledger.adds_up, ledger.uncounted) == (227, True, 0)
    assert figures(of(ledger, ORDERS)) == {KEPT: 40}
    assert figures(of(ledger, EVENTS)) == {Fate.WAITING: 12}
    assert not of(ledger, ORDERS).of_note, "what loses nothing needs no words"
    assert ledger.left_out == ((incidents.CARTS, "STUCK reassignment"),)
    phrases = ["events-7 lose 3", "orders-0 lose 0", "ledger-3 lose 50 and abandon b3"]
    assert [consent.phrase for consent in ledger.consents] == phrases
    assert {consent.who for consent in ledger.consents} == set(ledger.people)
    assert (ledger.digest, ledger.approved_by) == (incidents.DIGEST, ("grace", "alan"))


def test_r11_unread_replicas_are_bounded_from_below_and_in_no_sum(
    tmp_path: Path, saved: Path
) -> None:
    ledger = made(tmp_path, forked(tmp_path, saved))
    (unread,) = ledger.unread
    assert (unread.broker, unread.at_least, unread.unbounded) == (3, 20, 0)
    assert ledger.held == 175


def test_what_was_put_back_is_told_from_what_is_only_rescued(tmp_path: Path, saved: Path) -> None:
    path = forked(tmp_path, saved)
    restore = incidents.put_back(tmp_path, saved.parent)
    ledger = made(tmp_path, path)
    assert figures(ledger) == {KEPT: 125, BACK: 10, RESCUED: 40}
    assert ledger.put_back_by == (restore,)
    incidents.put_back(tmp_path, Path("/elsewhere", *saved.parent.parts[-4:]))
    assert figures(made(tmp_path, path))[BACK] == 10, "a rescue that was moved is the same"


@pytest.mark.parametrize("result", ["failed", "unknown", "differs"])
def test_a_restore_that_is_not_proved_puts_nothing_back(
    tmp_path: Path, saved: Path, result: str
) -> None:
    path = forked(tmp_path, saved)
    restore = incidents.put_back(tmp_path, saved.parent, result)
    other = saved.parents[2].with_name("20991231T000000.000000Z") / "b2" / "ledger"
    incidents.put_back(tmp_path, other)
    ledger = made(tmp_path, path)
    assert figures(ledger) == {KEPT: 125, RESCUED: 50}
    assert any(restore.stem in note and result in note for note in ledger.notes)


def test_an_earlier_journal_of_a_restore_says_how_many_and_not_which(
    tmp_path: Path, saved: Path
) -> None:
    path = forked(tmp_path, saved)
    incidents.put_back(tmp_path, saved.parent, spans=None)
    assert figures(made(tmp_path, path))[BACK] == 10
    incidents.put_back(tmp_path, saved.parent, spans=None, start=100, end=150, records=20)
    assert figures(made(tmp_path, path))[BACK] == 10


def test_a_rescue_whose_folder_is_gone_is_unknown_and_not_rescued(
    tmp_path: Path, saved: Path
) -> None:
    path = forked(tmp_path, saved)
    (records,) = (file for file in saved.parent.iterdir() if "records" in file.name)
    records.write_bytes(records.read_bytes()[:-1])
    assert figures(made(tmp_path, path)).get(Fate.UNKNOWN) == 50, "one whose file was cut, too"
    saved.parent.rename(tmp_path / "away")
    one = of(made(tmp_path, path))
    assert figures(one) == {KEPT: 125, Fate.UNKNOWN: 50}
    (entry,) = (entry for entry in one.replicas[1].entries if entry.fate is Fate.UNKNOWN)
    assert str(saved.parent) in entry.reason


def test_a_rescue_of_fewer_records_than_the_journal_says_does_not_add_up(
    tmp_path: Path, saved: Path
) -> None:
    ledger = made(tmp_path, forked(tmp_path, saved, records=60))
    assert not ledger.adds_up
    assert len(ledger.differences) == 1


def test_an_election_that_cut_off_more_than_was_agreed_does_not_add_up(tmp_path: Path) -> None:
    path = forked(tmp_path, None, result=NOT_SAVED)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["items"][0]["price"] = "40"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (difference,) = made(tmp_path, path).differences
    assert "40" in difference


def test_what_is_cut_off_without_a_rescue_that_was_whole_is_lost_and_says_why(
    tmp_path: Path,
) -> None:
    without, failed = tmp_path / "without", tmp_path / "failed"
    ledgers = made(without, elected(without)), made(failed, forked(failed, None, result=NOT_SAVED))
    assert [figures(ledger) for ledger in ledgers] == [{KEPT: 125, LOST: 50}] * 2
    reasons = [of(ledger).replicas[1].entries[-1].reason for ledger in ledgers]
    assert ["b2 hung" in reason for reason in reasons] == [False, True]


def test_an_unknown_outcome_leaves_unknown_what_it_would_decide(
    tmp_path: Path, saved: Path
) -> None:
    with incidents.begun(tmp_path, FORKED) as journal:
        incidents.rescue(journal, saved)
        incidents.elect(journal, FORKED, result="unknown", leader=None, reason="no answer")
    one = of(made(tmp_path, journal.path))
    assert figures(one) == {RESCUED: 50, Fate.UNKNOWN: 125}


def test_a_journal_of_an_earlier_release_says_unknown_and_never_0(tmp_path: Path) -> None:
    ledger = made(tmp_path, journals.recovery(tmp_path))
    assert ledger.uncounted == 4
    assert all(isinstance(partition.held, Unknown) for partition in ledger.partitions)
    assert ledger.sums == {}


def test_the_plans_file_says_what_an_earlier_journal_does_not(tmp_path: Path) -> None:
    with Journal.open(journals.CLUSTER, tmp_path) as journal:
        journals.plan(journal, {LEDGER: "50"})
        incidents.elect(journal, FORKED)
    planned = {LEDGER: holdings_of(FORKED)}
    found = ledger_of(gathered(account_of(journal.path), tmp_path, planned=planned))
    assert figures(found) == {KEPT: 125, LOST: 50}


@pytest.mark.parametrize("before", ["", "refused"], ids=["nothing was sent", "it was refused"])
def test_what_was_noted_of_a_partition_that_was_led_already_counts(
    tmp_path: Path, before: str
) -> None:
    with incidents.begun(tmp_path, FORKED) as journal:
        if before:
            incidents.elect(journal, FORKED, result=before)
        noted = {"topic": "ledger", "partition": 3, "result": "already online", "leader": 2}
        journal.note("nothing was sent for these", partitions=[noted])
    one = of(made(tmp_path, journal.path))
    assert (one.result, one.leader) == ("already online", 2)
    assert figures(one) == {KEPT: 150, LOST: 25}


def test_a_replica_that_answered_when_the_journal_was_resumed_counts(tmp_path: Path) -> None:
    with incidents.begun(tmp_path, FORKED) as journal:
        later = offline(*FORKED.replicas[:2], log(3, (0, 90)), topic="ledger", number=3)
        journal.record("note", {LEDGER: written_holdings(later)}, text="read again")  # type: ignore[arg-type]
        incidents.elect(journal, FORKED)
    one = of(made(tmp_path, journal.path))
    assert (one.unread, one.held) == ((), 175)


def with_now(sources: LedgerSources, log_now: ReplicaLog | Unknown) -> LedgerSources:
    leader = log_now.broker if isinstance(log_now, ReplicaLog) else None
    return replace(sources, now={LEDGER: LeaderNow(leader, log_now)})


def test_the_leader_of_now_confirms_or_contradicts(tmp_path: Path, saved: Path) -> None:
    found = gathered(account_of(forked(tmp_path, saved)), tmp_path)
    whole = ledger_of(with_now(found, log(1, (0, 100), (2, 125), (10, 130))))
    assert of(whole).confirmed is True
    shorter = ledger_of(with_now(found, log(1, (0, 100), (10, 130))))
    assert of(shorter).confirmed is False
    assert figures(shorter) == {KEPT: 100, RESCUED: 50, LOST: 25}
    silent_now = ledger_of(with_now(found, Unknown("b1 does not answer")))
    assert of(silent_now).confirmed == Unknown("b1 does not answer")
    assert figures(silent_now) == {KEPT: 125, RESCUED: 50}
    assert of(ledger_of(found)).confirmed is None


def test_a_partition_that_was_elected_since_is_settled_by_its_leader(tmp_path: Path) -> None:
    path = elected(tmp_path, result="failed", leader=None)
    found = gathered(account_of(path), tmp_path)
    now = ledger_of(with_now(found, log(2, (0, 100), (1, 150), (12, 160))))
    assert (of(now).leader, figures(now)) == (2, {KEPT: 150, LOST: 25})


def test_only_a_recovery_has_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        made(tmp_path, journals.group_reset(tmp_path))
