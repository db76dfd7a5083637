"""`hanging-transaction`: a committed transaction that stays open on the replica that is left."""

from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import elect_unclean
from breakglass.services.model import TopicPartition
from tests.lab.asking import consume, open_transactions
from tests.lab.scenarios.damaged import Damaged, lab_after

BILLING = TopicPartition("billing", 0)


lab = lab_after("hanging-transaction")


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
