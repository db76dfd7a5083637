"""Transactions against brokers that answer what none does: an error that says so, and no belief."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from breakglass.services.errors import BreakglassError, MalformedMessage, OutcomeUnknown
from breakglass.services.kafka.producer import Fenced, TransactionFailed
from breakglass.services.kafka.wire import api_keys
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.writer import Transactions
from breakglass.services.model import TopicPartition
from tests.kit.deadlines import be_patient
from tests.kit.fake_broker import Body
from tests.kit.fake_cluster import FakeCluster

TOPIC = TopicPartition("commands", 0)
COMMAND = CommandRecord(0, b"key", b"value", 5, (("name", b"x"), ("name", None)))


def initialised(**values: int) -> Any:
    return InitProducerIdResponse(
        **{"error_code": 0, "producer_id": 7, "producer_epoch": 0} | values
    )


def added(code: int = 0) -> Any:
    topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    one = topic.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
    topics = [topic(name=TOPIC.topic, results_by_partition=[one])]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def produced(code: int = 0, offset: int = 3, times: int = 1) -> Any:
    topic = ProduceResponse.TopicProduceResponse
    one = topic.PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
    topics = [topic(name=TOPIC.topic, partition_responses=[one] * times)]
    return ProduceResponse(responses=topics)


GOOD: dict[Any, Callable[[], Any]] = {
    InitProducerIdRequest: initialised,
    AddPartitionsToTxnRequest: added,
    ProduceRequest: produced,
    EndTxnRequest: lambda: EndTxnResponse(error_code=0),
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """A broker that leads the topic, and coordinates transactions as it should."""
    be_patient(monkeypatch)
    with FakeCluster(1) as cluster:
        cluster.story.offline(TOPIC, (1,))
        cluster.story.states[TOPIC] = replace(cluster.story.states[TOPIC], leader=1, isr=(1,))
        broker = cluster.brokers[1]
        at = broker.endpoint
        found = FindCoordinatorResponse.Coordinator(
            key="service", node_id=1, host=at.host, port=at.port, error_code=0
        )
        broker.serve(
            FindCoordinatorRequest, lambda _: FindCoordinatorResponse(coordinators=[found])
        )
        for api in GOOD:
            serve(cluster, api, GOOD[api]())
        yield cluster


def serve(cluster: FakeCluster, api: Any, answer: Any) -> None:
    cluster.brokers[1].serve(api, lambda _: answer)


@pytest.fixture
def transactions(cluster: FakeCluster) -> Iterator[Transactions]:
    with closing(cluster.sender(api_keys.READ | api_keys.RECORDS)) as sender:
        yield Transactions(sender, TOPIC.topic, "service", seconds=5.0)


def test_commands_get_the_offsets_that_the_leader_tells(
    cluster: FakeCluster, transactions: Transactions
) -> None:
    transactions.init()
    transactions.begin()
    assert transactions.send([COMMAND, COMMAND._replace(timestamp_ms=None)]) == [3, 4]
    transactions.commit()
    transactions.begin()
    transactions.abort()
    (ended,) = cluster.brokers[1].requests(EndTxnRequest)
    assert ended.committed is True


@pytest.mark.parametrize(
    ("api", "answer", "raised"),
    [
        (InitProducerIdRequest, initialised(producer_id=-1), MalformedMessage),
        (InitProducerIdRequest, initialised(error_code=90), Fenced),
        (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse(), MalformedMessage),
        (AddPartitionsToTxnRequest, added(47), Fenced),
        (AddPartitionsToTxnRequest, added(48), TransactionFailed),
        (ProduceRequest, produced(offset=-100), MalformedMessage),
        (ProduceRequest, produced(offset=2**63 - 1), MalformedMessage),
        (ProduceRequest, produced(times=2), MalformedMessage),
        (EndTxnRequest, EndTxnResponse(error_code=47), OutcomeUnknown),
        (EndTxnRequest, Body(b"no answer"), OutcomeUnknown),
    ],
)
def test_s27_nothing_is_written_by_an_answer_that_cannot_be(
    cluster: FakeCluster,
    transactions: Transactions,
    api: Any,
    answer: Any,
    raised: type[BreakglassError],
) -> None:
    serve(cluster, api, answer)
    with pytest.raises(raised):
        _whole(transactions)


def _whole(transactions: Transactions) -> None:
    transactions.init()
    transactions.begin()
    transactions.send([COMMAND])
    transactions.commit()
