"""Reads the control topic, creates it if it is missing, and writes to it."""

from __future__ import annotations

from collections.abc import Iterator

from breakglass.services.checkpoint.kafka.control import SETTINGS, Control, control_of
from breakglass.services.checkpoint.kafka.log_ends import read_logs, settled
from breakglass.services.checkpoint.kafka.scanning import committed_log
from breakglass.services.errors import ClusterError, OutcomeUnknown, TimedOut, UsageError
from breakglass.services.kafka.marker_client import MarkerClient, Small
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.topic_client import TopicClient
from breakglass.services.kafka.wire.deadline import Deadline, until


def read_control(
    client: ReadClient, topic: str, deadline: Deadline, since: int | None = None
) -> Control | None:
    """The content of the control topic; None if there is no topic. *since*: see `control_of`.

    Raises:
        ClusterError, Unreachable: it cannot be read.
    """
    if not client.partitions((topic,), deadline):
        return None
    return until(deadline, lambda: control_of(_records(client, topic, deadline), since))


def _records(
    client: ReadClient, topic: str, deadline: Deadline
) -> Iterator[tuple[bytes | None, bytes | None]]:
    logs, ends = settled(client, (topic,), deadline)
    (partition,) = (state.partition for state in logs.states)
    start, end = logs.starts(deadline)[partition], ends[partition]
    log = committed_log(logs, partition)
    if start < end:
        for batch in log.batches(start, end):
            for record in batch.records(log.where):
                yield record.key, record.value


def ensure_control(client: ReadClient, topics: TopicClient, topic: str, deadline: Deadline) -> None:
    """Create the control topic unless it exists; return when it has a leader.

    Raises:
        NotAuthorized, ClusterError, OutcomeUnknown: the cluster did not create it.
    """
    if not client.partitions((topic,), deadline):
        try:
            topics.create(topic, 1, SETTINGS, deadline)
        except (ClusterError, OutcomeUnknown):
            # Another process may have created it in between.
            if not client.partitions((topic,), deadline):
                raise
    until(deadline, lambda: _require(client, topic, deadline))


def _require(client: ReadClient, topic: str, deadline: Deadline) -> None:
    try:
        logs = read_logs(client, (topic,), deadline)
    except UsageError as error:
        raise TimedOut(str(error), "the topic is not there yet") from None
    if len(logs.states) != 1:
        raise ClusterError(
            f"topic {topic} has {len(logs.states)} partitions and a control topic has one: name "
            "another one"
        )


def write_control(
    client: ReadClient,
    markers: MarkerClient,
    topic: str,
    record: tuple[bytes, bytes],
    deadline: Deadline,
) -> None:
    """Write *record*, by key and value, to the control topic, durably.

    Raises:
        TimedOut: it was not acknowledged; the topic may contain it anyway, which does no harm.
    """
    key, value = record

    def write() -> None:
        logs = read_logs(client, (topic,), deadline)
        if not markers.write(logs.states, Small(key, value), deadline):
            raise TimedOut(f"topic {topic} took no record: try again", "no answer")

    until(deadline, write)
