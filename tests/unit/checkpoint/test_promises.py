"""Which promise holds, by what the logs show and what is declared."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from breakglass.services.checkpoint.promises import Explanation, WantedCheckpoint, proposed_flows
from breakglass.services.checkpoint.protocol.lineage import (
    CheckpointEvidence,
    Committing,
    GroupEvidence,
    GroupFlow,
    TopicEvidence,
    WriterKind,
)
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.errors import Refused

STAMPED = TopicEvidence("A", 3, 100, (WriterKind.PARTICIPANT,), transactional=False)
PLAIN = TopicEvidence(
    "A", 3, 100, (WriterKind.IDEMPOTENT,), False, False, unstamped="A-0 at offset 12"
)
IN_TRANSACTIONS = replace(PLAIN, writers=(WriterKind.TRANSACTIONAL,), transactional=True)
GROUP = GroupEvidence("g1", "classic", "Stable", ("A",), Committing.PLAIN)
FLOW = GroupFlow("g1", ("A",), ("B",))
AT_LEAST_ONCE = {"g1": GroupPolicy.AT_LEAST_ONCE}
B = replace(PLAIN, topic="B", unstamped="B-0 at offset 3")


def declared(groups: Mapping[str, GroupPolicy], **options: Any) -> WantedCheckpoint:
    return WantedCheckpoint(("A",), groups, **options)


NOTHING = declared({})


def of(
    *evidence: TopicEvidence | GroupEvidence, declared: WantedCheckpoint = NOTHING
) -> Explanation:
    topics = tuple(one for one in evidence if isinstance(one, TopicEvidence))
    groups = tuple(one for one in evidence if isinstance(one, GroupEvidence))
    return Explanation(CheckpointEvidence(topics, groups), declared)


def test_no_promise_holds_for_records_that_do_not_say_what_led_to_them() -> None:
    found = of(PLAIN, GROUP)
    assert found.strongest is None
    assert "A-0 at offset 12" in "".join(found.missing(Level.VERIFIED))
    for level in (Level.COORDINATED, Level.VERIFIED, Level.ORDERED, Level.TRANSACTIONAL):
        with pytest.raises(Refused):
            found.require(level)


def test_a_group_that_is_not_named_takes_every_promise_away() -> None:
    found = of(STAMPED, GROUP)
    assert found.strongest is None
    for outlook in found.levels:
        assert "g1" in outlook.missing[0], outlook.level


def test_a_share_group_cannot_be_saved_and_has_to_be_declared() -> None:
    shared = replace(GROUP, name="s", kind="share")
    assert of(STAMPED, shared).strongest is None
    named = declared({"s": GroupPolicy.READER})
    assert "cannot be saved" in of(STAMPED, shared, declared=named).missing(Level.COORDINATED)[0]
    left_out = declared({"s": GroupPolicy.LEFT_OUT})
    assert of(STAMPED, shared, declared=left_out).strongest is Level.COORDINATED


@pytest.mark.parametrize(
    ("flows", "reads", "missing"),
    [
        ((FLOW, GroupFlow("g2", ("B",), ("A",))), ("A",), "(A > g1 > B > g2 > A)"),
        ((GroupFlow("g1", ("A",), ("C",)),), ("A",), "names C, not among --topics"),
        ((FLOW,), ("A", "B"), "group g1 reads B too"),
        ((GroupFlow("g1", ("A", "B")),), ("A",), "group g1 has committed nothing on B"),
        ((GroupFlow("gone", ("A",)),), ("A",), "group gone has a flow, and has committed nothing"),
    ],
)
def test_flows_that_cannot_be_read_in_order_or_differ_from_the_groups_are_named(
    flows: tuple[GroupFlow, ...], reads: tuple[str, ...], missing: str
) -> None:
    named = declared({flow.group: GroupPolicy.AT_LEAST_ONCE for flow in flows}, flows=flows)
    found = of(PLAIN, B, replace(GROUP, reads=reads), declared=named)
    assert missing in "\n".join(found.missing(Level.ORDERED))


def test_transactions_alone_make_the_transactional_promise_possible() -> None:
    named = declared({"g1": GroupPolicy.EXACTLY_ONCE})
    committing = replace(GROUP, commits=Committing.TRANSACTIONAL)
    assert of(IN_TRANSACTIONS, committing, declared=named).missing(Level.TRANSACTIONAL) == ()
    assert of(IN_TRANSACTIONS, GROUP, declared=named).missing(Level.TRANSACTIONAL)
    assert of(PLAIN, committing, declared=named).missing(Level.TRANSACTIONAL)


def test_compaction_takes_every_promise_away_unless_it_is_held_back() -> None:
    compacted = replace(STAMPED, compacted=True)
    assert "add --hold-retention" in of(compacted).missing(Level.COORDINATED)[0]
    held = declared({}, hold_retention=True)
    assert of(compacted, declared=held).strongest is Level.COORDINATED


def test_flows_are_proposed_from_what_groups_read_and_write() -> None:
    topics = [replace(PLAIN, topic=name) for name in ("A", "C", "app-x-repartition", "D")]
    groups = (
        replace(GROUP, name="app", reads=("A", "app-x-repartition"), writes=("C",)),
        replace(GROUP, name="sink", reads=("C",)),
        replace(GROUP, name="s", kind="share"),
    )
    assert proposed_flows(CheckpointEvidence(tuple(topics), groups)) == (
        "app:app-x-repartition>C",
        "app:A>C,app-x-repartition",
        "sink:C>?",
    )
