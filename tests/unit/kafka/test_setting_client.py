"""Two settings of named topics, and nothing else: what is refused before it is sent, and after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

from breakglass.services.errors import ReadOnly, UsageError
from breakglass.services.kafka.cluster.topic_settings import MIN_ISR, UNCLEAN_ELECTION
from breakglass.services.kafka.election_client import LEFT_OUT
from breakglass.services.kafka.setting_client import TOPICS_A_REQUEST, SettingClient
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.deadline import Deadline
from tests.kit.fake_cluster import FakeCluster

PATIENCE = 10.0
NOT_ALLOWED, TIMED_OUT = 29, 7


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[SettingClient]:
    with closing(cluster.sender(api_keys.READ | api_keys.SETTINGS)) as sender:
        yield SettingClient(sender)


def soon() -> Deadline:
    return Deadline.after(PATIENCE)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("retention.ms", {"orders": "1"}),
        (MIN_ISR, {}),
        (MIN_ISR, {str(number): "1" for number in range(TOPICS_A_REQUEST + 1)}),
    ],
)
def test_another_setting_no_topic_and_too_many_are_refused_unsent(
    cluster: FakeCluster, client: SettingClient, name: str, values: dict[str, str | None]
) -> None:
    with pytest.raises(UsageError):
        client.write(name, values, soon())
    assert cluster.brokers[1].requests(IncrementalAlterConfigsRequest) == []


def test_a_session_that_reads_cannot_send_it(cluster: FakeCluster) -> None:
    with closing(cluster.sender(api_keys.READ)) as sender, pytest.raises(ReadOnly):
        SettingClient(sender).write(MIN_ISR, {"orders": "1"}, soon())
    assert cluster.brokers[1].requests(IncrementalAlterConfigsRequest) == []


def test_each_topic_has_its_answer_and_what_was_left_out_is_unknown(
    cluster: FakeCluster, client: SettingClient
) -> None:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    answers = [
        result(error_code=code, error_message=None, resource_type=2, resource_name=topic)
        for topic, code in {"done": 0, "denied": NOT_ALLOWED, "late": TIMED_OUT}.items()
    ]
    cluster.brokers[1].serve(
        IncrementalAlterConfigsRequest,
        lambda _: IncrementalAlterConfigsResponse(responses=answers),
    )
    wanted = dict.fromkeys(("done", "denied", "late", "forgotten"), "false")
    replies = client.write(UNCLEAN_ELECTION, {**wanted, "done": None}, soon())
    assert replies["done"].accepted
    assert "grant ALTER_CONFIGS on topic denied" in str(replies["denied"])
    assert not replies["denied"].unsettled
    assert replies["late"].unsettled
    assert replies["forgotten"] == LEFT_OUT
    (sent,) = cluster.brokers[1].requests(IncrementalAlterConfigsRequest)
    changes = {resource.resource_name: resource.configs[0] for resource in sent.resources}
    assert (changes["done"].config_operation, changes["done"].value) == (1, None)
    assert (changes["late"].config_operation, changes["late"].value) == (0, "false")
