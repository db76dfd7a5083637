"""Whose member takes part in checkpoints, of which topics, and with which guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC
from breakglass.services.checkpoint.participant.application import Guarantee

BATCH = 500


@dataclass(frozen=True, slots=True)
class Membership:
    """Whose member it is, and of what."""

    connection: Mapping[str, Any]
    """Of confluent-kafka: where the brokers are, and how to get in."""
    group: str
    topics: tuple[str, ...]
    """That it reads."""
    member: str
    """Tells this member from the others; the same again when it is started again."""
    guarantee: Guarantee
    control_topic: str = CONTROL_TOPIC
    batch: int = BATCH
    """Records that are committed together, at most."""
    session_ms: int = 10_000
    """After which a member that is gone has its partitions taken away."""
    transaction_ms: int = 20_000
    """After which its transaction is ended, and what lies behind it can be read."""
