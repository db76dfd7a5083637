"""Designated elections served by a controller that lacks them, through the stock route.

KIP-1275's safety properties are checked here; then the assignment is reordered with the
designee first, an unclean election held, and the order put back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from breakglass.services.model import PartitionState, TopicPartition, Unknown
from tests.kit.native_rpc.translator import Translator

UNKNOWN_SERVER_ERROR = -1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REQUEST = 42
ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
ELECTION_NOT_NEEDED = 84

CONFIRM_SECONDS = 25.0
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Designation:
    """One entry of a request."""

    partition: TopicPartition
    designee: int | None
    """None: the request names no leader for it."""


@dataclass(frozen=True, slots=True)
class DesignationResult:
    """One entry of the answer."""

    error_code: int
    message: str | None = None


def designations(request: Any) -> Iterator[Designation]:
    """The entries of a version 3 request, in its order."""
    for topic in request.topic_partitions:
        designees = topic.designated_leaders or ()
        matched = len(designees) == len(topic.partitions)
        for index, number in enumerate(topic.partitions):
            designee = designees[index] if matched and designees[index] >= 0 else None
            yield Designation(TopicPartition(topic.topic, number), designee)


def refuse(wanted: Designation, state: PartitionState | None) -> DesignationResult | None:
    """Why the election may not be held, or None when it may."""
    if wanted.designee is None:
        return DesignationResult(INVALID_REQUEST, "no designated leader for this partition")
    if state is None:
        return DesignationResult(UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
    if not state.offline:
        return DesignationResult(ELECTION_NOT_NEEDED)
    if wanted.designee not in state.assignment:
        return DesignationResult(
            ELIGIBLE_LEADERS_NOT_AVAILABLE, "the designated leader holds no replica"
        )
    if wanted.designee in state.offline_replicas:
        return DesignationResult(
            ELIGIBLE_LEADERS_NOT_AVAILABLE, "the designated leader is fenced or its disk offline"
        )
    return None


def rivals(wanted: Designation, state: PartitionState) -> set[int]:
    """Live replicas that the stock route would elect in the designee's place (R1)."""
    preferred = {*state.isr}
    for members in (state.elr, state.last_known_elr):
        if not isinstance(members, Unknown):
            preferred.update(members)
    return {
        broker for broker in preferred - {wanted.designee} if broker not in state.offline_replicas
    }


def elect_designated(
    translator: Translator, wanted: list[Designation], fail: Callable[[str], None]
) -> dict[TopicPartition, DesignationResult]:
    """Elect each designee, or say why not. *fail* is told what the translation cannot do."""
    states = translator.states(designation.partition for designation in wanted)
    results: dict[TopicPartition, DesignationResult] = {}
    designees: dict[TopicPartition, int] = {}
    for designation in wanted:
        refused = refuse(designation, states.get(designation.partition))
        if refused is None and (others := rivals(designation, states[designation.partition])):
            refused = _untranslatable(designation, others, fail)
        if refused is not None:
            results[designation.partition] = refused
        elif designation.designee is not None:
            designees[designation.partition] = designation.designee
    results.update(_elect(translator, designees, states, fail))
    return {designation.partition: results[designation.partition] for designation in wanted}


def _untranslatable(
    wanted: Designation, others: set[int], fail: Callable[[str], None]
) -> DesignationResult:
    reason = (
        f"designating {wanted.designee} for {wanted.partition}: the stock route would elect "
        f"{sorted(others)}, so this cannot be translated"
    )
    fail(reason)
    return DesignationResult(UNKNOWN_SERVER_ERROR, reason)


def _elect(
    translator: Translator,
    designees: Mapping[TopicPartition, int],
    states: Mapping[TopicPartition, PartitionState],
    fail: Callable[[str], None],
) -> dict[TopicPartition, DesignationResult]:
    if not designees:
        return {}
    orders = {
        one: (leader, *(other for other in states[one].assignment if other != leader))
        for one, leader in designees.items()
    }
    codes = translator.reassign(orders)
    reordered = [one for one, code in codes.items() if code == 0]
    if reordered:
        codes.update(translator.elect_unclean(reordered))
    leaders = _await_leaders(translator, reordered)
    results = {
        one: _outcome(one, leader, leaders.get(one), codes.get(one, UNKNOWN_SERVER_ERROR), fail)
        for one, leader in designees.items()
    }
    translator.reassign(
        {
            partition: states[partition].assignment
            for partition in reordered
            if results[partition].error_code == 0
        }
    )
    return results


def _outcome(
    partition: TopicPartition,
    designee: int,
    leader: int | None,
    code: int,
    fail: Callable[[str], None],
) -> DesignationResult:
    if leader == designee:
        return DesignationResult(0)
    if leader is None:
        return DesignationResult(code or UNKNOWN_SERVER_ERROR, "no leader was elected")
    reason = f"{leader} was elected for {partition}, not the designated {designee}"
    fail(reason)
    return DesignationResult(UNKNOWN_SERVER_ERROR, reason)


def _await_leaders(
    translator: Translator, partitions: list[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """The leaders once every partition has one, or those there are after `CONFIRM_SECONDS`."""
    give_up = time.monotonic() + CONFIRM_SECONDS
    while True:
        states = translator.states(partitions)
        leaders = {
            partition: states[partition].leader for partition in partitions if partition in states
        }
        if None not in leaders.values() or time.monotonic() >= give_up:
            return leaders
        time.sleep(POLL_SECONDS)
