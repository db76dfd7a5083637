"""What elections leave behind: transactions that nobody ended, groups past the end."""

from __future__ import annotations

from breakglass.services.model import Unknown
from breakglass.services.recovery.guarded.aftermath import Aftermath, look_after
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


def test_nothing_elected_leaves_nothing_behind(session: Session) -> None:
    assert look_after(session.read, (), ()) == Aftermath((), ())
