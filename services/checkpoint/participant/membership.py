"""The membership of a participant: its group, its topics, and its guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC
from breakglass.services.checkpoint.participant.application import Guarantee

BATCH = 500


@dataclass(frozen=True, slots=True)
class Membership:
    """The group and topics of a member."""

    connection: Mapping[str, Any]
    """confluent-kafka's settings: bootstrap servers and authentication."""
    group: str
    topics: tuple[str, ...]
    """The topics that the member reads."""
    member: str
    """Distinguishes this member from others; unchanged when it is restarted."""
    guarantee: Guarantee
    control_topic: str = CONTROL_TOPIC
    batch: int = BATCH
    """Maximum number of records that are committed together."""
    session_ms: int = 10_000
    """Timeout after which the group reassigns the partitions of a dead member."""
    transaction_ms: int = 20_000
    """Timeout after which a dead member's transaction is aborted: it hides later records."""
