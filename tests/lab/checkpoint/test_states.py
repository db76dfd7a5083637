"""Saved states, and what is written twice: after a restart, a restore, and retention (H2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.checkpoint.kafka.stamps import RecordAddress, RecordOrigin, stamped
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.errors import EvidenceChanged, Refused
from breakglass.services.lab.cluster import Cluster
from tests.lab.checkpoint.bank import Bank, Books, books, deposit
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch
from tests.lab.checkpoint.taking import Taking, decided

pytestmark = pytest.mark.slow

OTHERS = RecordOrigin(RecordAddress("ab" * 16, 0, 7), 0, "others")
"""A record of another group's input, which it may process twice."""


@pytest.fixture
def bank(broker: Cluster, guarantee: Guarantee, tmp_path: Path) -> Branch:
    """Three accounts whose owners save their states."""
    name = f"states-{tmp_path.name.replace('_', '-')[-60:]}"
    return Branch(broker, name, guarantee, 3, f"control-{name}").open()


def write(bank: Branch, value: bytes, cause: RecordOrigin) -> None:
    """Write into the first account as the output of *cause*."""
    from confluent_kafka import Producer

    producer = Producer({**bank.connection, "enable.idempotence": True}, logger=LOG)
    producer.produce(bank.topic, value, partition=0, headers=[*stamped(0, cause)])
    assert producer.flush(SECONDS) == 0


def forget(bank: Branch, taking: Taking, id: int) -> None:
    """Have retention remove all that is before checkpoint *id*."""
    found = taking.store.read(id)
    assert found is not None
    assert found.cut is not None
    bank.delete_before({one - 1: at for one, at in found.cut.positions.items()})


def test_h02_what_another_group_writes_twice_is_taken_once_across_a_restart(
    bank: Branch, taking: Taking
) -> None:
    with bank.at_work(Bank(3, saves=True)):
        write(bank, deposit("others", 5), OTHERS)
        assert taking.take(bank).status is Status.COMPLETED
    write(bank, deposit("others", 5), OTHERS)
    assert books(bank.settle(saves=True)) == Books(bank.total + 5, (), ())


def test_h02_a_member_begins_with_what_it_saved_where_its_records_are_gone(
    bank: Branch, taking: Taking
) -> None:
    with bank.at_work(Bank(3, saves=True)):
        bank.order(30, hops=5)
        taking.take(bank)
    forget(bank, taking, 1)
    bank.order(10)
    assert books(bank.settle(saves=True)) == Books(bank.total, (), ())


def test_h10_a_state_that_nobody_could_replay_any_more_is_refused(
    bank: Branch, taking: Taking
) -> None:
    with bank.at_work(Bank(3, saves=True)):
        bank.order(30, hops=5)
        taking.take(bank)
        forget(bank, taking, 1)
        with pytest.raises(Refused, match="retention has removed what it would be replayed from"):
            taking.take(bank, Level.VERIFIED)


@pytest.mark.timeout(600)
def test_h02_after_a_restore_a_state_and_its_records_are_taken_once(
    bank: Branch, taking: Taking, tmp_path: Path
) -> None:
    """With either guarantee, where what is in transit is restored behind the cut."""
    groups = {bank.group: GroupPolicy.EXACTLY_ONCE}
    with bank.at_work(Bank(3, saves=True)):
        write(bank, deposit("others", 5), OTHERS)
        bank.order(60, hops=10)
        assert taking.take(bank).status is Status.COMPLETED
        forget(bank, taking, 1)
        bank.order(60, hops=10)
        with taking.parts(bank, groups=groups) as (coordinator, finisher):
            id = coordinator.take()
            assert isinstance(id, int)
            assert finisher.finish(id).status is Status.COMPLETED
    restored = taking.restore(bank, id, f"{bank.topic}-2", tmp_path / "restoring")
    restored.order(10)
    assert books(restored.settle(saves=True)) == Books(bank.total + 5, (), ())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("killed", ["before it was decided", "while it was copied"])
def test_h02_another_checkpoint_meanwhile_takes_no_state_away(
    bank: Branch, taking: Taking, tmp_path: Path, killed: str
) -> None:
    """Its worker is killed, the next one is taken, and then it is gone on with."""
    groups = {bank.group: GroupPolicy.EXACTLY_ONCE}
    with bank.at_work(Bank(3, saves=True)):
        bank.order(60, hops=10)
        assert taking.take(bank).status is Status.COMPLETED
        forget(bank, taking, 1)
        with taking.parts(bank, groups=groups) as (coordinator, finisher):
            assert coordinator.take() == 2
            if killed == "while it was copied":
                decided(taking, finisher, 2)
            bank.order(60, hops=10)
            assert coordinator.take() == 3
            assert finisher.finish(3).status is Status.COMPLETED
            assert finisher.finish(2).status is Status.COMPLETED
    restored = taking.restore(bank, 2, f"{bank.topic}-2", tmp_path / "restoring")
    restored.order(10)
    assert books(restored.settle(saves=True)) == Books(bank.total, (), ())


def test_h10_without_the_states_that_it_promises_a_checkpoint_has_failed(
    bank: Branch, taking: Taking
) -> None:
    with bank.at_work(Bank(3, saves=True)), taking.parts(bank) as (coordinator, finisher):
        assert coordinator.take() == 1
        decided(taking, finisher, 1)
        forgetful = replace(finisher, sources=KafkaSources(taking.run(bank), "nothing-is-noted"))
        with pytest.raises(EvidenceChanged, match="is gone from the control topic"):
            forgetful.finish(1)
    found = taking.store.read(1)
    assert found is not None
    assert found.status is Status.FAILED
    assert found.failed is not None
    assert f"what group {bank.group} had saved at checkpoint 1" in found.failed.reason
