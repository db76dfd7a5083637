"""Settings of a broker, in the order they were asked for."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from breakglass.services.errors import NotAuthorized
from breakglass.services.kafka.cluster.broker_settings import read_broker_settings
from tests.kit.deadlines import ample
from tests.kit.fake_cluster import FakeCluster

CLUSTER_DENIED = 31
KEYS = ("log.dirs", "listeners", "ssl.keystore.password")


def read(error: int = 0) -> dict[str, str | None]:
    """What is read of broker 2, which has a listener, a secret, and no `log.dirs`."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    held = [
        entry(name="ssl.keystore.password", value=None),
        entry(name="listeners", value="PLAINTEXT://:9092"),
    ]

    def answer(request: Any) -> Any:
        (asked,) = request.resources
        assert (asked.resource_name, tuple(asked.configuration_keys)) == ("2", KEYS)
        return DescribeConfigsResponse(results=[result(error_code=error, configs=held)])

    with FakeCluster(2) as cluster, closing(cluster.sender()) as sender:
        cluster.brokers[2].serve(DescribeConfigsRequest, answer)
        return read_broker_settings(sender, 2, KEYS, ample())


def test_what_the_broker_has_is_told_in_the_order_of_the_keys() -> None:
    assert list(read().items()) == [
        ("listeners", "PLAINTEXT://:9092"),
        ("ssl.keystore.password", None),
    ]


def test_a_missing_acl_is_named() -> None:
    with pytest.raises(NotAuthorized) as caught:
        read(CLUSTER_DENIED)
    assert caught.value.needs == "DESCRIBE_CONFIGS on CLUSTER"
