"""`min-isr-2-one-alive`: one stale replica, where two would be needed to be read (R7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.segments import high_watermark_on_disk
from breakglass.services.lab.topics import elect_unclean, reassign
from breakglass.services.lab.truth import Condition
from breakglass.services.model import Role, TopicPartition
from breakglass.services.pipeline.source import WantedTopics, read_sources
from breakglass.services.session import ReadAccess
from tests.lab.asking import CONSUMER, list_offset
from tests.lab.scenarios.damaged import Damaged, damaged, ends_told

pytestmark = pytest.mark.slow

OFFSET_NOT_AVAILABLE = 78
SECONDS = 30.0
ACCOUNTS = TopicPartition("accounts", 0)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "min-isr-2-one-alive") as lab:
        yield lab


def test_two_eligible_leaders_are_dead_and_a_stale_replica_lives(lab: Damaged) -> None:
    state = lab.state(ACCOUNTS)
    assert (state.leader, state.assignment) == (None, (3, 2, 1))
    assert [state.role(broker) for broker in state.assignment] == [Role.ELR, Role.ELR, Role.STALE]
    assert lab.truth.brokers == {
        1: Condition.RUNNING,
        2: Condition.DEAD,
        3: Condition.DEAD,
    }


def test_it_holds_78_records_under_a_high_watermark_of_0(lab: Damaged) -> None:
    assert ends_told(lab) == {ACCOUNTS: {1: 78}}
    folder = lab.cluster.broker(1).partition_folder("accounts", 0)
    assert folder is not None
    assert high_watermark_on_disk(folder) == 0


def test_the_records_of_the_last_leader_alone_were_not_committed(lab: Damaged) -> None:
    truth = lab.truth_of(ACCOUNTS)
    assert [(len(written.keys), written.committed) for written in truth.written] == [
        (78, True),
        (12, True),
        (4, False),
    ]
    assert (truth.choice(1).unread, truth.choice(1).acked) == (16, 16)


def test_r07_elected_it_leads_and_nobody_can_read(lab: Damaged) -> None:
    reassign(lab.cluster, {ACCOUNTS: (1, 3, 2)})
    elect_unclean(lab.cluster, ACCOUNTS)
    lab.cluster.wait_partition("accounts", 0, lambda state: state.leader == 1, "b1 to lead")
    assert list_offset(lab.cluster, 1, ACCOUNTS).offset == 78
    assert list_offset(lab.cluster, 1, ACCOUNTS, replica=CONSUMER).error == OFFSET_NOT_AVAILABLE
    options = ConnectionOptions(bootstrap_server=lab.cluster.bootstrap_servers)
    with ReadAccess(connection_settings(options)).reading() as client:
        soon = Deadline.after(SECONDS)
        (topic,) = read_sources(client, WantedTopics(("accounts",)), soon, partial=True)
    assert topic.unread[0].startswith("b1 does not know its high watermark: too few replicas")
