"""Watches the offline partitions of a cluster: each reading reads again only what has changed.

The metadata is read each time, and decoded where it changed. The log of a replica is read when
its partition is new or changed, when its broker comes back, and now and then. A value stays until
a newer one is known, and every wait ends when the watch is closed.

Contents of logs that were read earlier are valid while the logs stay as they are. What replicas
hold is remembered on disk, for all sessions: `recovery.remembered`.
"""

from __future__ import annotations

import contextlib
import operator
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, StorageError, Unreachable
from breakglass.services.incident.changes import Go, Pending, Presence, changes, read_replicas
from breakglass.services.incident.elections_seen import Observation
from breakglass.services.incident.incident import Incident, tally_again
from breakglass.services.incident.row import IncidentRow, judged_again, judged_rows, remembered
from breakglass.services.incident.witness import Witness, compare_with_memory
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.read_client import ReadClient, SnapshotMemory
from breakglass.services.kafka.replicas.limits import Allowance
from breakglass.services.kafka.wire.connection import session_closing
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import NativeRpc
from breakglass.services.kafka.wire.sender import ANY_BROKER
from breakglass.services.model import LogContents, PartitionEvidence, ReplicaLog, TopicPartition
from breakglass.services.recovery.evidence.contents import ContentsReading
from breakglass.services.recovery.evidence.gather import Wait, next_report
from breakglass.services.recovery.judgement.succession import Circumstances, PassedOver
from breakglass.services.recovery.remembered.recollection import Recollection, merged
from breakglass.services.recovery.triage import offered_native
from breakglass.services.session import Effort, ReadAccess
from breakglass.services.snapshot import ClusterSnapshot

_Log = tuple[UUID, int, int | None]
"""Topic id, log end offset, last written epoch: while they are the same, so is the log."""


class ContinuedReading(ContentsReading):
    """The contents of one reading of a watch, with those that earlier readings found."""

    def __init__(
        self,
        memory: ContentsMemory,
        client: ReadClient,
        effort: Effort,
        stop: Callable[[], bool],
        allowance: Allowance,
    ) -> None:
        super().__init__(client, effort, stop=stop, allowance=allowance)
        self._memory = memory

    def applied(self, partitions: Iterable[PartitionEvidence]) -> tuple[PartitionEvidence, ...]:
        return super().applied(self._memory.applied(partitions))

    def read(self, partitions: Sequence[PartitionEvidence]) -> tuple[PartitionEvidence, ...]:
        """As `ContentsReading.read`; nothing where the allowance is spent: a later reading does."""
        if self.spent and self._effort is not Effort.OFF:
            return self.applied(partitions)
        known = super().read(partitions)
        if not self._stop():
            self._memory.note(known)
        return known


class ContentsMemory:
    """The contents of offline replicas, by partition and broker."""

    def __init__(self) -> None:
        self._held: dict[tuple[TopicPartition, int], tuple[_Log, LogContents]] = {}

    def applied(self, partitions: Iterable[PartitionEvidence]) -> list[PartitionEvidence]:
        """*partitions* with the contents that were read of the same logs before."""
        return (
            [self._applied(evidence) for evidence in partitions] if self._held else list(partitions)
        )

    def note(self, partitions: Iterable[PartitionEvidence]) -> None:
        """Remember the contents that *partitions* have."""
        for evidence in partitions:
            for replica in evidence.replicas:
                log = _log(evidence, replica)
                if log is not None and isinstance(replica.contents, LogContents):
                    self._held[evidence.partition, replica.broker] = log, replica.contents

    def keep(self, rows: Iterable[IncidentRow]) -> None:
        """Forget all but the partitions of *rows*."""
        if not self._held:
            return
        partitions = {row.partition for row in rows}
        self._held = {key: contents for key, contents in self._held.items() if key[0] in partitions}

    def _applied(self, evidence: PartitionEvidence) -> PartitionEvidence:
        replicas = tuple([self._remembered(evidence, replica) for replica in evidence.replicas])
        same = all(map(operator.is_, replicas, evidence.replicas))
        return evidence if same else replace(evidence, replicas=replicas)

    def _remembered(self, evidence: PartitionEvidence, replica: ReplicaLog) -> ReplicaLog:
        known = self._held.get((evidence.partition, replica.broker))
        if known is None or known[0] != _log(evidence, replica):
            return replica
        return replace(replica, contents=known[1])


def _log(evidence: PartitionEvidence, replica: ReplicaLog) -> _Log | None:
    end, epoch = replica.log_end, replica.last_written_epoch
    if not isinstance(end, int) or not (epoch is None or isinstance(epoch, int)):
        return None
    return evidence.state.topic_id, end, epoch


READING_SECONDS = 10.0
"""Seconds after which the other replicas wait for the next reading: the metadata grows old."""
TELL_SECONDS = 0.5
"""Seconds between two reports of the same reading."""
METADATA_SHARE = 0.1
"""The largest share of processor time spent on metadata, however large the cluster."""

UNASKED = NativeRpc(None, False, "the brokers have not been asked for others yet")


class IncidentWatch:
    """One cluster, read again and again by one thread; `close` is for any thread.

    *duration* is how long, in seconds, brokers that are not fenced are waited for. Brokers of
    *gone* are not worth waiting for: their disks are lost, or came back EMPTY. What was seen is
    written into the *state_folder*, or the user's own. Its journals are evidence.
    """

    def __init__(
        self,
        access: ReadAccess,
        *,
        duration: float = patience.LOGS,
        gone: Collection[int] = (),
        state_folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = next_report,
    ) -> None:
        self._client = access.client()
        self._native_choice = access.native_rpc
        self._gone = tuple(sorted(set(gone)))
        self._memory = SnapshotMemory()
        self._clock = clock
        self._presence = Presence(self._client.sender, duration, clock, wait)
        self._native: NativeRpc | None = None
        self._pending = Pending(clock)
        self._state_folder = state_folder
        self._remembered: Recollection | None = None
        self._copy_first: Mapping[int, PassedOver] = {}
        """Brokers that elections passed over, or may have."""
        self._cut_by_leaders: Mapping[int, PassedOver] = {}
        """Those of them that the leaders' epochs show, without a journal."""
        self._look_back_trouble = ""
        self._copy_first_of: tuple[object, object] = (None, None)
        """The partitions and the journals by which that was worked out."""
        self._effort = access.contents
        self._contents = ContentsMemory()
        self._witness = Witness(self._client, state_folder)
        self._last: Incident | None = None
        self._rest_until = 0.0
        self._closed = False
        self.tell: Callable[[Incident | BreakglassError], object] = lambda _: None
        """Gets what each reading finds, in the thread that reads."""

    def read(
        self, before: Incident | None = None, *, everything: bool = False
    ) -> Iterator[Incident]:
        """The incident now, in one or more steps, each more complete than the last.

        The first has the metadata, with the conclusions of earlier readings. *before* is what
        the caller knows: None begins afresh, as *everything* does, which trusts no figure that
        was read. Ends early, without an error, once the watch is closed; reports nothing where
        the cluster is so large that it has to be left in peace for a while.

        Raises:
            BreakglassError: the metadata could not be read. What was reported before stands, and
                the next reading tries again.
        """
        afresh = everything or before is None or self._last is None
        if self._closed or not (afresh or self._pending or self._clock() >= self._rest_until):
            return
        try:
            for incident in self._steps(afresh):
                self.tell(incident)
                yield incident
        except BreakglassError as error:
            if not self._closed:
                self.tell(error)
                raise

    @property
    def gone(self) -> tuple[int, ...]:
        """Brokers declared gone, lowest id first."""
        return self._gone

    def declare_gone(self, brokers: Collection[int]) -> None:
        """From the next reading on, wait for nothing from *brokers*, and from them alone."""
        self._gone = tuple(sorted(set(brokers)))
        self._rest_until = 0.0

    def agreed(self, designees: Mapping[TopicPartition, int]) -> None:
        """The operator agrees to these leaders and to what they cost: that is no alarm."""
        self._witness.agreed(designees)

    def acknowledge(self) -> tuple[Observation, ...]:
        """Note that the operator acknowledged all elections seen so far; returns them."""
        return self._witness.acknowledge()

    def finish_by(self, deadline: Deadline) -> None:
        """Wait for nothing past *deadline*, but for contents, which may begin then."""
        self._presence.until = deadline
        if self._effort is not Effort.FULL:
            self._client.sender.finish_by(deadline.later(patience.GRACE))

    def concluded(self) -> Incident | None:
        """The last incident, judged by who may still answer now; None: nothing was read."""
        last = self._last
        if last is None:
            return None
        return self._known(self._judged_again(self._incident(last.snapshot, last.rows)))

    def close(self) -> None:
        """End every wait at once, in whatever thread; nothing is read any more."""
        self._closed = True
        self._client.close()

    def _steps(self, afresh: bool) -> Iterator[Incident]:
        # The metadata now; if the bootstrap broker hangs, another broker is asked soon.
        began = time.thread_time()
        with contextlib.suppress(Unreachable):
            self._client.sender.prove(ANY_BROKER, Deadline.after(patience.GREETING))
        snapshot = self._client.snapshot(
            self._presence.until.sooner(patience.WHOLE_CLUSTER), memory=self._memory
        )
        if self._last is not None:
            require_same_cluster(self._last.snapshot.cluster_id, snapshot.cluster_id)
        spent = time.thread_time() - began
        self._rest_until = self._clock() + spent * (1 / METADATA_SHARE - 1)
        last = self._last
        # What was known of this cluster before; journals where they have changed. Leaders are
        # compared with what was heard: at first, to see which came back with less.
        first = last is None
        known = self._recollection(snapshot.cluster_id)
        if first:
            try:
                compare_with_memory(self._client, snapshot, known)
            except StorageError as error:
                self._look_back_trouble = str(error)
        if afresh:
            self._cut_by_leaders = known.cut_by_leaders(self._client, snapshot)
        partitions, journals = self._copy_first_of
        stamps = known.journal_stamps()
        if afresh or snapshot.partitions is not partitions or stamps != journals:
            self._copy_first = merged(known.passed_over(snapshot, whole=True), self._cut_by_leaders)
            self._copy_first_of = snapshot.partitions, stamps
        returned = self._presence.look_again()
        moved = changes(
            last.rows if last else (), last.snapshot if last else None, snapshot, returned
        )
        if afresh:
            self._native = None
        self._pending.update(moved, afresh=afresh)
        self._witness.look(last.rows if last else (), moved.rows, snapshot)
        incident = self._known(self._judged_again(self._incident(snapshot, moved.rows)))
        yield incident
        if self._witness.read(self._presence.silent):
            incident = self._known(self._incident(snapshot, incident.rows))
            yield incident
        if self._pending:
            yield from self._replicas(incident, afresh)

    def _incident(
        self,
        snapshot: ClusterSnapshot,
        rows: tuple[IncidentRow, ...],
        asked: frozenset[int] = frozenset(),
    ) -> Incident:
        """Everything known; *asked* are brokers that are being read and have not answered yet."""
        awaited = self._presence.awaited(snapshot.description) | asked
        return Incident(
            snapshot,
            Circumstances(
                snapshot.quorum,
                deadline_passed=not awaited,
                ruled_out={
                    **self._recollection(snapshot.cluster_id).kept_down(snapshot, whole=True),
                    **dict.fromkeys(self._gone, "declared gone"),
                },
                copy_first=self._copy_first,
            ),
            rows,
            self._presence.silent,
            awaited,
            self._pending.missing_acls,
            self._native or UNASKED,
            observations=self._witness.observations,
            unwritten="; ".join(self._troubles(snapshot)),
        )

    def _recollection(self, cluster_id: str) -> Recollection:
        if self._remembered is None:
            self._remembered = Recollection(cluster_id, self._state_folder)
        return self._remembered

    def _troubles(self, snapshot: ClusterSnapshot) -> Iterator[str]:
        if self._witness.trouble:
            yield self._witness.trouble
        if self._look_back_trouble:
            yield self._look_back_trouble
        yield from self._recollection(snapshot.cluster_id).troubles

    def _known(self, incident: Incident) -> Incident:
        """*incident* is the last from now on; its figures are worked out here, in this thread."""
        last = self._last
        if (
            last is not None
            and last.circumstances.words == incident.circumstances.words
            and last.snapshot.partitions is incident.snapshot.partitions
        ):
            incident = replace(incident, carried=tally_again(last.tally, last.rows, incident.rows))
        self._last = incident
        _ = incident.tally
        return incident

    def _judged_again(self, incident: Incident) -> Incident:
        """*incident* with rows judged again whose evidence now means something else."""
        last = self._last
        if last is None or not incident.rows:
            return incident
        everywhere = last.circumstances.words != incident.circumstances.words
        brokers = frozenset[int]()
        if last.circumstances.deadline_passed != incident.circumstances.deadline_passed:
            brokers = last.awaited | incident.awaited
        if not everywhere and not brokers:
            return incident
        rows: list[IncidentRow] = []
        for row in incident.rows:
            if self._closed:
                raise session_closing()
            affected = everywhere or not brokers.isdisjoint(row.unread)
            rows.append(judged_again(row, incident.circumstances) if affected else row)
        return replace(incident, rows=tuple(rows))

    def _replicas(self, incident: Incident, afresh: bool) -> Iterator[Incident]:
        """Read what is pending, for a while; report progress now and then."""
        snapshot, rows = incident.snapshot, list(incident.rows)
        places = self._pending.places(rows)
        states = [rows[place].state for place in places]
        self._presence.keep(frozenset().union(*{row.state.assignment for row in rows}))
        asked = {broker for state in states for broker in state.assignment}
        self._presence.roll_call(asked if afresh else asked - self._presence.silent.keys())
        # What the brokers offer, found out once in a reading of everything.
        if self._native is None:
            deadline = Deadline.after(patience.REQUEST)
            first = [row.state for row in rows[:1]]
            self._native = offered_native(self._client, first, self._native_choice, deadline)
        native = self._native
        self._contents.keep(self._last.rows if self._last else ())
        reading = ContinuedReading(
            self._contents,
            self._client,
            self._effort,
            lambda: self._closed,
            Allowance.of(self._effort, len(places)),
        )
        began = self._clock()
        reported = began if incident.judged else 0.0  # Report the first conclusions at once.
        for go in read_replicas(
            self._client,
            snapshot,
            states,
            self._presence,
            native,
            reading,
            lambda found: self._incident(found.snapshot, (), found.awaited).circumstances,
            lambda: self._closed,
        ):
            if self._closed:
                return
            self._take(rows, places, go)
            self._pending.found(go)
            now = self._clock()
            if now - reported >= TELL_SECONDS or not go.final:
                reported = now
                yield self._told(snapshot, rows, go)
            if go.final:
                del places[: len(go.states)]
                if now - began >= READING_SECONDS:
                    break
        self._pending.spent(self._clock() - began)
        yield self._told(snapshot, rows)

    def _take(self, rows: list[IncidentRow], places: list[int], go: Go) -> None:
        """Put the rows of one go in their places, which come first in *places*."""
        partitions, circumstances = go.judged.evidence.partitions, go.judged.circumstances
        now = now_ms()
        before_rows = [rows[place] for place in places[: len(go.states)]]
        for row, partition in zip(before_rows, partitions, strict=True):
            self._witness.remember(row, partition)
        evidence = [
            remembered(before, evidence)
            for before, evidence in zip(before_rows, partitions, strict=True)
        ]
        known = self._recollection(go.judged.snapshot.cluster_id)
        known.memory.note(evidence)
        evidence = list(known.recalled(evidence))
        fresh = list(judged_rows(evidence, circumstances, now, self._pending.turn))
        for place, row in zip(places, fresh, strict=False):
            rows[place] = row

    def _told(
        self, snapshot: ClusterSnapshot, rows: list[IncidentRow], go: Go | None = None
    ) -> Incident:
        asked = frozenset[int]() if go is None else go.judged.evidence.awaited
        return self._known(self._incident(snapshot, tuple(rows), asked))
