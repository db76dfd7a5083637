"""KIP-1275's own requests with the product: proxies offer them before brokers that lack them.

The proxies answer themselves, refuse what they are told to refuse, and fail the test on a request
that they cannot parse. Forms and odd answers are those of tests/unit/kafka/wire/test_native_rpc.py.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.kafka.wire.api_keys import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_OFFSETS,
)
from breakglass.services.kafka.wire.messages.kip1275 import (
    DEFAULT_API_KEY,
    ElectLeadersRequest,
    LogInfoSchema,
    replica_log_info,
)
from breakglass.services.lab.proxy import Proxy
from breakglass.services.model import TopicPartition
from tests.kit.program import Ended, breakglass
from tests.lab.console.commands import elections
from tests.lab.recover.native import Native
from tests.lab.scenarios.damaged import Damaged, lab_after

TOPIC = "events"
PARTITIONS = 1_150
LIMIT = 1_000
OTHER_KEY = 120
NATIVE, STOCK = "GetReplicaLogInfo", "ListOffsets/-2 + Fetch/-3"
CLUSTER_DENIED, NOT_ELIGIBLE = 31, 83
FORMS = pytest.mark.parametrize("form", [LogInfoSchema.KIP, LogInfoSchema.MERGED])


lab = lab_after("many", options={"partitions": str(PARTITIONS)})


@pytest.fixture(scope="module")
def unused(lab: Damaged) -> Iterator[TopicPartition]:
    """Offline partitions, each handed out once."""
    return iter([partition.partition for partition in lab.truth.partitions])


@dataclass(frozen=True)
class Behind:
    """The lab behind proxies that advertise more than its brokers can do."""

    lab: Damaged
    natives: Mapping[int, Native]
    proxies: Mapping[int, Proxy]
    folder: Path

    def run(self, *arguments: object) -> Ended:
        """Run a command that no broker is reached by but through its proxy."""
        ways = [
            word
            for broker, proxy in self.proxies.items()
            for word in ("--broker-address", f"{broker}={proxy.address}")
        ]
        servers = ",".join(str(self.proxies[broker].address) for broker in self.natives)
        return breakglass(*arguments, "--bootstrap-server", servers, *ways)

    def triage(self, *more: str) -> dict[str, Any]:
        ended = self.run("triage", "--json", *more)
        assert ended.code == 0, ended.err
        return dict(ended.document)

    def recover(self, partitions: list[TopicPartition], *more: object) -> Ended:
        path = self.folder / "partitions.json"
        entry = {"topic": TOPIC, "partitions": [partition.partition for partition in partitions]}
        path.write_text(json.dumps({"partitions": [entry]}), encoding="utf-8")
        command = ["unclean-recovery", "--automated-recovery", "--path-to-json-file", path]
        phrase = f"{len(partitions)} partitions lose 0 and abandon b3"
        return self.run(*command, "--gone", 3, "--write", "--consent", phrase, *more)

    def leaders(self, partitions: list[TopicPartition]) -> set[int | None]:
        states = {
            partition.partition: partition.leader
            for partition in self.lab.cluster.partitions(TOPIC)
        }
        return {states[partition] for partition in partitions}

    def asked(self, api_key: int) -> list[int]:
        """The versions of an api that were asked for."""
        return [
            request.api_version
            for proxy in self.proxies.values()
            for request in proxy.seen
            if request.api_key == api_key
        ]

    def sizes(self, broker: int, form: LogInfoSchema) -> list[int]:
        """How many partitions each GetReplicaLogInfo request to *broker* named."""
        request_class = replica_log_info(form).request_class
        requests = [
            request.decode(request_class)
            for request in self.proxies[broker].seen
            if request.api_key == DEFAULT_API_KEY
        ]
        return [sum(len(t.partitions) for t in request.topic_partitions) for request in requests]


@contextmanager
def behind(
    lab: Damaged,
    folder: Path,
    form: LogInfoSchema = LogInfoSchema.KIP,
    upgraded: Sequence[int] = (1, 2),
    **native: Any,
) -> Iterator[Behind]:
    """Proxies before all brokers; those of *upgraded* ones are *native*."""
    with ExitStack() as stack:
        natives = {broker: Native(lab, broker, form, **native) for broker in upgraded}
        proxies = {
            node.id: stack.enter_context(Proxy(node.address(), native=natives.get(node.id)))
            for node in lab.cluster.brokers
        }
        yield Behind(lab, natives, proxies, folder)
        for proxy in proxies.values():
            proxy.assert_clean()


def replicas(document: Mapping[str, Any]) -> dict[tuple[TopicPartition, int], Any]:
    """What a triage told of each replica that it read."""
    return {
        (TopicPartition(one["topic"], one["partition"]), replica["broker"]): replica
        for one in document["partitions"]
        for replica in one["replicas"]
        if isinstance(replica["log_end"], int)
    }


def readable(lab: Damaged) -> dict[tuple[TopicPartition, int], tuple[int, int]]:
    """Log end and last written epoch of each live replica of an offline partition, from disk."""
    offline = {
        partition.partition for partition in lab.cluster.partitions(TOPIC) if partition.offline
    }
    return {
        (partition.partition, replica.broker): (replica.log_end, replica.epochs[-1].epoch)
        for partition in lab.truth.partitions
        for replica in partition.replicas
        if replica.readable and partition.partition in offline
    }


@FORMS
def test_more_than_a_thousand_partitions_are_read_and_say_by_what(
    lab: Damaged, tmp_path: Path, form: LogInfoSchema
) -> None:
    with behind(lab, tmp_path, form) as brokers:
        document = brokers.triage()
        told = replicas(document)
        assert document["native_rpc"] == f"GetReplicaLogInfo ({form}) answers"
        assert {one["source"] for one in told.values()} == {NATIVE}
        assert {
            where: (one["log_end"], one["written_epochs"][-1]["epoch"])
            for where, one in told.items()
        } == readable(lab)
        for broker in (1, 2):
            sizes = [size for size in brokers.sizes(broker, form) if size > 1]
            assert sizes == [LIMIT, len(told) // 2 - LIMIT]


def test_r15_during_a_rolling_upgrade_each_broker_is_asked_for_what_it_knows(
    lab: Damaged, tmp_path: Path
) -> None:
    """b1 is upgraded and b2 is not."""
    with behind(lab, tmp_path, upgraded=[1]) as brokers:
        told = replicas(brokers.triage())
    assert {broker: one["source"] for (_, broker), one in told.items()} == {1: NATIVE, 2: STOCK}
    assert {where: one["log_end"] for where, one in told.items()} == {
        where: end for where, (end, _) in readable(lab).items()
    }


@FORMS
def test_designated_leaders_are_elected_without_a_reorder(
    lab: Damaged, unused: Iterator[TopicPartition], tmp_path: Path, form: LogInfoSchema
) -> None:
    """Every other one stands last in the assignment."""
    some = list(islice(unused, 14))
    orders = {
        partition.partition: partition.assignment for partition in lab.cluster.partitions(TOPIC)
    }
    with behind(lab, tmp_path, form) as brokers:
        ended = brokers.recover(some)
        assert ended.code == 0, ended.err
        assert brokers.leaders(some) == {1}
        assert set(brokers.asked(ELECT_LEADERS)) == {3}
        assert brokers.asked(ALTER_PARTITION_REASSIGNMENTS) == []
        designated = [
            request.decode(ElectLeadersRequest)
            for proxy in brokers.proxies.values()
            for request in proxy.seen
            if request.api_key == ELECT_LEADERS
        ]
        topics = [topic for one in designated for topic in one.topic_partitions]
        assert {leader for topic in topics for leader in topic.designated_leaders} == {1}
    now = {partition.partition: partition.assignment for partition in lab.cluster.partitions(TOPIC)}
    assert {partition: now[partition] for partition in some} == {
        partition: orders[partition] for partition in some
    }


def test_a_leader_designated_by_hand_is_the_one_elected(
    lab: Damaged, unused: Iterator[TopicPartition], tmp_path: Path
) -> None:
    (partition,) = islice(unused, 1)
    path = elections(tmp_path, {partition: 2})
    command = ["leader-election", "--election-type", "designated", "--path-to-json-file", path]
    with behind(lab, tmp_path) as brokers:
        ended = brokers.run(*command, "--write", "--consent", f"{partition} lose 1 and abandon b3")
        assert ended.code == 0, ended.err
        assert brokers.leaders([partition]) == {2}
        assert set(brokers.asked(ELECT_LEADERS)) == {3}


def test_an_election_that_is_refused_says_why_and_holds_up_no_other(
    lab: Damaged, unused: Iterator[TopicPartition], tmp_path: Path
) -> None:
    """GetReplicaLogInfo has another key here, so that the error meets the election alone."""
    some = list(islice(unused, 12))
    *others, failing = some
    with behind(lab, tmp_path, api_key=OTHER_KEY, errors={failing: NOT_ELIGIBLE}) as brokers:
        ended = brokers.recover(some)
        assert ended.code == 1
        assert f"{failing}  failed: ELIGIBLE_LEADERS_NOT_AVAILABLE" in ended.err
        assert brokers.leaders(others) == {1}
        assert brokers.leaders([failing]) == {None}
        assert set(brokers.asked(ELECT_LEADERS)) == {3}


def test_r22_a_designated_election_that_is_refused_names_the_acl_and_changes_nothing(
    lab: Damaged, unused: Iterator[TopicPartition], tmp_path: Path
) -> None:
    some = list(islice(unused, 2))
    with behind(lab, tmp_path) as brokers:
        for broker in brokers.natives:
            brokers.proxies[broker].fail_next(ELECT_LEADERS, CLUSTER_DENIED, whole=True)
        ended = brokers.recover(some)
        assert ended.code == 1
        assert "grant CLUSTER_ACTION on CLUSTER" in ended.err
        assert brokers.leaders(some) == {None}


def test_switched_off_only_stock_requests_are_sent(
    lab: Damaged, unused: Iterator[TopicPartition], tmp_path: Path
) -> None:
    some = list(islice(unused, 2))
    with behind(lab, tmp_path) as brokers:
        document = brokers.triage("--native-rpc", "off")
        assert {replica["source"] for replica in replicas(document).values()} == {STOCK}
        ended = brokers.recover(some, "--native-rpc", "off")
        assert ended.code == 0, ended.err
        assert brokers.leaders(some) == {1}
        assert brokers.asked(DEFAULT_API_KEY) == []
        assert brokers.asked(LIST_OFFSETS) != []
        assert 3 not in brokers.asked(ELECT_LEADERS)
