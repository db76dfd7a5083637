"""Reads the logs of a few partitions of one broker at a time, and rests after it did not answer."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import by_leader
from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, ReplicaLog, Role, TopicPartition, Unknown

MOST_AT_ONCE = 1000
"""Partitions of a broker that are read in one request."""
REST_SECONDS = 10.0
"""Seconds before a broker that did not answer is asked again."""


class FewLogs:
    """For one thread."""

    def __init__(self, client: ReadClient) -> None:
        self._client = client
        self._rests: dict[int, float] = {}
        """Until when brokers that did not answer are left alone."""

    def read(
        self, broker: int, ids: Mapping[TopicPartition, UUID], silent: Collection[int]
    ) -> dict[TopicPartition, ReplicaLog | None]:
        """The logs of as many partitions as a request reads; None: *broker* is silent."""
        asked = dict(islice(ids.items(), MOST_AT_ONCE))
        readings: Mapping[TopicPartition, ReplicaReading] = {}
        if broker not in silent and time.monotonic() >= self._rests.get(broker, 0.0):
            try:
                deadline = Deadline.after(patience.LEADER)
                readings = self._client.replicas_on(broker).read(asked, deadline)
            except BreakglassError:
                self._rests[broker] = time.monotonic() + REST_SECONDS
        return {partition: _log(broker, readings.get(partition)) for partition in asked}

    def of_leaders(self, states: Sequence[PartitionState]) -> dict[TopicPartition, ReplicaLog]:
        """The logs of the leaders of *states*, those that could be read."""
        ids = {state.partition: state.topic_id for state in states}
        return {
            name: log
            for leader, names in by_leader(states).items()
            for name, log in self.read(leader, {name: ids[name] for name in names}, ()).items()
            if log is not None
        }


def log_of_leader(broker: int, reading: ReplicaReading) -> ReplicaLog:
    """The log that *broker*, which leads the partition, reported."""
    return ReplicaLog(
        broker=broker,
        role=Role.ISR,
        fenced=False,
        reachable=True,
        log_start=reading.log_start,
        high_watermark=reading.high_watermark,
        log_end=reading.log_end,
        leader_epoch=reading.leader_epoch,
        epochs=reading.epochs,
        newest_ms=reading.newest_ms,
        source=reading.source,
        observed_at_ms=reading.observed_at_ms,
    )


def _log(broker: int, reading: ReplicaReading | None) -> ReplicaLog | None:
    """The log that *broker* reported of a replica; None if it reported none."""
    if reading is None or isinstance(reading.log_end, Unknown):
        return None
    log = log_of_leader(broker, reading)
    return replace(log, role=Role.STALE, fenced=Unknown("it was not asked"))
