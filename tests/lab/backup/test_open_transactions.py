"""Open transactions where records are restored: its own is aborted, another one refuses it."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from breakglass.services.errors import Refused
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.restore.state import read_state
from tests.lab.backup.backups import BackUp
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import SECONDS, make, numbered, produce, producer, put
from tests.lab.backup.restores import Killed, Restore, die

RECORDS = 10
Begin = Callable[[str, str], Producer]


@pytest.fixture
def killed(whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str) -> str:
    """A topic of ten records, whose restore was killed before its records were compared."""
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(RECORDS))
    back_up.topic(topic)
    with pytest.raises(Killed):
        restore(restore.plan(topic, f"{topic}-back"), tell=die)
    return topic


@pytest.fixture
def begin(whole_broker: Cluster) -> Begin:
    """Begins a transaction of a transactional id in a topic, and leaves it open."""

    def begun(transactional_id: str, topic: str) -> Producer:
        client = producer(whole_broker, transactional_id=transactional_id)
        client.init_transactions(SECONDS)
        client.begin_transaction()
        put(client, topic, numbered(1))
        return client

    return begun


def test_the_transaction_that_a_killed_restore_left_open_is_aborted_by_its_resume(
    whole_broker: Cluster, restore: Restore, killed: str, begin: Begin
) -> None:
    target = f"{killed}-back"
    state = read_state(restore.state / target)
    assert state is not None
    begin(f"breakglass-restore-{state.restore_id}-{target}-0", target)
    done = restore(restore.plan(killed, target, resume=True))
    assert (done.error, done.verified) == ("", True)
    assert contents(whole_broker, target) == contents(whole_broker, killed)


def test_a_transaction_of_another_producer_that_stays_open_refuses_a_restore(
    restore: Restore, killed: str, begin: Begin
) -> None:
    target = f"{killed}-back"
    other = begin(f"other-{target}", target)
    with pytest.raises(Refused, match=r"open since offset .* wait for that, or restore with"):
        restore(restore.plan(killed, target, resume=True))
    other.abort_transaction(SECONDS)
    done = restore(restore.plan(killed, target, resume=True))
    assert (done.error, done.verified) == ("", True)


def test_committed_records_past_an_open_transaction_are_found(
    whole_broker: Cluster, client: ReadClient, topic: str, begin: Begin
) -> None:
    make(whole_broker, topic)
    early = begin(f"early-{topic}", topic)  # Offset 0.
    begin(f"open-{topic}", topic)  # Offset 1: the last stable offset from now on.
    produce(whole_broker, topic, numbered(2))  # Offsets 2 and 3.
    put(early, topic, numbered(1))  # Offset 4.
    early.commit_transaction(SECONDS)  # Its marker has offset 5.
    aborted = begin(f"aborted-{topic}", topic)  # Offset 6.
    aborted.abort_transaction(SECONDS)  # Offset 7.
    client.describe(Deadline.after(SECONDS))
    log = CommittedLog(client.sender, 1, TopicPartition(topic, 0))
    assert [record.offset for record in log.records(0, 1)] == [0]
    beside = log.records_beside_open_transactions(1, 8)
    assert sorted(record.offset for record in beside) == [2, 3, 4]
