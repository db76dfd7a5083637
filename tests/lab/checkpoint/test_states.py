"""Saved states, and what is written twice: after a restart, a restore, and retention (H2)."""

import pytest

from breakglass.services.checkpoint.kafka.control import RecordAddress, RecordOrigin, stamped
from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.errors import Refused
from breakglass.services.lab.cluster import Cluster
from tests.lab.checkpoint.bank import Bank, Books, books, deposit
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.taking import Taking, cut_of, decided, read

OTHERS = RecordOrigin(RecordAddress("ab" * 16, 0, 7), 0, "others")
"""A record of another group's input, which it may process twice."""


@pytest.fixture(params=list(Guarantee))
def savers(request: pytest.FixtureRequest, whole_broker: Cluster, topic: str) -> Branch:
    """Three accounts whose owners save their states; once with each guarantee."""
    return Branch(whole_broker, topic, request.param, 3, f"control-{topic}").open()


def write(bank: Branch, value: bytes, cause: RecordOrigin) -> None:
    """Write into the first account as the output of *cause*."""
    bank.put([(0, value)], stamped(0, cause))


def forget(bank: Branch, taking: Taking, id: int) -> None:
    """Have retention remove all that is before checkpoint *id*."""
    positions = cut_of(read(taking.store, id)).positions
    bank.delete_before({number - 1: at for number, at in positions.items()})


def test_h02_what_another_group_writes_twice_is_taken_once_across_a_restart(
    savers: Branch, taking: Taking
) -> None:
    with savers.at_work(Bank(3, saves=True)):
        write(savers, deposit("others", 5), OTHERS)
        assert taking.take(savers).status is Status.COMPLETED
    write(savers, deposit("others", 5), OTHERS)
    assert books(savers.settle(saves=True)) == Books(savers.total + 5, (), ())


def test_h10_a_state_that_nobody_could_replay_any_more_is_refused(
    savers: Branch, taking: Taking
) -> None:
    with savers.at_work(Bank(3, saves=True)):
        savers.order(30, hops=5)
        taking.take(savers)
        forget(savers, taking, 1)
        with pytest.raises(Refused, match="retention has removed"):
            taking.take(savers, Level.VERIFIED)


def test_h02_after_a_restore_a_state_and_its_records_are_taken_once(
    savers: Branch, taking: Taking
) -> None:
    """With either guarantee, where what is in transit is restored behind the cut."""
    groups = {savers.group: GroupPolicy.EXACTLY_ONCE}
    with savers.at_work(Bank(3, saves=True)):
        write(savers, deposit("others", 5), OTHERS)
        savers.order(60, hops=10)
        assert taking.take(savers).status is Status.COMPLETED
        forget(savers, taking, 1)
        savers.order(60, hops=10)
        with taking.parts(savers, groups=groups) as (coordinator, finisher):
            id = coordinator.take()
            assert isinstance(id, int)
            assert finisher.finish(id).status is Status.COMPLETED
    restored = taking.restore(savers, id, f"{savers.topic}-2")
    restored.order(10, hops=5)
    assert books(restored.settle(saves=True)) == Books(savers.total + 5, (), ())


@pytest.mark.parametrize("killed", ["before it was decided", "while it was copied"])
def test_h02_another_checkpoint_meanwhile_takes_no_state_away(
    savers: Branch, taking: Taking, killed: str
) -> None:
    """Its worker is killed, the next one is taken, and then it is gone on with."""
    groups = {savers.group: GroupPolicy.EXACTLY_ONCE}
    with savers.at_work(Bank(3, saves=True)):
        savers.order(60, hops=10)
        assert taking.take(savers).status is Status.COMPLETED
        forget(savers, taking, 1)
        with taking.parts(savers, groups=groups) as (coordinator, finisher):
            assert coordinator.take() == 2
            if killed == "while it was copied":
                decided(taking, finisher, 2)
            savers.order(60, hops=10)
            assert coordinator.take() == 3
            assert finisher.finish(3).status is Status.COMPLETED
            assert finisher.finish(2).status is Status.COMPLETED
    restored = taking.restore(savers, 2, f"{savers.topic}-2")
    restored.order(10, hops=5)
    assert books(restored.settle(saves=True)) == Books(savers.total, (), ())
