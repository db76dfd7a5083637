"""Rules that show while elections are held: order, canaries, brokers that die or hang meanwhile.

b3 led everything last and is dead; b1 holds 25 records more than b2. Each test has a topic of
its own.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
    bring_back,
    make_patient,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Script, Stage
from breakglass.services.lab.topics import configure_topic
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import Replies, Route, stock_route
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from breakglass.services.recovery.judgement.succession import BY_UNCLEAN_ELECTION
from breakglass.services.recovery.triage import Triage
from tests.lab.asking import commit
from tests.lab.console.commands import journals
from tests.lab.recover.session import (
    ELECT_LEADERS,
    Watched,
    judged,
    judgement,
    reading,
    targets,
    watched,
)
from tests.lab.scenarios.damaged import cluster_after

OFFSETS = tuple(
    TopicPartition("__consumer_offsets", number)
    for number in range(int(SMALL["offsets.topic.num.partitions"]))
)
ORDERS = tuple(TopicPartition("orders", number) for number in range(3))
FEED = (TopicPartition("feed", 0), TopicPartition("feed", 1))
STOCK = tuple(TopicPartition("stock", number) for number in range(5))
WITHOUT_B2, ON_BOTH = TopicPartition("wires", 0), TopicPartition("cables", 0)
GROUP = "readers"
READ_TO = 110
B1_FIRST, B2_FIRST = (3, 1, 2), (3, 2, 1)
PATIENCE_SECONDS = 600
DURATION_SECONDS = 10
PROGRAM = Path(sys.executable).with_name("kafka-unclean-recovery")
PROGRAM_SECONDS = 600


def _script(stage: Stage) -> Script:
    compact = {"cleanup.policy": "compact"}
    stage.create("__consumer_offsets", [B2_FIRST] * len(OFFSETS), compact)
    partitions = [
        *stage.create("orders", [B2_FIRST] * len(ORDERS)),
        *stage.create("feed", [B1_FIRST, B2_FIRST]),
        *stage.create("stock", [B2_FIRST] * len(STOCK)),
        *stage.create(WITHOUT_B2.topic, [(3, 1)]),
        *stage.create(ON_BOTH.topic, [B1_FIRST]),
    ]
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    commit(stage.cluster, GROUP, STOCK[0], READ_TO)
    yield B1_LOST
    yield LAST_LOST
    return list[Expectation]()


BROKEN = Scenario("for-elections", __doc__, _script, course=COURSE, shape=QUICK_TO_FENCE)


lab = cluster_after(BROKEN)


@pytest.fixture(scope="module")
def first_found(lab: Cluster) -> dict[str, Triage]:
    """What is found of all topics, and of one alone, before anything is elected."""
    with reading(lab) as client:
        return {"all topics": judged(client), "one topic": judged(client, "stock")}


@pytest.fixture
def behind(lab: Cluster) -> Iterator[Watched]:
    with watched(lab) as behind:
        yield behind


@pytest.fixture
def client(behind: Watched) -> Iterator[ReadClient]:
    with behind.connection.reading() as client:
        yield client


def elected(behind: Watched) -> list[list[TopicPartition]]:
    """The partitions of each election that was asked for."""
    from kafka.protocol.admin import ElectLeadersRequest

    return [
        [
            TopicPartition(topic.topic, number)
            for topic in request.topic_partitions
            for number in topic.partitions
        ]
        for request in behind.requests(ELECT_LEADERS, ElectLeadersRequest)
    ]


def leaders(lab: Cluster, topic: str) -> list[int | None]:
    return [partition.leader for partition in lab.partitions(topic)]


@pytest.mark.parametrize("asked", ["all topics", "one topic"])
def test_r17_while_the_offsets_topic_is_offline_its_groups_are_named_as_unknown(
    first_found: dict[str, Triage], asked: str
) -> None:
    found = judgement(first_found[asked], STOCK[0]).evidence
    assert isinstance(found.group_offsets, Mapping)
    assert GROUP not in found.group_offsets
    (unread,) = found.groups_unread
    assert str(OFFSETS[0]) in unread


@pytest.mark.usefixtures("first_found")
def test_r17_internal_topics_are_elected_first_and_each_partition_alone(
    behind: Watched, client: ReadClient, tmp_path: Path
) -> None:
    found = judged(client, "__consumer_offsets", "orders")

    wanted = targets(found, dict.fromkeys((*ORDERS, *OFFSETS), 1))
    outcomes = behind.recover(client, wanted, tmp_path)

    assert {outcome.result for outcome in outcomes} == {RecoveryResult.ELECTED}
    assert elected(behind) == [[offset] for offset in OFFSETS] + [[ORDERS[0]], list(ORDERS[1:])]
    told = judgement(judged(client, "stock"), STOCK[0]).evidence.group_offsets
    assert told == {GROUP: READ_TO}


def test_r14_where_unclean_election_is_on_the_controller_elects_by_order_when_a_broker_returns(
    lab: Cluster, client: ReadClient
) -> None:
    configure_topic(lab, "feed", {"unclean.leader.election.enable": "true"})
    found = judged(client, "feed")
    forecasts = [judgement(found, partition).forecast for partition in FEED]
    assert [forecast.broker for forecast in forecasts] == [1, 2]
    assert {forecast.reason for forecast in forecasts} == {BY_UNCLEAN_ELECTION}
    assert judgement(found, FEED[1]).designee == 1
    assert f"{BY_UNCLEAN_ELECTION}: the controller may elect b2 by itself at any moment" in (
        judgement(found, FEED[1]).reasons
    )

    lab.broker(2).kill()
    lab.wait_fenced(2)
    assert leaders(lab, "feed") == [None, None]
    bring_back(lab, 2)
    lab.wait_until(lambda: leaders(lab, "feed") == [1, 2], "b1 and b2 to lead as was forecast")


def test_r04_a_designee_that_is_fenced_meanwhile_loses_to_the_next_and_the_run_stops(
    lab: Cluster, behind: Watched, client: ReadClient, tmp_path: Path
) -> None:
    def route(armed: ElectionClient) -> Route:
        return fencing_between(lab, 1, stock_route(armed))

    found = judged(client, "stock")
    wanted = targets(found, dict.fromkeys(STOCK, 1))
    try:
        first, *others = behind.recover(client, wanted, tmp_path, route)
    finally:
        bring_back(lab, 1)

    assert (first.partition, first.result, first.leader) == (
        STOCK[0],
        RecoveryResult.ELECTED_ANOTHER,
        2,
    )
    assert first.target.order == (1, 2, 3)
    assert {other.result for other in others} == {RecoveryResult.NOT_ATTEMPTED}
    assert {other.reason for other in others} == {why_stopped(first)}
    assert elected(behind) == [[STOCK[0]]]
    assert leaders(lab, "stock") == [2, None, None, None, None]


def why_stopped(first: PartitionOutcome) -> str:
    return (
        f"stopped because {first.partition} elected b2, not b1: keep broker 1 down, for what it "
        "holds beyond b2 would be cut off, then plan again"
    )


def fencing_between(lab: Cluster, broker: int, route: Route) -> Route:
    """*route*, with *broker* lost after the reorder, before the election."""
    reorder, elect = route.steps

    def send(batch: Sequence[ElectionTarget], deadline: Deadline) -> Replies:
        if lab.broker(broker).running:
            lab.broker(broker).kill()
            lab.wait_fenced(broker)
        return elect.send(batch, Deadline.after(30.0))

    return replace(route, steps=(reorder, replace(elect, send=send)))


def test_r15_a_hung_broker_keeps_nobody_from_being_elected_once_the_duration_has_passed(
    lab: Cluster, tmp_path: Path
) -> None:
    """b3 is fenced, and waited for as long."""
    file = tmp_path / "partitions.json"
    named = [{"topic": partition.topic, "partitions": [0]} for partition in (WITHOUT_B2, ON_BOTH)]
    file.write_text(json.dumps({"partitions": named}))
    command = [str(PROGRAM), "--bootstrap-server", lab.bootstrap_servers]
    command += ["--recovery-duration-ms", str(DURATION_SECONDS * 1000)]
    command += ["--automated-recovery", "--path-to-json-file", str(file)]
    make_patient(lab, PATIENCE_SECONDS)
    lab.broker(2).pause()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        _, err = program.communicate(timeout=PROGRAM_SECONDS)
    lab.broker(2).resume()
    assert program.returncode == 0, err
    assert (leader(lab, WITHOUT_B2), leader(lab, ON_BOTH)) == (1, 1)
    elected = [
        set(step.outcomes)
        for view in reversed(journals(lab))
        for step in view.steps
        if step.name == "elect"
    ]
    assert elected == [{ON_BOTH}, {WITHOUT_B2}]


def leader(lab: Cluster, partition: TopicPartition) -> int | None:
    """As b1 knows it."""
    return lab.partition(partition.topic, partition.partition, via=1).leader
