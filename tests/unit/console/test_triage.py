"""`triage` against fake brokers: what it prints, what it refuses, and what it could not see."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
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
    ListOffsetsRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from breakglass.services import patience
from breakglass.services.lab.rewriting import refusal
from breakglass.services.model import TopicPartition
from tests.kit.deadlines import MOMENT
from tests.kit.program import breakglass
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.console.conftest import Golden
from tests.unit.console.fakes import Fakes

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED = 29, 30, 31
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told before both brokers have answered, however slow the machine is."""
    monkeypatch.setattr(patience, "SETTLE", DEADLINE_SECONDS)


@pytest.mark.usefixtures("told_once")
def test_partitions_that_fared_alike_are_one_row(broken: Fakes, golden: Golden) -> None:
    broken.offline("orders", 5)
    golden(broken.run("triage"))


def test_into_a_pipe_goes_one_table_though_a_broker_is_waited_for(
    broken: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.offline("orders")
    broken.cluster.brokers[2].serve(ListOffsetsRequest, lambda _: None)
    monkeypatch.setattr(patience, "SETTLE", MOMENT)
    ended = breakglass("triage", *broken.named, "--recovery-duration-ms", 1_000)
    assert "(waiting)" in ended.err
    assert ended.out.count("Verdict") == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--topics", "orders", "--topics", "no-such"], "no-such"),
        (["--topics", "orders", "--topics", "no-such", "--json"], "no-such"),
        (["--native-rpc", "foo"], "--native-rpc"),
        (["--brief"], "--json"),
    ],
    ids=["no such topic", "no such topic, as JSON", "no such choice of requests", "brief text"],
)
def test_options_that_cannot_be_are_refused_by_name(
    broken: Fakes, options: list[str], named: str
) -> None:
    broken.offline("orders")
    ended = broken.run("triage", *options)
    assert (ended.code, ended.out, named in ended.said[-1]) == (2, "", True)


def test_r20_brokers_whose_controllers_are_silent_do_not_know_that_nothing_is_offline(
    broken: Fakes, golden: Golden
) -> None:
    for broker in broken.cluster.brokers.values():
        broker.serve(DescribeQuorumRequest, lambda _: None)
    golden(broken.run("triage"))


def test_a_brief_document_judges_the_same_partitions_alike_without_their_replicas(
    broken: Fakes,
) -> None:
    broken.offline("orders", 5)
    whole = broken.run("triage", "--json").document
    brief = broken.run("triage", "--json", "--brief").document
    apart = {"partitions": [], "observed_at_ms": 0}
    assert {**brief, **apart} == {**whole, **apart}
    for partition, short in zip(whole["partitions"], brief["partitions"], strict=True):
        assert partition["replicas"]
        assert "replicas" not in short
        assert {name: partition[name] for name in short} == short
        assert short["verdict"] == "WAIT"


TakeAway = Callable[[Fakes], None]


def denying(request_class: Any, response_class: Any, code: int, *, whole: bool) -> TakeAway:
    def deny(broken: Fakes) -> None:
        for broker in broken.cluster.brokers.values():
            broker.serve(
                request_class, lambda request: refusal(request, response_class, code, whole=whole)
            )

    return deny


without_read = denying(FetchRequest, FetchResponse, TOPIC_DENIED, whole=False)


def without_group(broken: Fakes) -> None:
    broken.cluster.story.groups = {"billing": {ORDERS: 130}}
    denying(OffsetFetchRequest, OffsetFetchResponse, GROUP_DENIED, whole=False)(broken)


CONFIGS = (DescribeConfigsRequest, DescribeConfigsResponse)
OF_THE_CLUSTER = (
    (DescribeQuorumRequest, DescribeQuorumResponse),
    (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    (DescribeLogDirsRequest, DescribeLogDirsResponse),
)


def missing_acls(said: list[str]) -> list[str]:
    word = "missing ACL: "
    return [line.removeprefix(word) for line in said if line.startswith(word)]


@pytest.mark.parametrize(
    ("take_away", "acl"),
    [
        (without_read, "READ on topic orders"),
        (denying(*CONFIGS, TOPIC_DENIED, whole=False), "DESCRIBE_CONFIGS on topic orders"),
        *(
            (denying(*api, CLUSTER_DENIED, whole=True), "DESCRIBE on CLUSTER")
            for api in OF_THE_CLUSTER
        ),
        (without_group, "DESCRIBE on group billing"),
    ],
    ids=["read", "configs", "quorum", "reassignments", "log dirs", "group"],
)
def test_a_missing_acl_is_named_once_and_in_the_document(
    broken: Fakes, take_away: TakeAway, acl: str
) -> None:
    broken.offline("orders")
    take_away(broken)
    ended = broken.run("triage", "--json")
    assert ended.code == 0
    assert missing_acls(ended.said) == ended.document["missing_acls"] == [acl]


@pytest.mark.parametrize(
    ("take_away", "acl"),
    [(without_read, "READ on topic orders"), (without_group, "DESCRIBE on group billing")],
    ids=["read", "group"],
)
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
    broken.offline("orders")
    take_away(broken)
    assert acl in missing_acls(broken.run(*command).said)
    assert broken.controller.steps == []


def test_a_user_who_is_shown_no_topic_is_not_left_to_believe_that_all_is_well(
    broken: Fakes,
) -> None:
    assert any("DESCRIBE on topics" in line for line in broken.run("triage").said)


def test_a_group_that_is_hidden_leaves_what_others_committed_standing(broken: Fakes) -> None:
    broken.offline("orders")
    broken.cluster.story.groups = {"audit": {ORDERS: 120}, "billing": {ORDERS: 130}}
    answer = broken.cluster.apis(1)[OffsetFetchRequest]

    def hide_billing(request: Any) -> Any:
        shown = answer(request)
        for group in shown.groups:
            if group.group_id == "billing":
                group.error_code, group.topics = GROUP_DENIED, []
        return shown

    broken.cluster.brokers[1].serve(OffsetFetchRequest, hide_billing)
    document = broken.run("triage", "--json").document
    assert document["missing_acls"] == ["DESCRIBE on group billing"]
    assert document["partitions"][0]["unread_source"] == "group audit"


def test_partitions_of_a_file_that_are_online_have_rows_of_replicas_like_the_others(
    broken: Fakes, tmp_path: Path
) -> None:
    """KIP-1275: --show-replica-info is of the targeted partitions."""
    down, led = broken.offline("orders", 2)
    states = broken.cluster.story.states
    states[led] = replace(states[led], leader=1)
    named = [{"topic": "orders", "partitions": [down.partition, led.partition]}]
    path = tmp_path / "targets.json"
    path.write_text(json.dumps({"partitions": named}))
    shown = ("unclean-recovery", "--path-to-json-file", path, "--show-replica-info")
    ended = broken.run(*shown)
    rows = [line.split() for line in ended.out.splitlines()]
    for partition in (down, led):
        brokers = {row[1] for row in rows if row[:1] == [str(partition)]} - {"already"}
        assert {broker.strip("*") for broker in brokers} == {"1", "2", "3"}, ended
        assert "*1" in brokers, "the designee, or the leader"
    (document,) = broken.run(*shown, "--json").document["led"]
    assert (document["partition"], document["leader"]) == (led.partition, 1)
    assert {one["broker"] for one in document["replicas"]} == {1, 2, 3}
