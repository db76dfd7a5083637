"""Commits offsets of a group, also where its coordinator is still to be found or loads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

PASSING = {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}
"""What a commit ends with while `__consumer_offsets` is being made or moves."""


def commit_offsets(consumer: Consumer, positions: Sequence[TopicPartition]) -> None:
    """Commit *positions* by a member of no group."""
    from confluent_kafka import KafkaException

    last = ""

    def committed() -> bool:
        nonlocal last
        try:
            consumer.commit(offsets=list(positions), asynchronous=False)
        except KafkaException as error:
            last = str(error.args[0].name())
            if last not in PASSING:
                raise
            return False
        return True

    wait_until(committed, "a coordinator to take offsets", instead=lambda: last)
