"""Ids on a broker: above all that logs and control topics hold, and in the order of time (H4)."""

import pytest

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.checkpoint.promises import CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import NotHigher
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.lab.cluster import Cluster
from tests.lab.checkpoint.audit import held
from tests.lab.checkpoint.bank import order
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.taking import Taking


@pytest.fixture
def other_bank(whole_broker: Cluster, topic: str) -> Branch:
    """With topics of its own."""
    name = f"{topic}-other"
    return Branch(whole_broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()


def wanted(bank: Branch, control: str) -> WantedCheckpoint:
    return WantedCheckpoint(
        (bank.topic,), {}, Level.COORDINATED, how=CopySettings(control_topic=control)
    )


def test_h04_an_id_is_above_those_in_the_logs_whatever_the_control_topic_knows(
    small_bank: Branch, other_bank: Branch, taking: Taking
) -> None:
    bank, other = small_bank, other_bank
    with taking.parts(bank, groups={}) as (coordinator, _):
        assert coordinator.take(7) == 7
    with taking.power.markers(taking.cluster_id) as markers:
        new = BackupStore(f"{taking.store.address}-of-the-other")
        elsewhere = KafkaTopics(taking.client, markers, wanted(other, other.control))
        assert Coordinator(new, elsewhere).take() == 1
        here = KafkaTopics(taking.client, markers, wanted(bank, other.control))
        assert Coordinator(new, here).take(7) == NotHigher(7, 7)
        assert Coordinator(new, here).take() == 8


def test_h04_nothing_that_is_written_after_the_acknowledgement_is_in_it(
    bank: Branch, taking: Taking
) -> None:
    with bank.working(), taking.parts(bank) as (coordinator, finisher):
        bank.order(200)
        assert coordinator.take() == 1
        bank.put([(number, order(f"late.{number}", 1, 3)) for number in range(bank.partitions)])
        bank.order(50)
        finisher.finish(1)
    content = held(taking.store, 1)
    logs = [*content.prefixes.values(), *content.channels.values()]
    assert sum(map(len, logs)) > 200
    assert not [record for log in logs for record in log if b"late" in (record.value or b"")]
