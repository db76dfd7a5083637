"""Checkpoints restored on a real broker: the applications go on as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.checkpoint.kafka.control_log import read_control
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import Refused
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import Power, ReadAccess
from tests.lab.checkpoint.bank import Bank, books
from tests.lab.checkpoint.branch import SECONDS, Branch
from tests.lab.checkpoint.conftest import GUARANTEES
from tests.lab.checkpoint.taking import Taking
from tests.pipeline.producing import committed_messages


@pytest.fixture
def taking(broker: Cluster, client: ReadClient, spark: Spark, tmp_path: Path) -> Taking:
    options = ConnectionOptions(bootstrap_server=broker.bootstrap_servers)
    power = Power(ReadAccess(connection_settings(options, {})))
    return Taking(client, power, BackupStore(str(tmp_path / "store")), spark)


@pytest.fixture(params=GUARANTEES)
def bank(request: pytest.FixtureRequest, broker: Cluster, topic: str) -> Branch:
    """Three accounts in logs that begin at offset 50; once with each guarantee."""
    made = Branch(broker, topic, request.param, 3, f"control-{topic}")
    return made.open(start=50)


@pytest.mark.timeout(600)
def test_h02_offsets_that_shift_lose_and_double_nothing_restore_after_restore(
    bank: Branch, taking: Taking, tmp_path: Path
) -> None:
    with bank.working(1):
        bank.order(150, hops=15)
        assert taking.take(bank).status is Status.COMPLETED
    restored = taking.restore(bank, 1, f"{bank.topic}-2", tmp_path / "first")
    with restored.working(1):
        restored.order(60, hops=15)
        second = taking.take(restored)
        assert (second.id, second.status) == (2, Status.COMPLETED)
    again = taking.restore(restored, 2, f"{bank.topic}-3", tmp_path / "second")
    again.order(10)
    found = books(again.settle())
    assert (found.total, found.doubled, found.lost) == (bank.total, (), ())


@pytest.mark.timeout(600)
def test_a_restore_triggers_no_checkpoint_and_its_word_comes_last(
    broker: Cluster, bank: Branch, taking: Taking, client: ReadClient, tmp_path: Path
) -> None:
    with bank.working(1):
        bank.order(60, hops=10)
        taking.take(bank)
    restored = taking.restore(bank, 1, f"{bank.topic}-2", tmp_path / "state")
    keys = [(one.key() or b"").decode() for one in committed_messages(broker, bank.control, 0)]
    assert keys[-1].startswith("restored/")
    assert [one for one in keys if one.startswith("take/")] == ["take/1"]
    restored.settle()
    assert taking.store.ids() == [1]
    deadline = Deadline.after(SECONDS)
    control = read_control(client, bank.control, deadline)
    assert control is not None
    (state,) = client.partitions((restored.topic,), deadline)[:1]
    assert control.restored[state.topic_id.hex].id == 1
    came = {one.topic_id for one in control.created.values()}
    assert state.topic_id.hex not in came


def test_topics_that_hold_records_are_refused(bank: Branch, taking: Taking, tmp_path: Path) -> None:
    with bank.working(1):
        bank.order(10, hops=1)
        taking.take(bank)
    with pytest.raises(Refused, match="has records"):
        taking.restore(bank, 1, bank.topic, tmp_path / "state")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_state_that_was_saved_is_restored_where_its_records_are_gone(
    broker: Cluster, taking: Taking, topic: str, tmp_path: Path
) -> None:
    bank = Branch(broker, topic, Guarantee.EXACTLY_ONCE, 3, f"control-{topic}").open()
    with bank.at_work(Bank(3, saves=True)):
        bank.order(60, hops=10)
        first = taking.take(bank)
        assert first.cut is not None
        # What the accounts have been given at first is in no log any more.
        bank.delete_before({one - 1: at for one, at in first.cut.positions.items()})
        bank.order(30, hops=10)
        second = taking.take(bank)
    assert second.status is Status.COMPLETED
    assert all(one.counting and one.counting.manifest for one in second.partitions)
    restored = taking.restore(bank, 2, f"{topic}-2", tmp_path / "state")
    restored.order(10)
    found = books(restored.settle(saves=True))
    assert (found.total, found.doubled, found.lost) == (bank.total, (), ())
