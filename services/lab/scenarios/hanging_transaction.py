"""`hanging-transaction`: only the dead leader has the commit marker (R18).

The transaction's coordinator survived and considers the transaction complete, so it never writes
the marker again. Once the other replica leads, read_committed consumers cannot read the
transaction's records or any record after them.
"""

from __future__ import annotations

import logging
from typing import Any

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, COURSE, LAST_LOST
from breakglass.services.lab.scenarios.logs import wait_log_end
from breakglass.services.lab.scenarios.scenario import Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.segments import read_log
from breakglass.services.lab.truth import TrueVerdict, Written, expect
from breakglass.services.model import TopicPartition

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())

TOPIC = "billing"
RECORDS = 10
TRANSACTIONAL_ID = "billing-writer"
COORDINATOR = 1
TRANSACTION_TOPIC = "__transaction_state"
TRANSACTION_PARTITIONS = int(SMALL["transaction.state.log.num.partitions"])
TRANSACTION_SECONDS = 20.0


def _script(stage: Stage) -> Script:
    stage.create(
        TRANSACTION_TOPIC, [(COORDINATOR,)] * TRANSACTION_PARTITIONS, {"cleanup.policy": "compact"}
    )
    (partition,) = stage.create(TOPIC, [(3, 2)])
    producer = begun(stage.cluster, TRANSACTIONAL_ID)
    keys = _write(producer, partition)
    wait_log_end(stage.cluster, partition, RECORDS, 2, 3)
    yield B2_LOST
    producer.commit_transaction(TRANSACTION_SECONDS)
    wait_log_end(stage.cluster, partition, RECORDS + 1, 3)
    stage.record(partition, Written(0, 0, keys, acks="all", committed=True, broker=3))
    stage.write([partition], 5)
    yield B1_LOST
    yield LAST_LOST
    stage.notes["hanging transaction"] = TRANSACTIONAL_ID
    folder = stage.cluster.broker(2).partition_folder(partition.topic, partition.partition)
    stage.notes["hanging producer id"] = str(read_log(folder).batches[0].producer_id)
    stage.notes["hanging since offset"] = "0"
    why = (
        "b3 led last and alone has the commit marker; on b2 the transaction stays open "
        "for ever, and read_committed reads nothing from its first record on"
    )
    return expect([partition], TrueVerdict.WAIT, why, 3, 2, if_gone=TrueVerdict.SAFE)


def begun(cluster: Cluster, transactional_id: str) -> Any:
    """A producer in a transaction."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": cluster.lab_bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        },
        logger=logger,
    )
    producer.init_transactions(TRANSACTION_SECONDS)
    producer.begin_transaction()
    return producer


def _write(producer: Any, partition: TopicPartition) -> tuple[str, ...]:
    keys = tuple(f"r-{number}" for number in range(RECORDS))
    for key in keys:
        value = f"{key}@{partition}"
        producer.produce(
            partition.topic, partition=partition.partition, key=key.encode(), value=value.encode()
        )
    left = producer.flush(TRANSACTION_SECONDS)
    if left:
        raise LabError(f"{left} records of the transaction were not taken: run it again.")
    return keys


SCENARIO = Scenario(
    "hanging-transaction",
    "The commit marker is on the dead leader alone: read_committed will stop there for ever.",
    _script,
    course=COURSE,
)
