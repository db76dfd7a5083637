"""Where the logs of many partitions begin and end, a request or three for each leader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.model import PartitionState, TopicPartition, Unknown

Ends = dict[TopicPartition, int]
ASK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Logs:
    """Partitions with their leaders, as they were when this was read."""

    client: ReadClient
    states: tuple[PartitionState, ...]

    def starts(self, deadline: Deadline) -> Ends:
        """Log starts. Raises as `high_watermarks`."""
        return self._listed(EARLIEST, READ_UNCOMMITTED, deadline)

    def high_watermarks(self, deadline: Deadline) -> Ends:
        """What every replica in sync has.

        Raises:
            TimedOut: a leader is elsewhere by now: read the partitions again.
            ClusterError, Unreachable: a leader does not tell.
        """
        return self._listed(LATEST, READ_UNCOMMITTED, deadline)

    def stable_ends(self, deadline: Deadline) -> Ends:
        """Before them no transaction is open. Raises as `high_watermarks`."""
        return self._listed(LATEST, READ_COMMITTED, deadline)

    def leader(self, partition: TopicPartition) -> int:
        """Who leads *partition*."""
        state = next(one for one in self.states if one.partition == partition)
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
    """The partitions of *topics*, each with a leader, in the order of their names.

    Raises:
        UsageError: one of *topics* does not exist.
        TimedOut: a partition has no leader for long.
    """
    client.describe(deadline)
    return until(deadline, lambda: _led(client, topics, deadline))


def _led(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> Logs:
    states = sorted(client.partitions(topics, deadline), key=lambda one: one.partition)
    absent = sorted(set(topics) - {one.partition.topic for one in states})
    if absent:
        raise UsageError(f"There is no topic {', '.join(absent)}: check the spelling.")
    offline = [one.partition for one in states if one.leader is None]
    if offline:
        raise TimedOut(
            f"{offline[0]} is offline: run `breakglass triage`, then try again", "no leader"
        )
    return Logs(client, tuple(states))


def read_ends(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> tuple[Logs, Ends]:
    """The partitions of *topics* with their high watermarks, wherever their leaders go meanwhile.

    Raises: as `read_logs` and `Logs.high_watermarks`.
    """

    def read() -> tuple[Logs, Ends]:
        logs = read_logs(client, topics, deadline)
        return logs, logs.high_watermarks(deadline)

    return until(deadline, read)


def settled(client: ReadClient, topics: Sequence[str], deadline: Deadline) -> tuple[Logs, Ends]:
    """The high watermarks now, once no transaction is open before them (H5).

    A transaction's offsets show before its outputs: what is read up to the stable end alone lacks
    some.

    Raises:
        TimedOut: a transaction stays open.
    """
    _, wanted = read_ends(client, topics, Deadline.after(ASK_SECONDS))
    return until(deadline, lambda: _stable(client, topics, wanted))


def _stable(client: ReadClient, topics: Sequence[str], wanted: Ends) -> tuple[Logs, Ends]:
    # However little time is left, the answer says which transaction it is.
    ask = Deadline.after(ASK_SECONDS)
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
