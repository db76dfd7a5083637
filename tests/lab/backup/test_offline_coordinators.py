"""A restore whose transactions have no coordinator says so at once, and can do without them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.kit.program import breakglass
from tests.lab.asking import consume
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run

RECORDS = 5
CONSENT = f"restore {RECORDS} records into orders"


@pytest.fixture
def without_coordinators(tmp_path: Path) -> Iterator[Cluster]:
    """b2 led every transaction's coordinator, and is down."""
    quick = {"broker.session.timeout.ms": "4000"}
    with Cluster.up(tmp_path / "lab", brokers=2, overrides=quick, tethered=True) as cluster:
        partitions = int(SMALL["transaction.state.log.num.partitions"])
        create_topic(cluster, "__transaction_state", [(2,)] * partitions)
        cluster.broker(2).kill()
        cluster.wait_fenced(2)
        yield cluster


def test_it_is_refused_before_anything_is_made_and_done_without_transactions(
    without_coordinators: Cluster, tmp_path: Path
) -> None:
    back_up(tmp_path / "store", run(0, RECORDS))
    words = ("backup", "restore", "--store", tmp_path / "store", "--progress", tmp_path / "state")
    # Their timestamps are of 1970: retention would take them at once.
    keep = ("--topic-config", "retention.ms=-1")
    more = (
        *keep,
        "--replication-factor",
        1,
        f"--bootstrap-server={without_coordinators.bootstrap_servers}",
    )
    refused = breakglass(*words, *more, "--write", "--consent", CONSENT)
    assert refused.code == 3
    assert "__transaction_state-0, __transaction_state-1" in refused.err
    assert "--no-transactions" in refused.err
    assert not {state.partition.topic for state in without_coordinators.partitions()} & {"orders"}

    done = breakglass(*words, *more, "--no-transactions", "--write", "--consent", CONSENT)
    assert done.code == 0, done.err
    assert len(consume(without_coordinators, TopicPartition("orders", 0))) == RECORDS
