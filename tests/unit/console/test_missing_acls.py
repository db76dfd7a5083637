"""A user who may not see everything is told by every command what it would need (R22)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from breakglass.services.lab.proxy.rewriting import refusal
from breakglass.services.model import TopicPartition
from tests.unit.console.fakes import Fakes, fakes

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED = 29, 30, 31
ORDERS = TopicPartition("orders", 0)
OF_THE_CLUSTER = {
    DescribeQuorumRequest: DescribeQuorumResponse,
    ListPartitionReassignmentsRequest: ListPartitionReassignmentsResponse,
    DescribeLogDirsRequest: DescribeLogDirsResponse,
}


@pytest.fixture
def broken() -> Iterator[Fakes]:
    with fakes() as made:
        made.offline("orders")
        yield made


def deny(broken: Fakes, request_class: Any, response_class: Any, code: int, whole: bool) -> None:
    """Let every broker refuse one api."""
    for broker in broken.cluster.brokers.values():
        broker.serve(
            request_class, lambda request: refusal(request, response_class, code, whole=whole)
        )


def without_read(broken: Fakes) -> None:
    deny(broken, FetchRequest, FetchResponse, TOPIC_DENIED, False)


def without_configs(broken: Fakes) -> None:
    deny(broken, DescribeConfigsRequest, DescribeConfigsResponse, TOPIC_DENIED, False)


def without_quorum(broken: Fakes) -> None:
    deny(broken, DescribeQuorumRequest, DescribeQuorumResponse, CLUSTER_DENIED, True)


def without_reassignments(broken: Fakes) -> None:
    request_class = ListPartitionReassignmentsRequest
    deny(broken, request_class, OF_THE_CLUSTER[request_class], CLUSTER_DENIED, True)


def without_log_dirs(broken: Fakes) -> None:
    deny(broken, DescribeLogDirsRequest, DescribeLogDirsResponse, CLUSTER_DENIED, True)


def without_group(broken: Fakes) -> None:
    broken.cluster.story.groups = {"billing": {ORDERS: 130}}
    deny(broken, OffsetFetchRequest, OffsetFetchResponse, GROUP_DENIED, False)


DENIALS = pytest.mark.parametrize(
    ("take_away", "acl"),
    [
        (without_read, "READ on topic orders"),
        (without_configs, "DESCRIBE_CONFIGS on topic orders"),
        (without_quorum, "DESCRIBE on CLUSTER"),
        (without_reassignments, "DESCRIBE on CLUSTER"),
        (without_log_dirs, "DESCRIBE on CLUSTER"),
        (without_group, "DESCRIBE on group billing"),
    ],
)
TakeAway = Callable[[Fakes], None]


@DENIALS
def test_triage_names_it_once(broken: Fakes, take_away: TakeAway, acl: str) -> None:
    take_away(broken)
    ended = broken.run("triage")
    assert ended.code == 0
    assert [line for line in ended.said if line.startswith("missing ACL")] == [
        f"missing ACL: {acl}"
    ]


@DENIALS
def test_triage_names_it_in_its_document(broken: Fakes, take_away: TakeAway, acl: str) -> None:
    take_away(broken)
    assert broken.run("triage", "--json").document["missing_acls"] == [acl]


@DENIALS
@pytest.mark.parametrize(
    "command",
    [
        ["plan", "make"],
        ["unclean-recovery", "--all-offline-partitions", "--show-replica-info"],
        [
            *("leader-election", "--election-type", "unclean", "--write"),
            *("--topic", "orders", "--partition", 0),
        ],
    ],
    ids=lambda command: command[0],
)
def test_other_commands_name_it_before_anything_is_agreed_to(
    broken: Fakes, command: list[object], take_away: TakeAway, acl: str
) -> None:
    take_away(broken)
    ended = broken.run(*command)
    assert f"missing ACL: {acl}" in ended.said
    assert broken.controller.steps == []


def test_many_of_a_kind_are_counted(broken: Fakes) -> None:
    for number in range(20):
        broken.offline(f"topic-{number:02}")
    without_read(broken)
    said = [line for line in broken.run("triage").said if line.startswith("missing ACL")]
    assert said == [
        "missing ACL: READ on topic orders",
        "missing ACL: READ on topic topic-00",
        "missing ACL: READ on topic topic-01",
        "missing ACL: READ on topic, 18 more",
    ]


def test_who_may_see_everything_is_told_of_none(broken: Fakes) -> None:
    broken.cluster.story.groups = {"billing": {ORDERS: 80}}
    assert "ACL" not in broken.run("triage").err


def test_who_is_shown_no_topic_is_not_told_that_all_is_well_without_a_word(broken: Fakes) -> None:
    broken.cluster.story.states.clear()
    said = broken.run("triage").said
    assert "this user is shown no topic: grant DESCRIBE on topics, unless the cluster has none" in (
        said
    )


def test_a_group_that_is_hidden_leaves_what_others_committed_standing(broken: Fakes) -> None:
    broken.cluster.story.groups = {"audit": {ORDERS: 120}, "billing": {ORDERS: 130}}
    answer = broken.cluster.apis(1)[OffsetFetchRequest]

    def hide_billing(request: Any) -> Any:
        told = answer(request)
        for group in told.groups:
            if group.group_id == "billing":
                group.error_code, group.topics = GROUP_DENIED, []
        return told

    broken.cluster.brokers[1].serve(OffsetFetchRequest, hide_billing)
    document = broken.run("triage", "--json").document
    assert document["missing_acls"] == ["DESCRIBE on group billing"]
    assert document["partitions"][0]["unread_source"] == "group audit"
