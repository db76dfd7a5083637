"""A guarded election: what it asks for, what it tells, and that it runs once."""

import pytest

from breakglass.services.errors import ConsentMissing, WrongCluster
from breakglass.services.guard.act import Armed, JournalOpened
from breakglass.services.recovery.acts.elect import (
    BatchBegun,
    OutcomesReported,
)
from breakglass.services.recovery.execution.target import RecoveryResult
from tests.unit.recovery.guarded.conftest import Session

PHRASE = "3 partitions lose 0 and abandon b3"
ELECTED, NOT_ATTEMPTED = RecoveryResult.ELECTED, RecoveryResult.NOT_ATTEMPTED


def test_everything_that_happens_is_reported_in_order_and_journalled(session: Session) -> None:
    session.offline(count=3)
    outcomes = session.election(session.wanted(), digest="abc").run([PHRASE])
    assert [outcome.result for outcome in outcomes] == [ELECTED] * 3
    reported = [JournalOpened, Armed, *2 * [BatchBegun, OutcomesReported]]
    assert [type(event) for event in session.told] == reported
    batches = [len(event.partitions) for event in session.told if isinstance(event, BatchBegun)]
    assert batches == [1, 2], "the canary first"
    assert (session.endings, session.leaders()) == (["succeeded"], {1})
    (journal,) = session.journals()
    (opened,) = (event for event in session.told if isinstance(event, JournalOpened))
    assert (opened.path, journal.result) == (journal.path, "succeeded")
    assert journal.plan is not None
    assert journal.plan.payload["digest"] == "abc"
    assert journal.consent is not None
    assert journal.consent.payload["phrase"] == PHRASE


@pytest.mark.parametrize("given", [(), ("3 partitions lose 1",), ("orders-0 lose 0",)])
def test_without_the_phrase_nothing_exists_and_nothing_is_sent(
    session: Session, given: tuple[str, ...]
) -> None:
    session.offline(count=3)
    election = session.election(session.wanted())
    with pytest.raises(ConsentMissing) as refused:
        election.run(given)
    assert refused.value.phrase == PHRASE
    assert (session.told, session.journals(), session.controller.steps) == ([], [], [])


def test_addresses_that_lead_elsewhere_by_now_elect_nothing(session: Session) -> None:
    session.offline()
    election = session.election(session.wanted())
    session.cluster.story.cluster_id = "another"
    with pytest.raises(WrongCluster):
        election.run(election.phrases)
    assert session.controller.steps == []
