"""Says at once what a restore would wait for in vain: a coordinator, or the end of a transaction.

The coordinator of a transactional id leads a partition of `__transaction_state`, and the progress
of a restore is committed to one of `__consumer_offsets`, in the same transaction. Which partitions
follows from names that contain a random id, so a partition without leader may stop any of them.

What is restored is compared as read_committed consumers read it. They stop at the first open
transaction, and where a coordinator has lost it, no coordinator ends it (R18). The transaction of
a restore that was killed is no hindrance to its resume, whose producer aborts it first.
"""

from __future__ import annotations

import time
from collections.abc import Container
from pathlib import Path

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.open_transactions import (
    OpenTransaction,
    read_open_transactions,
)
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.pipeline.restore.planned import RestorePlan
from breakglass.services.pipeline.restore.state import read_state
from breakglass.services.pipeline.restore.task import transactional_id_of

TRANSACTIONS_TOPIC = "__transaction_state"
NAMED = 3
"""More partitions than these are counted."""
LOOK_SECONDS = 0.5


def hindrance(client: ReadClient, plan: RestorePlan, *, transactional: bool, verify: bool) -> str:
    """Why the restore of *plan* would wait in vain, and what to do; empty if nothing shows that."""
    if not plan.records:
        return ""
    offline = _offline_coordinators(client) if transactional else ""
    return offline or (_left_open(client, plan) if verify else "")


def _offline_coordinators(client: ReadClient) -> str:
    """Why transactions would wait.

    A topic that does not exist yet is made when it is first needed. Topics that this user may not
    describe are not known to be offline.
    """
    offline: list[str] = []
    for topic in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
        try:
            states = client.partitions([topic], Deadline.after(patience.REQUEST))
        except BreakglassError:
            continue
        offline += [str(state.partition) for state in states if state.offline]
    if not offline:
        return ""
    more = f" and {len(offline) - NAMED:,} more" if len(offline) > NAMED else ""
    have = "has" if len(offline) == 1 else "have"
    return (
        f"{', '.join(offline[:NAMED])}{more} {have} no leader, and the transactions of a restore "
        "would wait for one: recover internal topics first (breakglass triage), or restore with "
        "--no-transactions"
    )


def _left_open(client: ReadClient, plan: RestorePlan) -> str:
    """Why restored records could not be compared: a transaction that stays open.

    Producers at work have transactions open all the time; each of them has time to end.
    """
    give_up = Deadline.after(patience.REQUEST)
    resumed = [topic for topic in plan.topics if topic.resumed]
    begun = [(topic, read_state(Path(topic.state_folder))) for topic in resumed]
    # An earlier run of the plan has used these.
    own = frozenset(
        transactional_id_of(state.restore_id, topic.target, partition.partition)
        for topic, state in begun
        if state is not None
        for partition in topic.partitions
    )
    first = _open_on(client, plan, own)
    left = dict(first)
    while left and not give_up.passed:
        lost = next((one for one in left.values() if one.hanging is True), None)
        if lost is not None:
            return _text(lost)
        time.sleep(LOOK_SECONDS)
        now = _open_on(client, plan, own)
        left = {key: now[key] for key in first.keys() & now.keys()}
    return _text(next(iter(left.values()))) if left else ""


_Key = tuple[TopicPartition, int, int]
"""Of a transaction: its partition, its producer id, and its first offset."""


def _open_on(
    client: ReadClient, plan: RestorePlan, own: Container[str]
) -> dict[_Key, OpenTransaction]:
    """The open transactions on the partitions of *plan*; none if they cannot be read.

    Left out are those of the transactional ids *own*, which their coordinator knows.
    """
    wanted = {
        TopicPartition(topic.target, partition.partition)
        for topic in plan.topics
        if topic.exists
        for partition in topic.partitions
        if partition.records
    }
    if not wanted:
        return {}
    deadline = Deadline.after(patience.REQUEST)
    try:
        states = client.partitions(sorted({one.topic for one in wanted}), deadline, wanted)
        leaders = {
            state.partition: state.leader
            for state in states
            if state.partition in wanted and state.leader is not None
        }
        live = client.describe(deadline).live
    except BreakglassError:
        return {}
    found = read_open_transactions(client.sender, leaders, live, deadline)
    if isinstance(found, Unknown):
        return {}
    return {
        (one.partition, one.producer_id, one.start_offset): one
        for one in found
        if one.hanging is not False or one.transactional_id not in own
    }


def _text(one: OpenTransaction) -> str:
    ends = (
        f"its coordinator says {one.coordinator_state}: its producer or its timeout ends it: wait "
        "for that"
        if one.hanging is False
        else "no coordinator is known to end it: end it with breakglass transactions finish"
    )
    return (
        f"{one.partition} has a transaction of producer {one.producer_id}, open since offset "
        f"{one.start_offset:,}: consumers that read committed records stop there, and what is "
        f"restored could not be compared; {ends}, or restore with --no-verify"
    )
