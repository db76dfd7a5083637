"""What is said before a transaction without a marker is aborted (R18)."""

import pytest

from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.acts.end_transactions import UNDECIDED, asked_for
from breakglass.services.recovery.transactions.finding import TransactionEnding


@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort", "", Unknown("no answer")])
def test_r18_what_the_coordinator_decided_is_said_before_an_abort(state: str | Unknown) -> None:
    pending = OpenTransaction(TopicPartition("billing", 0), 7, 2, 10, 0, state)
    (asked,) = asked_for([TransactionEnding(pending, 1, 10, None, "", records=4)])
    decided = str(state).startswith("Complete")
    assert (UNDECIDED in asked.why) is not decided
    assert not decided or str(state) in asked.why
