"""Reads log starts and ends of many partitions, with one to three requests to each leader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.errors import ClusterError, TimedOut, UsageError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.leader_ends import Unanswered, read_leader_ends
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetError,
)
from breakglass.services.kafka.wire.broker_errors import retriable
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import PartitionState, TopicPartition, Unknown

Ends = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Logs:
    """Partitions with their leaders at the time of reading."""

    client: ReadClient
    states: tuple[PartitionState, ...]

    def starts(self, deadline: Deadline) -> Ends:
        """Log starts. Raises as `high_watermarks`."""
        return self._listed(EARLIEST, READ_UNCOMMITTED, deadline)

    def high_watermarks(self, deadline: Deadline) -> Ends:
        """The offsets up to which every in-sync replica has the records.

        Raises:
            TimedOut: a leader has moved: read the partitions again.
            ClusterError, Unreachable: a leader does not answer the request.
        """
        return self._listed(LATEST, READ_UNCOMMITTED, deadline)

    def stable_ends(self, deadline: Deadline) -> Ends:
        """The offsets before which no transaction is open. Raises as `high_watermarks`."""
        return self._listed(LATEST, READ_COMMITTED, deadline)

    def leader(self, partition: TopicPartition) -> int:
        """The leader of *partition*."""
        state = next(state for state in self.states if state.partition == partition)
        assert state.leader is not None
        return state.leader

    def _listed(self, timestamp: int, isolation: int, deadline: Deadline) -> Ends:
        found = read_leader_ends(
            self.client.sender,
            self.states,
            deadline,
            timestamp=timestamp,
            isolation_level=isolation,
        )
        ends: Ends = {}
        for partition, end in found.items():
            if isinstance(end, Unanswered):
                raise end.error
            if isinstance(end, Unknown):
                raise _unlisted(partition, end)
            ends[partition] = end
        return ends


def _unlisted(partition: TopicPartition, error: Unknown) -> Exception:
    message = f"the end of {partition} cannot be read ({error.reason}): try again"
    if isinstance(error, OffsetError) and retriable(error.code):
        return TimedOut(message, error.reason)
    return ClusterError(message)


def read_logs(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> Logs:
    """The partitions of *topics*, each with a leader, in the order of the topic names.

    Raises:
        UsageError: a topic does not exist.
        TimedOut: a partition has no leader until the deadline.
    """
    client.describe(deadline)
    return until(deadline, lambda: _led(client, topics, deadline))


def _led(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> Logs:
    states = sorted(client.partitions(topics, deadline), key=lambda partition: partition.partition)
    absent = sorted(set(topics) - {state.partition.topic for state in states})
    if absent:
        raise UsageError(f"There is no topic {', '.join(absent)}: check the spelling.")
    offline = [state.partition for state in states if state.leader is None]
    if offline:
        raise TimedOut(
            f"{offline[0]} is offline: run `breakglass triage`, then try again", "no leader"
        )
    return Logs(client, tuple(states))


def read_ends(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> tuple[Logs, Ends]:
    """The partitions of *topics* with their high watermarks, even if leaders move.

    Raises: as `read_logs` and `Logs.high_watermarks`.
    """

    def read() -> tuple[Logs, Ends]:
        logs = read_logs(client, topics, deadline)
        return logs, logs.high_watermarks(deadline)

    return until(deadline, read)


def settled(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> tuple[Logs, Ends]:
    """The current high watermarks, once no transaction is open before them (H5).

    A transaction's offset commits are visible before its outputs, so a read up to the stable end
    alone would miss outputs.

    Raises:
        TimedOut: a transaction stays open.
    """
    _, wanted = read_ends(client, topics, Deadline.after(patience.REQUEST))
    return until(deadline, lambda: _stable(client, topics, wanted))


def _stable(client: ReadClient, topics: Sequence[str], wanted: Ends) -> tuple[Logs, Ends]:
    # Ask even when little time is left, so that the error names the open transaction.
    ask = Deadline.after(patience.REQUEST)
    logs = read_logs(client, topics, ask)
    stable = logs.stable_ends(ask)
    behind = [one for one, end in wanted.items() if stable[one] < end]
    if behind:
        raise TimedOut(
            f"a transaction stays open in {behind[0]} ({len(behind)} partitions): see "
            "`kafka-transactions.sh find-hanging`",
            "a transaction is open",
        )
    return logs, wanted
