"""`checkpoint explain`, and `take` without a level: the strongest promise that holds."""

from __future__ import annotations

from typing import Any

import pytest

from breakglass.services.lab.cluster import Cluster
from tests.kit.program import breakglass
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.chain import Chain
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.plain import loop, write


def scope(topic: Branch, *more: str) -> tuple[str, ...]:
    return ("--topics", topic.topic, "--control-topic", topic.control, *more)


def explained(program: Program, *arguments: str) -> dict[str, Any]:
    """`checkpoint explain` of topics: no store is named."""
    where = ("--bootstrap-server", program.bootstrap, "--json")
    done = breakglass("checkpoint", "explain", *arguments, *where)
    assert done.code == 0, done.err
    found: dict[str, Any] = done.document
    return found


def test_participants_are_explained_and_taken_as_coordinated(
    settled_bank: Branch, program: Program
) -> None:
    bank = settled_bank
    group = ("--group", f"{bank.group}=exactly-once")
    found = explained(program, *scope(bank, *group))
    assert found["strongest"] == "coordinated"
    assert [topic["writers"] for topic in found["topics"]] == [["participant"]]
    assert [(one["group"], one["commits"], one["policy"]) for one in found["groups"]] == [
        (bank.group, "participant", "exactly-once")
    ]
    taken = program.whole("take", *bank.options())
    assert (taken["level"], taken["state"]) == ("coordinated", "completed")
    stored = program.whole("explain", "1", cluster=False)
    assert (stored["level"], stored["state"]) == ("coordinated", "completed")
    assert stored["topics"] == found["topics"]


def test_without_a_promise_nothing_is_taken(plain: Branch, program: Program) -> None:
    plain.commit(f"reader-of-{plain.topic}")
    assert explained(program, *scope(plain))["strongest"] is None
    assert program.here("take", *scope(plain)).code == 3
    assert not program.store.exists()


def test_a_plain_application_whose_groups_are_named_is_taken_as_ordered(
    plain: Branch, program: Program
) -> None:
    group = f"reader-of-{plain.topic}"
    plain.commit(group)
    taken = program.whole("take", *scope(plain, "--group", f"{group}=reader"))
    assert (taken["level"], taken["state"]) == ("ordered", "completed")
    assert program.whole("explain", "1", cluster=False)["level"] == "ordered"


def test_a_transactional_loop_is_explained_as_possibly_transactional(
    plain: Branch, program: Program
) -> None:
    group = f"looped-{plain.topic}"
    loop(plain, group)
    policy = ("--group", f"{group}=exactly-once", "--external", plain.topic)
    found = explained(program, *scope(plain, *policy))
    (one,) = found["groups"]
    assert (one["commits"], one["writes"]) == ("transactional", [plain.topic])
    levels = {level["level"]: level["possible"] for level in found["levels"]}
    assert levels["transactional"]


@pytest.fixture
def chain(whole_broker: Cluster, topic: str) -> Chain:
    """Each of its groups has committed on its input."""
    chain = Chain(whole_broker, topic).open()
    for flow in chain.flows:
        source = Branch.plain(whole_broker, *flow.inputs)
        write(source, 2)
        source.commit(flow.group)
    return chain


def test_flows_are_proposed_to_be_confirmed(chain: Chain, program: Program) -> None:
    topics = ("--topics", ",".join(chain.topics))
    found = explained(program, *topics)
    proposed = [f"{flow.group}:{','.join(flow.inputs)}>?" for flow in chain.flows]
    assert (sorted(found["flows"]), found["flows_confirmed"]) == (sorted(proposed), False)
    confirmed = [word for flow in chain.flows for word in ("--flow", str(flow))]
    found = explained(program, *topics, *confirmed)
    assert (found["strongest"], found["flows_confirmed"]) == ("ordered", True)
