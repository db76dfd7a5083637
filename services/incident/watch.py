"""Watches the offline partitions of a cluster: each reading reads again only what has changed.

The metadata is read each time, and decoded where it changed. A replica's log is read when its
partition is new or changed, when its broker comes back, and now and then. What was read stays
until something newer is known, and every wait ends when the watch is closed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from breakglass.services.clock import now_ms
from breakglass.services.contents_effort import Effort
from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.incident.bomb_memory import Forfeits
from breakglass.services.incident.broker_liveness import Presence
from breakglass.services.incident.changes import changes
from breakglass.services.incident.contents_memory import ContentsMemory
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.observations import Observation
from breakglass.services.incident.pending import Pending
from breakglass.services.incident.replicas import Go, read_replicas
from breakglass.services.incident.row import IncidentRow, judged_again, judged_rows, remembered
from breakglass.services.incident.witness import Witness
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.cluster.snapshot_memory import SnapshotMemory
from breakglass.services.kafka.replicas.reading_allowance import Allowance
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import NativeRpc, find_native_rpc
from breakglass.services.kafka.wire.opening import session_closing
from breakglass.services.kafka.wire.sender import ANY_BROKER
from breakglass.services.model import ClusterSnapshot, PartitionEvidence, TopicPartition
from breakglass.services.recovery.evidence.contents import ContentsReading
from breakglass.services.recovery.judgement.circumstances import Circumstances
from breakglass.services.session import ReadAccess

DURATION_SECONDS = 30.0
"""How long an unfenced broker is waited for before it counts as silent (R15)."""
SNAPSHOT_SECONDS = 120.0
"""For all pages of a very large cluster over a slow link; one request has much less."""
NATIVE_SECONDS = 10.0
GREETING_SECONDS = 2.0
"""How long the bootstrap broker may take before another one is tried."""
READING_SECONDS = 10.0
"""After so long the rest of the replicas is left to the next reading: the metadata grows old."""
TELL_SECONDS = 0.5
"""Between two things told of the same reading."""
METADATA_SHARE = 0.1
"""Of the processor's time at most is spent on metadata, however large the cluster."""

UNASKED = NativeRpc(None, False, "the brokers have not been asked for others yet")


class IncidentWatch:
    """One cluster, read again and again by one thread; `close` is for any thread.

    *duration* is how long, in seconds, brokers that are not fenced are waited for. Brokers of
    *gone* are not worth waiting for: their disks are lost, or came back EMPTY. What was seen is
    written into the *state_folder*, or the user's own.
    """

    def __init__(
        self,
        access: ReadAccess,
        *,
        duration: float = DURATION_SECONDS,
        gone: Collection[int] = (),
        state_folder: Path | None = None,
    ) -> None:
        self._client = access.client()
        self._native_choice = access.native_rpc
        self._gone = tuple(sorted(set(gone)))
        self._memory = SnapshotMemory()
        self._presence = Presence(self._client.sender, duration)
        self._native: NativeRpc | None = None
        self._pending = Pending()
        self._forfeits = Forfeits()
        self._effort = access.contents
        self._contents = ContentsMemory()
        self._witness = Witness(self._client, state_folder)
        self._last: Incident | None = None
        self._rest_until = 0.0
        self._closed = False

    def read(
        self, before: Incident | None = None, *, everything: bool = False
    ) -> Iterator[Incident]:
        """What is so now, in one or more steps, each more complete than the one before.

        The first has the metadata, with the conclusions of earlier readings. *before* is what
        the caller knows: None begins anew, as *everything* does, which trusts no figure that
        was read. Ends early, without an error, once the watch is closed; tells nothing where
        the cluster is so large that it has to be left in peace for a while.

        Raises:
            BreakglassError: the metadata could not be read. What was told before stands, and
                the next reading tries again.
        """
        anew = everything or before is None or self._last is None
        if self._closed or not (anew or self._pending or time.monotonic() >= self._rest_until):
            return
        try:
            yield from self._steps(anew)
        except BreakglassError:
            if not self._closed:
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
        """The operator has taken note of what was seen so far; returns all of it."""
        return self._witness.acknowledge()

    def close(self) -> None:
        """End every wait at once, in whatever thread; nothing is read any more."""
        self._closed = True
        self._client.close()

    def _steps(self, anew: bool) -> Iterator[Incident]:
        snapshot = self._snapshot()
        last = self._last
        returned = self._presence.look_again()
        moved = changes(
            last.rows if last else (), last.snapshot if last else None, snapshot, returned
        )
        if anew:
            self._native = None
        self._pending.update(moved, anew=anew)
        self._witness.look(last.rows if last else (), moved.rows, snapshot)
        incident = self._known(self._judged_again(self._incident(snapshot, moved.rows)))
        yield incident
        if self._witness.read(self._presence.silent):
            incident = self._known(self._incident(snapshot, incident.rows))
            yield incident
        if self._pending:
            yield from self._replicas(incident, anew)

    def _snapshot(self) -> ClusterSnapshot:
        """The metadata now; a bootstrap broker that hangs is left for another one soon."""
        began = time.thread_time()
        with contextlib.suppress(Unreachable):
            self._client.sender.prove(ANY_BROKER, Deadline.after(GREETING_SECONDS))
        snapshot = self._client.snapshot(Deadline.after(SNAPSHOT_SECONDS), memory=self._memory)
        if self._last is not None:
            require_same_cluster(self._last.snapshot.cluster_id, snapshot.cluster_id)
        spent = time.thread_time() - began
        self._rest_until = time.monotonic() + spent * (1 / METADATA_SHARE - 1)
        return snapshot

    def _incident(
        self,
        snapshot: ClusterSnapshot,
        rows: tuple[IncidentRow, ...],
        asked: frozenset[int] = frozenset(),
    ) -> Incident:
        """Everything known; *asked* are brokers that are being read and have not told yet."""
        awaited = self._presence.awaited(snapshot.description) | asked
        return Incident(
            snapshot,
            Circumstances(
                snapshot.quorum,
                deadline_passed=not awaited,
                ruled_out=dict.fromkeys(self._gone, "declared gone"),
            ),
            rows,
            self._presence.silent,
            awaited,
            self._pending.missing_acls,
            self._native or UNASKED,
            observations=self._witness.observations,
            unwritten=self._witness.trouble,
        )

    def _known(self, incident: Incident) -> Incident:
        """*incident* is the last from now on; its figures are worked out here, in this thread."""
        last = self._last
        if last is not None and _alike(last, incident):
            incident = replace(incident, carried=last.tally)
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

    def _replicas(self, incident: Incident, anew: bool) -> Iterator[Incident]:
        """Read what is pending, for a while; tell now and then how far it has come."""
        snapshot, rows = incident.snapshot, list(incident.rows)
        places = self._pending.places(rows)
        states = [rows[place].state for place in places]
        self._presence.keep({broker for one in rows for broker in one.assignment})
        asked = {broker for one in states for broker in one.assignment}
        self._presence.roll_call(asked if anew else asked - self._presence.silent.keys())
        native = self._native_rpc(rows)
        reading = self._contents_reading(len(places))
        began = time.monotonic()
        told = began if incident.judged else 0.0  # The first conclusions are told at once.
        for go in read_replicas(
            self._client, snapshot, states, self._presence, native, lambda: self._closed
        ):
            evidence: Sequence[PartitionEvidence] = self._contents.applied(go.evidence.partitions)
            if self._effort is Effort.OFF:
                evidence = reading.read(evidence)  # Nothing is read: it says so.
            self._take(rows, places, go, evidence)
            self._pending.found(go)
            now = time.monotonic()
            if self._closed:
                return
            due = go.final and not reading.spent and any(reading.due(evidence))
            if due or now - told >= TELL_SECONDS or not go.final:
                told = now
                yield self._told(snapshot, rows, go)
            if go.final:
                if due:
                    self._improve(rows, places, go, evidence, reading)
                del places[: len(go.states)]
                if now - began >= READING_SECONDS:
                    break
        self._pending.spent(time.monotonic() - began)
        yield self._told(snapshot, rows)

    def _contents_reading(self, logs: int) -> ContentsReading:
        """What reads the contents of so many logs, all goes of one reading together."""
        self._contents.keep({one.partition for one in self._last.rows} if self._last else ())
        return ContentsReading(
            self._client,
            self._effort,
            stop=lambda: self._closed,
            allowance=Allowance.of(self._effort, logs),
        )

    def _improve(
        self,
        rows: list[IncidentRow],
        places: list[int],
        go: Go,
        evidence: Sequence[PartitionEvidence],
        reading: ContentsReading,
    ) -> None:
        """Read contents of one go, whose rows are shown by now."""
        known = reading.read(evidence)
        if not self._closed:
            self._contents.note(known)
            self._take(rows, places, go, known)

    def _take(
        self,
        rows: list[IncidentRow],
        places: list[int],
        go: Go,
        partitions: Sequence[PartitionEvidence],
    ) -> None:
        """Put the rows of one go in their places, which come first in *places*."""
        snapshot = go.evidence.snapshot
        circumstances = self._incident(snapshot, (), go.evidence.awaited).circumstances
        now = now_ms()
        held = [rows[place] for place in places[: len(go.states)]]
        for row, partition in zip(held, partitions, strict=True):
            self._witness.remember(row, partition)
        evidence = [
            self._forfeits.applied(remembered(before, one))
            for before, one in zip(held, partitions, strict=True)
        ]
        fresh = list(judged_rows(evidence, circumstances, now, self._pending.turn))
        self._forfeits.note(fresh, now)
        for place, row in zip(places, fresh, strict=False):
            rows[place] = row

    def _told(
        self, snapshot: ClusterSnapshot, rows: list[IncidentRow], go: Go | None = None
    ) -> Incident:
        asked = frozenset[int]() if go is None else go.evidence.awaited
        return self._known(self._incident(snapshot, tuple(rows), asked))

    def _native_rpc(self, rows: list[IncidentRow]) -> NativeRpc:
        """What the brokers offer, found out once in a reading of everything."""
        if self._native is None:
            first = rows[0].state
            self._native = find_native_rpc(
                self._client.sender,
                self._native_choice,
                first.topic_id,
                first.partition.partition,
                Deadline.after(NATIVE_SECONDS),
            )
        return self._native


def _alike(last: Incident, incident: Incident) -> bool:
    """Whether the figures over all rows are the same."""
    same = last.circumstances.words == incident.circumstances.words
    return same and last.rows is incident.rows
