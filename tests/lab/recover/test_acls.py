"""A guarded cluster: what each command needs to be allowed, and that what is missing is named."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.lab.properties import OPERATOR
from breakglass.services.model import Denied, TopicPartition, known
from breakglass.services.recovery.triage import Triage
from tests.kit.access import Acl, Operation, Resource, granted
from tests.kit.client_properties import write_client_properties
from tests.lab.recover.session import judged, judgement
from tests.lab.recover.truths import differences
from tests.lab.scenarios.damaged import Damaged, lab_after

ORDERS = TopicPartition("orders", 0)


def on_topic(operation: Operation) -> Acl:
    return Acl(OPERATOR, operation, Resource.TOPIC, "orders")


READ = on_topic(Operation.READ)
"""Includes the former."""
CONFIGS = on_topic(Operation.DESCRIBE_CONFIGS)
CLUSTER = Acl(OPERATOR, Operation.DESCRIBE, Resource.CLUSTER)


lab = lab_after("stale-replicas", secured=True)


@pytest.fixture(scope="module")
def config(lab: Damaged) -> Path:
    """Client properties of the operator."""
    return write_client_properties(lab.cluster.layout, OPERATOR)


def triaged(lab: Damaged, config: Path, acls: Sequence[Acl]) -> Triage:
    """What an operator with *acls* is told."""
    options = ConnectionOptions(lab.cluster.bootstrap_servers, command_config=str(config))
    with granted(lab.cluster, *acls), Connection(options).reading() as client:
        return judged(client)


def test_r22_describe_on_topics_shows_the_ends_but_no_written_epochs(
    lab: Damaged, config: Path
) -> None:
    said = judgement(triaged(lab, config, [on_topic(Operation.DESCRIBE)]), ORDERS)
    answered = [replica for replica in said.evidence.replicas if replica.reachable]
    assert {log.broker: log.log_end for log in answered} == {1: 125, 2: 100}
    assert {log.epochs for log in answered} == {
        Denied("not allowed: needs READ on topic orders", "READ on topic orders")
    }
    assert not said.automatable


def test_r22_with_all_its_acls_triage_says_the_truth(lab: Damaged, config: Path) -> None:
    found = triaged(lab, config, (READ, CONFIGS, CLUSTER))
    assert differences(found, lab.truth, lab.truth.partitions) == []
    said = judgement(found, ORDERS)
    assert known(found.snapshot.quorum)
    assert known(said.evidence.settings.min_insync_replicas)
    assert all(known(replica.log_dir) for replica in said.evidence.replicas if replica.reachable)


def test_r22_without_describe_on_the_cluster_what_it_would_show_names_it(
    lab: Damaged, config: Path
) -> None:
    found = triaged(lab, config, [READ, CONFIGS])
    said = judgement(found, ORDERS).evidence
    answered = [replica.log_dir for replica in said.replicas if replica.reachable]
    for unread in (found.snapshot.quorum, said.state.reassignment, *answered):
        assert isinstance(unread, Denied)
        assert unread.needs == "DESCRIBE on CLUSTER"


def test_r22_what_may_not_be_described_is_not_there(lab: Damaged, config: Path) -> None:
    assert triaged(lab, config, [CLUSTER]).assessments == ()
