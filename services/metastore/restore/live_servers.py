"""What tells of ksqlDB servers that still run. That none does cannot be proved (M6).

Servers read the command topic outside every group, and between two statements nothing of theirs is
open. What can be seen: members of the groups of their queries, a transaction under way, a producer
epoch that grows while it is looked at, and what servers answer whose addresses are known.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.broker_errors import describe_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.metastore.restore.server_info import AskedServers
from breakglass.services.metastore.settings import MetastoreSettings
from breakglass.services.model import Unknown

TRANSACTION = 1
"""CoordinatorType of FindCoordinator."""
BETWEEN_SAMPLES = 1.0
UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class LiveServers:
    """What was seen; ``unknown`` holds what could not be."""

    groups: tuple[str, ...] = ()
    """Of queries, with members."""
    transaction: str | Unknown = ""
    """State of the service's transactional id; empty when there never was one."""
    writing: bool = False
    """Its producer epoch grew while it was looked at."""
    unknown: tuple[str, ...] = ()
    answering: tuple[str, ...] = ()
    """A sentence for each server that answered for this service."""

    @property
    def seen(self) -> tuple[str, ...]:
        """A sentence for everything that tells of a running server."""
        found = []
        if self.groups:
            named = ", ".join(self.groups[:3]) + ("..." if len(self.groups) > 3 else "")
            found.append(f"{len(self.groups)} query groups have members: {named}")
        if self.transaction in UNDER_WAY:
            found.append(f"a transaction of the service is under way ({self.transaction})")
        if self.writing:
            found.append("a writer took the service's transactional id while it was looked at")
        return (*found, *self.answering)

    @property
    def unseen(self) -> tuple[str, ...]:
        """A sentence for everything that stays unknown."""
        always = "whether every server is stopped cannot be known: idle ones leave no trace"
        return (*self.unknown, always)


def look_for_servers(
    sender: Sender, settings: MetastoreSettings, brokers: Iterable[int], deadline: Deadline
) -> LiveServers:
    """Look twice, a second apart. What is not told is a reason, never an error."""
    unknown: list[str] = []
    prefix = f"_confluent-ksql-{settings.service_id}{settings.persistent_prefix}"
    groups = tuple(sorted(set(_groups(sender, brokers, prefix, deadline, unknown))))
    first = _transaction(sender, settings.service_id, deadline)
    time.sleep(BETWEEN_SAMPLES)
    second = _transaction(sender, settings.service_id, deadline)
    for told in (second, first):
        if isinstance(told, Unknown):
            unknown.append(f"the service's transactions could not be read: {told.reason}")
            return LiveServers(groups, told, False, tuple(unknown))
    assert not isinstance(first, Unknown)
    assert not isinstance(second, Unknown)
    return LiveServers(groups, second[0], first[1] != second[1], tuple(unknown))


def with_answers(servers: LiveServers, asked: AskedServers | None) -> LiveServers:
    """*servers* with what was told by those that were asked; None: none was."""
    if asked is None:
        none = (
            "no server was asked whether it runs: "
            "`metastore restore --server http://HOST:8088` asks one"
        )
        return replace(servers, unknown=(*servers.unknown, none))
    return replace(servers, unknown=(*servers.unknown, *asked.unknown), answering=asked.seen)


def _groups(
    sender: Sender,
    brokers: Iterable[int],
    prefix: str,
    deadline: Deadline,
    unknown: list[str],
) -> Iterable[str]:
    from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse

    for broker in brokers:
        request = ListGroupsRequest(states_filter=[], types_filter=[])
        try:
            answer = sender.call(broker, request, ListGroupsResponse, deadline)
        except BreakglassError as error:
            unknown.append(f"b{broker} does not tell its groups: {error}")
            continue
        if answer.error_code:
            told = describe_error(answer.error_code)
            unknown.append(f"b{broker} does not tell its groups: {told}")
        for one in answer.groups:
            if one.group_id.startswith(prefix) and one.group_state not in WITHOUT_MEMBERS:
                yield one.group_id


def _transaction(
    sender: Sender, transactional_id: str, deadline: Deadline
) -> tuple[str, tuple[int, int]] | Unknown:
    """State, and producer id with epoch."""
    from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse

    try:
        coordinator = _coordinator(sender, transactional_id, deadline)
        if isinstance(coordinator, Unknown):
            return coordinator
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = sender.call(coordinator, request, DescribeTransactionsResponse, deadline)
    except BreakglassError as error:
        return Unknown(str(error))
    (told,) = answer.transaction_states
    if told.error_code == TRANSACTIONAL_ID_NOT_FOUND:
        return "", (-1, -1)
    if told.error_code:
        return Unknown(describe_error(told.error_code))
    return told.transaction_state, (told.producer_id, told.producer_epoch)


TRANSACTIONAL_ID_NOT_FOUND = 105


def _coordinator(sender: Sender, transactional_id: str, deadline: Deadline) -> int | Unknown:
    from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

    request = FindCoordinatorRequest(
        key_type=TRANSACTION, key=transactional_id, coordinator_keys=[transactional_id]
    )
    answer: Any = sender.call(ANY_BROKER, request, FindCoordinatorResponse, deadline)
    told = answer.coordinators[0] if answer.coordinators else answer
    if told.error_code:
        return Unknown(f"no coordinator ({describe_error(told.error_code)})")
    return int(told.node_id)
