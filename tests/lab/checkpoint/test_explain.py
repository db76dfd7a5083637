"""`checkpoint explain`, and `take` without a level: the strongest promise that holds."""

from __future__ import annotations

import uuid

import pytest

from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from tests.kit.program import Ended, breakglass
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.chain import Chain
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.test_quiet import commit, loop, write


@pytest.fixture
def bank(broker: Cluster) -> Branch:
    """Three accounts, whose members have settled everything."""
    name = f"explain-{uuid.uuid4().hex[:8]}"
    found = Branch(broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()
    found.settle()
    return found


@pytest.fixture
def plain(broker: Cluster) -> Branch:
    """A topic of two partitions with records that say nothing of what led to them."""
    name = f"plain-{uuid.uuid4().hex[:8]}"
    create_topic(broker, name, [[1], [1]])
    found = Branch(broker, name, Guarantee.EXACTLY_ONCE, 2, f"control-{name}")
    write(found, 6)
    return found


def scope(topic: Branch, *more: str) -> tuple[str, ...]:
    return ("--topics", topic.topic, "--control-topic", topic.control, *more)


def explained(program: Program, *arguments: str) -> Ended:
    """`checkpoint explain` of topics: no store is named."""
    return breakglass("checkpoint", "explain", *arguments, "--bootstrap-server", program.bootstrap)


def test_participants_are_explained_and_taken_as_coordinated(
    bank: Branch, program: Program
) -> None:
    group = f"{bank.group}=exactly-once"
    done = explained(program, *scope(bank, "--group", group, "--json"))
    assert done.code == 0, done.err
    found = done.document
    assert found["strongest"] == "coordinated"
    assert [topic["writers"] for topic in found["topics"]] == [["participant"]]
    assert [(group["group"], group["commits"], group["policy"]) for group in found["groups"]] == [
        (bank.group, "participant", "exactly-once")
    ]
    consent = ("--write", "--consent", f"write {bank.partitions} markers")
    taken = program("take", *scope(bank, "--group", group), *consent)
    assert taken.code == 0, taken.err
    assert "level coordinated: the strongest promise that holds" in taken.err
    assert taken.out.splitlines()[0].startswith("checkpoint 1  coordinated  completed")
    stored = program("explain", "1", "--json", cluster=False).document
    assert (stored["level"], stored["state"]) == ("coordinated", "completed")
    assert stored["topics"] == found["topics"]


def test_what_is_missing_is_said_and_without_a_promise_nothing_is_taken(
    plain: Branch, program: Program
) -> None:
    commit(plain, f"reader-of-{plain.topic}")
    done = explained(program, *scope(plain))
    assert done.code == 0, done.err
    assert "no promise holds" in done.out
    assert f"ordered: group reader-of-{plain.topic} (classic) reads {plain.topic}" in done.out
    assert "idempotent" in done.out
    taken = program("take", *scope(plain))
    assert taken.code == 3
    assert "no promise holds" in taken.err
    assert not program.store.exists()


def test_a_plain_application_whose_groups_are_named_is_taken_as_ordered(
    plain: Branch, program: Program
) -> None:
    group = f"reader-of-{plain.topic}"
    commit(plain, group)
    taken = program("take", *scope(plain, "--group", f"{group}=reader"))
    assert taken.code == 0, taken.err
    assert "level ordered: the strongest promise that holds" in taken.err
    assert "verified: the record" in taken.err
    stored = program("explain", "1", cluster=False)
    assert stored.out.splitlines()[0] == "checkpoint 1  ordered  completed"
    assert "nothing is lost" in stored.out
    assert "verified: the record" in stored.out


def test_a_transactional_loop_is_explained_as_possibly_transactional(
    plain: Branch, program: Program
) -> None:
    group = f"looped-{plain.topic}"
    loop(plain, group)
    policy = ("--group", f"{group}=exactly-once", "--external", plain.topic)
    found = explained(program, *scope(plain, *policy, "--json")).document
    (group,) = found["groups"]
    assert (group["commits"], group["writes"]) == ("transactional", [plain.topic])
    levels = {level["level"]: level["possible"] for level in found["levels"]}
    assert levels["transactional"]


def test_flows_are_proposed_to_be_confirmed(broker: Cluster, program: Program) -> None:
    chain = Chain(broker, f"flows-{uuid.uuid4().hex[:8]}").open()
    for flow in chain.flows:
        (source,) = flow.inputs
        topic = Branch(broker, source, Guarantee.AT_LEAST_ONCE, chain.partitions)
        write(topic, 2)
        commit(topic, flow.group)
    topics = ("--topics", ",".join(chain.topics))
    found = explained(program, *topics, "--json").document
    proposed = [f"{flow.group}:{','.join(flow.inputs)}>?" for flow in chain.flows]
    assert (sorted(found["flows"]), found["flows_confirmed"]) == (sorted(proposed), False)
    confirmed = [word for flow in chain.flows for word in ("--flow", str(flow))]
    found = explained(program, *topics, *confirmed, "--json").document
    assert (found["strongest"], found["flows_confirmed"]) == ("ordered", True)
