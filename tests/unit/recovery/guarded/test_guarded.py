"""What is said before and after an election: phrases, abandoned brokers, groups past the end."""

from dataclasses import replace

import pytest

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.guard.act import ActEvent
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.acts.elect import rescue_for
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult
from breakglass.services.recovery.guarded.aftermath import (
    FINISH,
    Aftermath,
    given_up,
    left_open_text,
    look_after,
)
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import empty_over_unread
from breakglass.services.recovery.judgement.succession import COPY_FIRST, SAFE_WHEN
from breakglass.services.recovery.rescue.rescue import JournalledRescue, rescuer
from breakglass.services.session import ReadAccess
from tests.unit.recovery.execution.targets import target
from tests.unit.recovery.guarded.conftest import Session
from tests.unit.recovery.replicas import log, offline, silent

UNUSED = ReadAccess(ConnectionSettings((Endpoint("127.0.0.1", 1),)))
"""Nothing is connected to before there is something to be read."""


def made(choice: RescueChoice, told: list[ActEvent] | None = None) -> JournalledRescue | None:
    tell = (told if told is not None else []).append
    found = rescue_for(choice, rescuer(UNUSED, "a-cluster", lambda: False), {}, tell)
    assert found is None or isinstance(found, JournalledRescue)
    return found


def test_elections_rescue_unless_told_not_to() -> None:
    assert made(RescueChoice()) is not None
    assert made(RescueChoice(without=True)) is None


PARTITIONS = [TopicPartition("orders", number) for number in range(3)]


def outcome(
    partition: TopicPartition, result: RecoveryResult, leader: int | None = 1
) -> PartitionOutcome:
    return PartitionOutcome(target(partition), result, leader=leader)


def test_each_broker_is_named_once_with_its_partitions() -> None:
    outcomes = [outcome(partition, RecoveryResult.ELECTED) for partition in PARTITIONS]
    first, second = given_up(outcomes, {PARTITIONS[0]: (2, 3), PARTITIONS[2]: (3,)})
    assert (first.broker, first.partitions) == (2, (PARTITIONS[0],))
    assert second.partitions == (PARTITIONS[0], PARTITIONS[2])
    assert all(word in second.advice for word in ("b3", COPY_FIRST, SAFE_WHEN))


@pytest.mark.parametrize(
    ("result", "leader", "named"),
    [
        (RecoveryResult.ELECTED, 1, True),
        (RecoveryResult.ELECTED_ANOTHER, 2, True),
        (RecoveryResult.ELECTED_ANOTHER, 3, False),
        (RecoveryResult.UNKNOWN, None, True),
        (RecoveryResult.ALREADY_ONLINE, 1, True),
        (RecoveryResult.ALREADY_ONLINE, 3, False),
        (RecoveryResult.REFUSED, None, False),
        (RecoveryResult.NOT_ATTEMPTED, None, False),
    ],
)
def test_it_is_named_where_another_leads_or_may_lead(
    result: RecoveryResult, leader: int | None, named: bool
) -> None:
    found = given_up([outcome(PARTITIONS[0], result, leader)], {PARTITIONS[0]: (3,)})
    assert bool(found) is named


def looked_after(session: Session) -> Aftermath:
    wanted = session.wanted()
    election = session.election(wanted)
    return look_after(session.read, election.run(election.phrases), wanted)


def test_r18_transactions_that_no_broker_tells_of_are_unknown(session: Session) -> None:
    session.offline()
    assert isinstance(looked_after(session).open_transactions, Unknown)


def test_r28_a_transaction_that_is_ongoing_is_not_said_to_be_ended_as_it_was_decided() -> None:
    """An election may have set its coordinator back: then it is aborted though it was committed."""
    one = OpenTransaction(TopicPartition("orders", 0), 7, 0, 90, 0, "Ongoing", aborts_at_ms=60_000)
    ongoing, decided = left_open_text(one), left_open_text(replace(one, aborts_at_ms=None))
    assert ("ABORT" in ongoing, FINISH in ongoing) == (True, True)
    assert "will end it" in decided


def test_r11_an_empty_log_over_unread_ones_is_named_before_the_consent() -> None:
    empty = [offline(log(1), silent(2), number=number) for number in range(3)]
    full = offline(log(1, (0, 9)), silent(2), number=3)
    (sentence,) = empty_over_unread((one, 1, (2,)) for one in (*empty, full))
    assert ("b1 is EMPTY in orders-0 and 2 more" in sentence, "b2" in sentence) == (True, True)
    assert empty_over_unread([(empty[0], 1, ()), (full, 1, (2,))]) == ()
