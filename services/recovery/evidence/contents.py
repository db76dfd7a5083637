"""Reads the contents of replicas that would be elected, before they are proposed.

The winner of the ranking is read; where it is corrupt, the ranking changes, and the new winner is
read: until every winner is verified as far as the allowance goes.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.contents import Expected, LogToRead
from breakglass.services.kafka.replicas.limits import Allowance
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    Denied,
    LogContents,
    LogDir,
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import recovery_order
from breakglass.services.recovery.judgement.inputs import remembering
from breakglass.services.recovery.judgement.ranking import rank
from breakglass.services.recovery.judgement.succession import heir
from breakglass.services.session import Effort

Chosen = Callable[[PartitionEvidence], int | None]
"""The replica that was chosen by hand, by rule or by a plan; None: none was."""
Found = LogContents | Unknown

OFF = Unknown("its contents were not read (--verify-contents off)")
SPENT = Unknown("its contents were not read: the budget of the reading ended")


def nobody(_: PartitionEvidence) -> None:
    """No replica was chosen but by its rank."""


class ContentsReading:
    """The contents read for one judgement; each replica is read once."""

    def __init__(
        self,
        client: ReadClient,
        effort: Effort | None,
        chosen: Chosen = nobody,
        stop: Callable[[], bool] = lambda: False,
        allowance: Allowance | None = None,
    ) -> None:
        self._client, self._effort, self._chosen, self._stop = client, effort, chosen, stop
        self._allowance = allowance or Allowance.of(effort or Effort.OFF)
        self._found: dict[tuple[TopicPartition, int], Found] = {}

    @property
    def spent(self) -> bool:
        """Nothing more will be read."""
        return self._allowance.spent

    def applied(self, partitions: Iterable[PartitionEvidence]) -> tuple[PartitionEvidence, ...]:
        """*partitions* with what was read of them so far."""
        found = self._found
        return (
            tuple([_with(partition, found) for partition in partitions])
            if found
            else tuple(partitions)
        )

    def read(self, partitions: Sequence[PartitionEvidence]) -> tuple[PartitionEvidence, ...]:
        """*partitions* with the contents of those replicas that an election would choose."""
        now = self.applied(partitions)
        unsettled: Iterable[PartitionEvidence] = now
        while due := list(self._due(unsettled)):
            self._read(due)
            now = self.applied(now)
            again = {evidence.partition for evidence, read in due if self._reranks(evidence, read)}
            unsettled = [partition for partition in now if partition.partition in again]
        return now

    def _reranks(self, evidence: PartitionEvidence, read: ReplicaLog) -> bool:
        """Whether what was *read* may put another replica in its place: only damage ranks."""
        if self._chosen is not nobody:
            return True
        found = self._found[evidence.partition, read.broker]
        return isinstance(found, LogContents) and found.corrupt_at is not None

    def due(self, partitions: Iterable[PartitionEvidence]) -> Iterator[TopicPartition]:
        """Which of *partitions* have replicas that are still to be read, which takes time."""
        if self._effort is Effort.OFF or self.spent:
            return iter(())
        return (evidence.partition for evidence, _ in self._due(partitions))

    def _due(
        self, partitions: Iterable[PartitionEvidence]
    ) -> Iterator[tuple[PartitionEvidence, ReplicaLog]]:
        """The replicas whose turn it is; those of internal topics first."""
        if self._effort is None:
            return
        for evidence in sorted(partitions, key=lambda evidence: recovery_order(evidence.partition)):
            for broker in candidates(evidence, self._chosen(evidence)):
                replica = evidence.replica(broker)
                tried = (evidence.partition, broker) in self._found
                if (
                    replica is not None
                    and not tried
                    and isinstance(replica.log_end, int)
                    and not isinstance(replica.contents, LogContents)
                ):
                    yield evidence, replica

    def _read(self, due: Sequence[tuple[PartitionEvidence, ReplicaLog]]) -> None:
        by_broker: dict[int, list[LogToRead]] = {}
        for evidence, replica in due:
            known = self._at_once(replica) or _to_read(evidence, replica)
            if isinstance(known, LogToRead):
                by_broker.setdefault(replica.broker, []).append(known)
            else:
                self._found[evidence.partition, replica.broker] = known
        if by_broker:
            share = self._allowance.share(sum(map(len, by_broker.values())))
            began, deadline = time.monotonic(), self._allowance.begin()
            with ThreadPoolExecutor(len(by_broker), "contents") as pool:
                work = {
                    broker: pool.submit(self._read_broker, broker, logs, share, deadline)
                    for broker, logs in by_broker.items()
                }
                for broker, reading in work.items():
                    for partition, found in reading.result().items():
                        self._found[partition, broker] = found
            self._allowance.ended(time.monotonic() - began)

    def _at_once(self, replica: ReplicaLog) -> Found | None:
        """What is known of *replica* without reading it."""
        if self._effort is Effort.OFF:
            return OFF
        if replica.empty and isinstance(replica.log_end, int):
            return LogContents(replica.log_end, replica.log_end)
        if isinstance(replica.epochs, Denied):
            # Epochs and contents are read by the same request, under the same ACL.
            return replica.epochs
        return SPENT if self._allowance.spent else None

    def _read_broker(
        self, broker: int, logs: Sequence[LogToRead], share: int, deadline: Deadline
    ) -> Mapping[TopicPartition, Found]:
        reader = self._client.contents_on(broker, self._allowance, self._stop)
        return reader.read(logs, share, deadline)


def candidates(evidence: PartitionEvidence, chosen: int | None = None) -> Iterator[int]:
    """Brokers that may come to lead: the ranking's winner, the controller's choice, *chosen*."""
    winner, successor = rank(evidence).winner, heir(evidence)
    if winner is not None:
        yield winner.broker
    if successor is not None:
        yield successor.broker
    if chosen is not None:
        yield chosen


def as_known(then: PartitionEvidence | None, now: PartitionEvidence) -> PartitionEvidence:
    """*now* with everything known *then* that is still valid."""
    return now if then is None else carried(then, remembering(then, now))


def carried(before: PartitionEvidence, now: PartitionEvidence) -> PartitionEvidence:
    """*now* with the contents that were read *before*, of each log that is still the same."""
    if before.state.topic_id != now.state.topic_id:
        return now
    kept = {
        (now.partition, replica.broker): replica.contents
        for replica in before.replicas
        if isinstance(replica.contents, LogContents)
        and _still_holds(replica, now.replica(replica.broker))
    }
    return _with(now, kept) if kept else now


def _still_holds(before: ReplicaLog, now: ReplicaLog | None) -> bool:
    """Whether *before*'s contents say more of the log *now* than was read of it since."""
    if now is None or isinstance(now.log_end, Unknown) or before.log_end != now.log_end:
        return False
    if before.last_written_epoch != now.last_written_epoch:
        return False
    if not isinstance(now.contents, LogContents):
        return True
    lowest = before.corrupt_at
    return lowest is not None and now.corrupt_at is None and now.contents.verified_from > lowest


def _with(
    evidence: PartitionEvidence, found: Mapping[tuple[TopicPartition, int], Found]
) -> PartitionEvidence:
    partition = evidence.partition
    replicas = tuple(
        [_holding(replica, found.get((partition, replica.broker))) for replica in evidence.replicas]
    )
    same = all(map(operator.is_, replicas, evidence.replicas))
    return evidence if same else replace(evidence, replicas=replicas)


def _holding(replica: ReplicaLog, contents: Found | None) -> ReplicaLog:
    if contents is None or contents is replica.contents:
        return replica
    return replace(replica, contents=contents)


def _to_read(evidence: PartitionEvidence, replica: ReplicaLog) -> LogToRead | Unknown:
    start, end = replica.log_start, replica.log_end
    if isinstance(start, Unknown):
        return start
    assert isinstance(end, int), "only replicas whose end is known are read"
    size = replica.log_dir.size if isinstance(replica.log_dir, LogDir) else None
    gapless = evidence.settings.compacted is False
    return LogToRead(
        evidence.partition,
        start,
        end,
        size if isinstance(size, int) else None,
        Expected(end, gapless, replica.epochs),
    )
