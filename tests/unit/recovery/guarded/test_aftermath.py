"""What elections leave behind: transactions that nobody ended, groups past the end."""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.guarded.aftermath import (
    FINISH,
    Aftermath,
    left_open_text,
    look_after,
)
from tests.unit.recovery.guarded.conftest import Session


def looked_after(session: Session) -> Aftermath:
    wanted = session.wanted()
    election = session.election(wanted)
    return look_after(session.read, election.run(election.phrases), wanted)


def test_r19_groups_past_the_end_of_what_was_elected_are_named(session: Session) -> None:
    (partition,) = session.offline()
    session.cluster.story.groups["billing"] = {partition: 130}
    session.cluster.story.groups["audit"] = {partition: 90}
    (past,) = looked_after(session).groups_past_end
    assert (past.group, past.committed, past.log_end) == ("billing", 130, 100)


def test_r18_transactions_that_no_broker_tells_of_are_unknown(session: Session) -> None:
    session.offline()
    assert isinstance(looked_after(session).open_transactions, Unknown)


def test_r28_a_transaction_that_is_ongoing_is_not_said_to_be_ended_as_it_was_decided() -> None:
    """An election may have set its coordinator back: then it is aborted though it was committed."""
    one = OpenTransaction(TopicPartition("orders", 0), 7, 0, 90, 0, "Ongoing", aborts_at_ms=60_000)
    ongoing, decided = left_open_text(one), left_open_text(replace(one, aborts_at_ms=None))
    assert ("ABORT" in ongoing, FINISH in ongoing) == (True, True)
    assert "will end it" in decided


def test_nothing_elected_leaves_nothing_behind(session: Session) -> None:
    assert look_after(session.read, (), ()) == Aftermath((), ())
