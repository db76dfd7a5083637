"""Commits for groups without members: what is refused, and the ACL that would allow it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from breakglass.services.kafka.group_client import COMMIT_VERSION, GroupClient
from breakglass.services.kafka.wire.api_keys import READ
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.proxy.rewriting import refusal
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster

PATIENCE = 10.0
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[GroupClient]:
    with closing(cluster.sender(READ | {OffsetCommitRequest.API_KEY})) as sender:
        yield GroupClient(sender)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ""),
        (30, "not allowed: needs READ on group billing"),
        (29, "not allowed: needs READ on topic orders"),
        (25, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_r22_what_is_refused_says_why(
    cluster: FakeCluster, client: GroupClient, code: int, words: str
) -> None:
    cluster.brokers[1].serve(
        OffsetCommitRequest,
        lambda request: refusal(request, OffsetCommitResponse, code),
        (2, COMMIT_VERSION),
    )
    told = client.commit(1, "billing", {ORDERS: 7}, Deadline.after(PATIENCE))
    assert told == {ORDERS: words}
