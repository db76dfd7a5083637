"""Reads a cluster and judges its offline partitions: what every front end starts with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.native_rpc import (
    AUTO,
    STOCK,
    SWITCHED_OFF,
    NativeRpc,
    find_native_rpc,
    native_key,
)
from services.model import ClusterSnapshot, PartitionState, TopicPartition
from services.recovery.evidence.gather import Evidence, gather
from services.recovery.judgement.assessment import Assessment
from services.recovery.judgement.circumstances import Circumstances
from services.recovery.judgement.verdict import assess

SNAPSHOT_SECONDS = 10.0

Wanted = Callable[[PartitionState], bool]


@dataclass(frozen=True)
class Triage:
    """The offline partitions of a cluster, judged on the evidence so far."""

    evidence: Evidence
    circumstances: Circumstances
    native: NativeRpc

    @cached_property
    def assessments(self) -> tuple[Assessment, ...]:
        """One for each partition of the evidence, in its order; judged when first asked for."""
        return tuple(assess(one, self.circumstances) for one in self.evidence.partitions)

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.evidence.snapshot

    @property
    def final(self) -> bool:
        """No broker is waited for any more."""
        return not self.evidence.awaited

    def assessment(self, partition: TopicPartition) -> Assessment | None:
        """The judgement of *partition*, if it was read."""
        return next((one for one in self.assessments if one.partition == partition), None)


def triage(
    client: ReadClient,
    duration: float,
    *,
    wanted: Wanted = lambda _: True,
    topics: Sequence[str] = (),
    native_choice: str = AUTO,
    gone: Collection[int] = (),
) -> Iterator[Triage]:
    """Judge the offline partitions of *topics* (all by default) that are *wanted*.

    Yields as `services.recovery.evidence.gather.gather` does; the last one is final. Brokers have
    *duration* seconds to answer. Brokers of *gone* are not worth waiting for: their disks are
    lost, or came back EMPTY.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
    """
    snapshot = client.snapshot(Deadline.after(SNAPSHOT_SECONDS), topics)
    partitions = [one for one in snapshot.offline if wanted(one)]
    yield from judge(client, snapshot, partitions, duration, native_choice, gone)


def judge(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    partitions: Sequence[PartitionState],
    duration: float,
    native_choice: str = AUTO,
    gone: Collection[int] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Triage]:
    """Judge *partitions* of a snapshot already taken; otherwise as `triage`."""
    deadline = Deadline.after(duration)
    native = _native_rpc(client, partitions, native_choice, deadline)
    for evidence in gather(client, snapshot, partitions, deadline, native, stop):
        circumstances = Circumstances(
            snapshot.quorum,
            deadline_passed=not evidence.awaited,
            ruled_out=dict.fromkeys(gone, "declared gone"),
        )
        yield Triage(evidence, circumstances, native)


def _native_rpc(
    client: ReadClient, partitions: Sequence[PartitionState], choice: str, deadline: Deadline
) -> NativeRpc:
    if not partitions:
        return SWITCHED_OFF if native_key(choice) is None else STOCK
    first = partitions[0]
    return find_native_rpc(
        client.sender, choice, first.topic_id, first.partition.partition, deadline
    )
