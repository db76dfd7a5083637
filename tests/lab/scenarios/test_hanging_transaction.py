"""`hanging-transaction`: a committed transaction that stays open on the replica that is left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.produce import produce
from breakglass.services.lab.segments import read_log
from breakglass.services.lab.topics import elect_unclean
from breakglass.services.model import TopicPartition
from tests.lab.asking import consume, open_transactions
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

BILLING = TopicPartition("billing", 0)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "hanging-transaction") as lab:
        yield lab


def markers(lab: Damaged, broker: int) -> list[int]:
    """Offsets of the transaction markers on a broker's disk."""
    folder: Path | None = lab.cluster.broker(broker).partition_folder("billing", 0)
    return [batch.first for batch in read_log(folder).batches if batch.control]


def transaction_state(lab: Damaged) -> str:
    """What the transaction's coordinator has to say."""
    from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse

    request = DescribeTransactionsRequest(
        transactional_ids=[lab.truth.notes["hanging transaction"]]
    )
    answer = lab.cluster.read(lambda node: node.ask(request, DescribeTransactionsResponse), via=1)
    return str(answer.transaction_states[0].transaction_state)


def test_the_marker_is_on_the_dead_leader_alone(lab: Damaged) -> None:
    assert lab.state(BILLING).offline
    assert (markers(lab, 3), markers(lab, 2)) == ([10], [])
    assert ends_told(lab) == ends_on_disk(lab) == {BILLING: {2: 10}}


def test_nobody_will_write_it_again(lab: Damaged) -> None:
    lab.cluster.wait_until(
        lambda: transaction_state(lab) == "CompleteCommit", "the coordinator to be loaded"
    )


def test_r18_the_stale_replica_tells_of_it_before_any_election(lab: Damaged) -> None:
    producer = int(lab.truth.notes["hanging producer id"])
    assert open_transactions(lab.cluster, 2, BILLING) == {producer: 0}


def test_r18_once_it_leads_read_committed_reads_nothing_old_or_new(lab: Damaged) -> None:
    elect_unclean(lab.cluster, BILLING)
    lab.cluster.wait_partition("billing", 0, lambda state: state.leader == 2, "b2 to lead")
    produce(lab.cluster, "billing", 0, 5)
    assert len(consume(lab.cluster, BILLING)) == 15
    assert consume(lab.cluster, BILLING, isolation="read_committed") == {}
    assert open_transactions(lab.cluster, 2, BILLING)
