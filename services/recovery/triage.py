"""Reads a cluster and judges its offline partitions: what every front end starts with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from breakglass.services.contents_effort import Effort
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import (
    AUTO,
    STOCK,
    SWITCHED_OFF,
    NativeRpc,
    find_native_rpc,
    native_key,
)
from breakglass.services.model import ClusterSnapshot, PartitionState, TopicPartition
from breakglass.services.recovery.evidence.contents import Chosen, ContentsReading, nobody
from breakglass.services.recovery.evidence.gather import Evidence, gather
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.judgement.circumstances import Circumstances
from breakglass.services.recovery.judgement.verdict import assess

SNAPSHOT_SECONDS = 10.0

Wanted = Callable[[PartitionState], bool]


@dataclass(frozen=True)
class Triage:
    """The offline partitions of a cluster, judged on the evidence so far."""

    evidence: Evidence
    circumstances: Circumstances
    native: NativeRpc
    contents_due: frozenset[TopicPartition] = frozenset()
    """Partitions whose replicas have all been heard and whose contents are about to be read."""

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
    contents: Effort = Effort.BUDGET,
) -> Iterator[Triage]:
    """Judge the offline partitions of *topics* (all by default) that are *wanted*.

    Yields as `services.recovery.evidence.gather.gather` does; the last one is final. Brokers have
    *duration* seconds to answer. Brokers of *gone* are not worth waiting for: their disks are
    lost, or came back EMPTY. With *contents* the replicas that would be elected are read.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
    """
    snapshot = client.snapshot(Deadline.after(SNAPSHOT_SECONDS), topics)
    partitions = [one for one in snapshot.offline if wanted(one)]
    yield from judge(client, snapshot, partitions, duration, native_choice, gone, contents=contents)


def judge(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    partitions: Sequence[PartitionState],
    duration: float,
    native_choice: str = AUTO,
    gone: Collection[int] = (),
    stop: Callable[[], bool] = lambda: False,
    *,
    contents: Effort | None = Effort.BUDGET,
    chosen: Chosen = nobody,
) -> Iterator[Triage]:
    """Judge *partitions* of a snapshot already taken; otherwise as `triage`.

    *chosen* names replicas whose contents are read whatever their rank; without *contents* none
    are, because they were read before. While brokers are awaited,
    what the others said is yielded before the contents are read, and again after.
    """
    deadline = Deadline.after(duration)
    native = _native_rpc(client, partitions, native_choice, deadline)
    reading = ContentsReading(client, contents, chosen, stop)
    for evidence in gather(client, snapshot, partitions, deadline, native, stop):
        circumstances = Circumstances(
            snapshot.quorum,
            deadline_passed=not evidence.awaited,
            ruled_out=dict.fromkeys(gone, "declared gone"),
        )
        found = replace(evidence, partitions=reading.applied(evidence.partitions))
        if evidence.awaited:
            due = frozenset(reading.due(found.complete))
            yield Triage(found, circumstances, native, due)
            if not due:
                continue
            reading.read(found.complete)
            found = replace(found, partitions=reading.applied(found.partitions))
        else:
            found = replace(found, partitions=reading.read(found.partitions))
        yield Triage(found, circumstances, native)


def _native_rpc(
    client: ReadClient, partitions: Sequence[PartitionState], choice: str, deadline: Deadline
) -> NativeRpc:
    if not partitions:
        return SWITCHED_OFF if native_key(choice) is None else STOCK
    first = partitions[0]
    return find_native_rpc(
        client.sender, choice, first.topic_id, first.partition.partition, deadline
    )
