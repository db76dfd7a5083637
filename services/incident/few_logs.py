"""Reads the logs of a few partitions on one broker, and leaves brokers that do not answer alone."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from itertools import islice
from uuid import UUID

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import ReplicaLog, Role, TopicPartition, Unknown

READ_SECONDS = 3.0
"""How long one broker may take."""
MOST_AT_ONCE = 1000
"""Partitions of one broker that are read in one go."""
REST_SECONDS = 10.0
"""So long a broker that did not answer is not asked again."""


class FewLogs:
    """For one thread."""

    def __init__(self, client: ReadClient) -> None:
        self._client = client
        self._rests: dict[int, float] = {}
        """Until when brokers that did not answer are left alone."""

    def read(
        self, broker: int, ids: Mapping[TopicPartition, UUID], silent: Collection[int]
    ) -> dict[TopicPartition, ReplicaLog | None]:
        """The logs of as many partitions as are read at once; None where *broker* is silent."""
        asked = dict(islice(ids.items(), MOST_AT_ONCE))
        told: Mapping[TopicPartition, ReplicaReading] = {}
        if broker not in silent and time.monotonic() >= self._rests.get(broker, 0.0):
            try:
                deadline = Deadline.after(READ_SECONDS)
                told = self._client.replicas_on(broker).read(asked, deadline)
            except BreakglassError:
                self._rests[broker] = time.monotonic() + REST_SECONDS
        return {one: _log(broker, told.get(one)) for one in asked}


def _log(broker: int, told: ReplicaReading | None) -> ReplicaLog | None:
    """What *broker* told of a replica; None if nothing."""
    if told is None or isinstance(told.log_end, Unknown):
        return None
    return ReplicaLog(
        broker=broker,
        role=Role.STALE,
        fenced=Unknown("it was not asked"),
        reachable=True,
        log_start=told.log_start,
        high_watermark=told.high_watermark,
        log_end=told.log_end,
        leader_epoch=told.leader_epoch,
        epochs=told.epochs,
        newest_ms=told.newest_ms,
        source=told.source,
        observed_at_ms=told.observed_at_ms,
    )
