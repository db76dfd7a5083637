"""Nodes that run although their folders were not named: no plan passes over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import EvidenceChanged, Refused
from breakglass.services.model import Unknown
from breakglass.services.quorum.image import BrokerRegistration, ControllerRegistration, Key
from breakglass.services.quorum.machine_steps import NodeAction
from breakglass.services.quorum.plan import QuorumPlan, make_plan, write_plan
from breakglass.services.quorum.prepare import PrepareQuorum
from breakglass.services.quorum.status import AnsweringNode, answering_nodes
from breakglass.services.session import ReadAccess
from tests.kit.fake_broker import FakeBroker
from tests.kit.metadata_log import CLUSTER, MetadataLog
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.quorum.test_plan import VOTER, whole_log

C103 = AnsweringNode(103, False, "c103:9093", asked=True)
B3 = AnsweringNode(3, True, "b3:9092", asked=True)


def saved(root: Path, *nodes: int, log: MetadataLog | None = None) -> list[str]:
    for node in nodes:
        (log or whole_log()).save(root / f"n{node}", node)
    return [f"log:{root / f'n{node}'}" for node in nodes]


def planned(sources: list[str], *answering: AnsweringNode) -> QuorumPlan:
    return make_plan(sources, VOTER, ask=lambda *_: answering)


@pytest.mark.parametrize("named", [(1, 2), (1, 2, 103)], ids=["not named", "a copy of it is"])
def test_q18_a_controller_that_answers_refuses_the_plan(
    tmp_path: Path, named: tuple[int, ...]
) -> None:
    with pytest.raises(Refused, match="c103 answers at c103:9093"):
        planned(saved(tmp_path, *named), C103)


def test_q18_a_broker_that_answers_needs_a_copy_that_has_all_it_knows(tmp_path: Path) -> None:
    log = whole_log()
    end = log.offset
    with pytest.raises(Refused, match="b3 runs"):
        planned(saved(tmp_path / "a", 1, 2), B3)
    sources = saved(tmp_path / "b", 1, 2, 3)
    for applied in (Unknown("not said"), end):
        plan = planned(sources, B3._replace(applied=applied))
        (step,) = [one for one in plan.nodes if one.name == "b3"]
        assert step.action is NodeAction.LEAVE_RUNNING
    with pytest.raises(Refused, match=f"up to offset {end + 1}"):
        planned(sources, B3._replace(applied=end + 1))


def test_q18_what_listens_and_cannot_be_asked_is_in_the_phrases(tmp_path: Path) -> None:
    plan = planned(saved(tmp_path, 1, 2), C103._replace(asked=False))
    assert "ignore c103 at c103:9093" in plan.document()["consent"]


def test_q18_a_node_that_answers_since_the_plan_is_named(tmp_path: Path) -> None:
    from breakglass.console.output import json_text

    file = tmp_path / "plan"
    front: Any = Unasked()
    write_plan(file, json_text(planned(saved(tmp_path, 1, 2, 3)).document(), 1))
    prepared = PrepareQuorum(file, tmp_path / "out", lambda *_: (B3,))
    with pytest.raises(EvidenceChanged, match="b3 at b3:9092"):
        prepared.freeze(front)


class Unasked:
    """A front that says nothing."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


@pytest.fixture
def places() -> Iterator[dict[int, FakeBroker]]:
    with ExitStack() as stack:
        yield {one: stack.enter_context(FakeBroker()) for one in (1, 2, 101, 102, 103)}


def test_q18_nodes_are_asked_where_the_copy_says_that_they_listen(
    places: dict[int, FakeBroker],
) -> None:
    """b1 and c101 answer; b2's address is of another cluster by now; c102 hangs up; c103 is off."""

    def told(cluster: str) -> Any:
        return lambda _: DescribeClusterResponse(cluster_id=cluster, brokers=[])

    for node, cluster in ((1, CLUSTER), (2, "another-cluster"), (101, CLUSTER)):
        places[node].serve(DescribeClusterRequest, told(cluster), (0, 1))
    places[103].stop()
    state: dict[Key, Any] = {}
    for node, place in places.items():
        at = (("ANY", place.endpoint.host, place.endpoint.port),)
        if node > 100:
            state["controller", node] = ControllerRegistration(None, at)
        else:
            state["broker", node] = BrokerRegistration(1, None, False, False, None, (), at)
    access = ReadAccess(ConnectionSettings((Endpoint("none", 1),)))
    found = answering_nodes(state, CLUSTER, access.sender_at, DEADLINE_SECONDS)
    assert [(one.name, one.asked) for one in found] == [
        ("c101", True),
        ("c102", False),
        ("b1", True),
    ]
