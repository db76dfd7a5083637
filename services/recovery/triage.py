"""Reads a cluster and judges its offline partitions: what every front end starts with.

From the judgement follow the partitions that a recovery elects, and those it leaves, each with
the reason.

A reading ends once every unfenced broker has answered, for an operator reads the verdict and
decides. A program that elects by itself has nobody who would start the broker of `WAIT start b3`,
but the broker may be seconds away: such partitions are left until the recovery duration of
KIP-1275 has passed, and judged again whenever another broker is unfenced or fenced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
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
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.evidence.contents import Chosen, ContentsReading, nobody
from breakglass.services.recovery.evidence.gather import Evidence, GroupBounds, gather
from breakglass.services.recovery.execution.target import ElectionTarget, target_of
from breakglass.services.recovery.judgement.assessment import (
    Assessment,
    Summary,
    Verb,
    Verdict,
    summarize,
)
from breakglass.services.recovery.judgement.succession import Circumstances, PassedOver
from breakglass.services.recovery.judgement.verdict import assess_all
from breakglass.services.recovery.remembered.recollection import Recollection
from breakglass.services.session import Effort
from breakglass.services.snapshot import ClusterSnapshot

Wanted = Callable[[PartitionState], bool]


@dataclass(frozen=True)
class Triage:
    """The offline partitions of a cluster, judged on the evidence so far."""

    evidence: Evidence
    circumstances: Circumstances
    native: NativeRpc
    contents_due: frozenset[TopicPartition] = frozenset()
    """Partitions whose replicas have all been heard and whose contents are about to be read."""
    passed_over: tuple[PassedOver, ...] = ()
    """Brokers that an election passed over: their log folders are saved before they start."""
    troubles: tuple[str, ...] = ()
    """What could not be read of journals and memory, or written down, each in a sentence."""
    around: ClusterSnapshot | None = None
    """The partitions in which a broker's start counts, where more than those of `snapshot` do."""

    @cached_property
    def assessments(self) -> tuple[Assessment, ...]:
        """An assessment for each partition of the evidence; judged when first asked for."""
        return tuple(assess_all(self.evidence.partitions, self.circumstances))

    @property
    def summary(self) -> Summary:
        """What to do first, over all assessments."""
        around = self.around or self.snapshot
        return summarize(self.assessments, self.snapshot.quorum, around.led_without)

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.evidence.snapshot

    @property
    def final(self) -> bool:
        """No broker is waited for any more, and no contents are still to be read."""
        return not self.evidence.awaited and not self.contents_due

    def assessment(self, partition: TopicPartition) -> Assessment | None:
        """The judgement of *partition*, if it was read."""
        return next(
            (assessment for assessment in self.assessments if assessment.partition == partition),
            None,
        )


def triage(
    client: ReadClient,
    duration: float,
    *,
    wanted: Wanted = lambda _: True,
    topics: Sequence[str] = (),
    native_choice: str = AUTO,
    gone: Collection[int] = (),
    contents: Effort = Effort.BUDGET,
    journals: Sequence[Path] = (),
) -> Iterator[Triage]:
    """Judge the offline partitions of *topics* (all by default) that are *wanted*.

    Yields as `services.recovery.evidence.gather.gather` does; the last one is final. Brokers have
    *duration* seconds to answer, the metadata included. Brokers of *gone* are not worth waiting
    for: their disks are lost, or came back EMPTY. With *contents* the replicas that would be
    elected are read.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
    """
    deadline = Deadline.after(duration)
    snapshot = client.snapshot(deadline.at_least(patience.GRACE).sooner(patience.SNAPSHOT), topics)
    partitions = [state for state in snapshot.offline if wanted(state)]
    yield from judge(
        client,
        snapshot,
        partitions,
        deadline,
        native_choice,
        gone,
        contents=contents,
        journals=journals,
        whole=not topics,
    )


def judge(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    partitions: Sequence[PartitionState],
    within: Deadline | float,
    native_choice: str = AUTO,
    gone: Collection[int] = (),
    stop: Callable[[], bool] = lambda: False,
    *,
    contents: Effort | None = Effort.BUDGET,
    chosen: Chosen = nobody,
    journals: Sequence[Path] = (),
    whole: bool = False,
    elsewhere: bool = True,
) -> Iterator[Triage]:
    """Judge *partitions* of a snapshot already taken, of all topics if *whole*; as `triage`.

    A start is of the whole broker (R2): unless *elsewhere* is False, the partitions that a silent
    broker has elsewhere are looked at, too.

    What this account knows from before is evidence as well: what was heard of replicas that are
    unread now, and whom elections passed over, by its own journals and those that are named. What
    is read now is remembered.

    *chosen* names replicas whose contents are read whatever their rank; without *contents* none
    are, because they were read before. While brokers are awaited,
    what the others said is yielded before the contents are read, and again after.
    """
    deadline = within if isinstance(within, Deadline) else Deadline.after(within)
    known = Recollection(snapshot.cluster_id, journals=journals)
    around, live = snapshot, set(snapshot.live)
    if elsewhere and not whole and any(set(state.assignment) - live for state in partitions):
        limit = deadline.at_least(patience.GRACE).sooner(patience.SNAPSHOT)
        around = client.snapshot(limit, with_settings=False)
        whole = True
    passed = known.all_passed_over(client, around, whole=whole)
    kept_down = known.kept_down(around, whole=whole)

    def circumstances(evidence: Evidence) -> Circumstances:
        return Circumstances(
            snapshot.quorum,
            deadline_passed=not evidence.awaited,
            ruled_out={**kept_down, **dict.fromkeys(gone, "declared gone")},
            copy_first=passed,
        )

    for found in read_and_judge(
        client,
        snapshot,
        partitions,
        deadline,
        native=offered_native(client, partitions, native_choice, deadline),
        contents=ContentsReading(client, contents, chosen, stop),
        circumstances=circumstances,
        stop=stop,
    ):
        known.memory.note(found.evidence.partitions)
        evidence = replace(found.evidence, partitions=known.recalled(found.evidence.partitions))
        yield replace(
            found,
            evidence=evidence,
            passed_over=tuple(passed.values()),
            troubles=known.troubles,
            around=around,
        )


def read_and_judge(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    partitions: Sequence[PartitionState],
    deadline: Deadline,
    *,
    native: NativeRpc,
    contents: ContentsReading,
    circumstances: Callable[[Evidence], Circumstances],
    stop: Callable[[], bool],
    unasked: Mapping[int, str] = MappingProxyType({}),
    groups: GroupBounds | None = None,
    contents_last: bool = False,
) -> Iterator[Triage]:
    """Read the replicas of *partitions* until *deadline* and judge them: `judge` and every watch.

    *contents* reads the replicas that would be elected, and knows which it read before.
    *circumstances* are those of evidence that was just read. Brokers of *unasked* are silent for
    the reason given; *groups* are bounds that are read already. With *contents_last* evidence of
    which all but the contents is known is yielded before the contents are read, too.
    """
    told = gather(
        client, snapshot, partitions, deadline, native, stop, unasked=unasked, groups=groups
    )
    for evidence in told:
        found = replace(evidence, partitions=contents.applied(evidence.partitions))
        now = circumstances(evidence)
        heard = found.complete if evidence.awaited else found.partitions
        due = frozenset(contents.due(heard))
        if evidence.awaited or (due and contents_last):
            yield Triage(found, now, native, due)
            if not due:
                continue
        contents.read(heard)
        yield Triage(replace(found, partitions=contents.applied(found.partitions)), now, native)


def offered_native(
    client: ReadClient, partitions: Sequence[PartitionState], choice: str, deadline: Deadline
) -> NativeRpc:
    """What the brokers offer of KIP-1275's requests, asked about the first of *partitions*."""
    if not partitions:
        return SWITCHED_OFF if native_key(choice) is None else STOCK
    first = partitions[0]
    return find_native_rpc(
        client.sender, choice, first.topic_id, first.partition.partition, deadline
    )


@dataclass(frozen=True, slots=True)
class Left:
    """A partition that is not elected automatically."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True)
class TargetChoice:
    """What to elect, and what to leave to the operator."""

    targets: tuple[ElectionTarget, ...]
    left: tuple[Left, ...]

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All partitions that were decided about."""
        elected = (target.partition for target in self.targets)
        return frozenset((*elected, *(left.partition for left in self.left)))


def recommended(found: Triage, without: Collection[TopicPartition] = ()) -> TargetChoice:
    """Elect the recommended replica of every partition whose evidence is complete (R15).

    Partitions of *without* have been dealt with. While brokers may still answer, partitions
    with replicas on them are in neither list, nor are those whose contents are still to be read.
    """
    complete = {evidence.partition for evidence in found.evidence.complete} - found.contents_due
    ready = [
        assessment
        for assessment in found.assessments
        if assessment.partition in complete and assessment.partition not in without
    ]
    return TargetChoice(
        targets=tuple(_target(assessment) for assessment in ready if assessment.automatable),
        left=tuple(_left(assessment) for assessment in ready if not assessment.automatable),
    )


def _target(assessment: Assessment) -> ElectionTarget:
    if assessment.designee is None:
        raise ValueError(f"{assessment.partition} has no designee")
    return target_of(assessment.evidence, assessment.designee, assessment.ranking)


def _left(assessment: Assessment) -> Left:
    reasons = assessment.barriers or assessment.reasons
    return Left(assessment.partition, f"{assessment.verdict}: {'; '.join(reasons)}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Named partitions, or all that are offline."""

    snapshot: ClusterSnapshot
    offline: tuple[PartitionState, ...]
    online: tuple[PartitionState, ...]
    """Named, but they have a leader: a success."""
    missing: tuple[TopicPartition, ...]
    """Named, but the cluster has no such partition."""


def select(client: ReadClient, named: Sequence[TopicPartition] | None) -> Selection:
    """Sort *named* partitions, each list in their order; None: every offline one.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
        NotAuthorized: a named topic may not be described.
    """
    topics = sorted({partition.topic for partition in named or ()})
    snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), topics)
    if named is None:
        return Selection(snapshot, snapshot.offline, (), ())
    states = {state.partition: state for state in snapshot.partitions}
    found = [states[partition] for partition in named if partition in states]
    return Selection(
        snapshot,
        tuple(state for state in found if state.offline),
        tuple(state for state in found if not state.offline),
        tuple(partition for partition in named if partition not in states),
    )


Judging = Callable[[ClusterSnapshot, Sequence[PartitionState], float], Iterator[Triage]]
"""Judges partitions of a snapshot, whose brokers have so many seconds to answer."""


@dataclass(frozen=True, slots=True)
class PatientLook:
    """The partitions that are still without leader, judged, and those that are left for now."""

    found: Triage
    waiting: frozenset[TopicPartition] = frozenset()
    """Partitions that are not to be elected yet."""
    led: tuple[PartitionState, ...] = ()
    """Partitions that were waited for and have a leader since the look before."""
    brokers: Mapping[int, int] = field(default_factory=dict)
    """How many partitions wait for each broker; at the last look, have waited in vain."""


def judge_patiently(
    judging: Judging,
    client: ReadClient,
    snapshot: ClusterSnapshot,
    partitions: Sequence[PartitionState],
    seconds: float,
    *,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[PatientLook]:
    """Judge *partitions* of *snapshot* for *seconds*, or until none waits for a broker.

    Yields what *judging* yields. The last look waits for nobody, and was read after the time was
    up; where all that waited came back, it has no partition.
    """
    deadline = Deadline.after(seconds, clock)
    led: tuple[PartitionState, ...] = ()
    over = False
    waited: dict[int, int] = {}
    while True:
        # Those that answered before answer at once; nobody else is waited for after the duration.
        limit = patience.ONE_BROKER if over else deadline.remaining()
        look: PatientLook | None = None
        for found in judging(snapshot, partitions, limit):
            waiting = (
                frozenset()
                if over
                else frozenset(one.partition for one in found.assessments if _waits(one))
            )
            look = PatientLook(found, waiting, led, waited if over else _awaited(found))
            led = ()
            yield look
        if look is None or not look.waiting or stop():
            return
        waited = _awaited(look.found)
        if deadline.passed:
            yield replace(look, waiting=frozenset(), led=())
            return
        fresh = _news(client, look, deadline, stop, pause)
        if stop():
            return
        over = fresh is None
        snapshot = fresh or client.snapshot(
            Deadline.after(patience.SNAPSHOT), _topics(look.waiting)
        )
        states = [state for state in snapshot.partitions if state.partition in look.waiting]
        led = tuple(state for state in states if not state.offline)
        partitions = [state for state in states if state.offline]


def _news(
    client: ReadClient,
    look: PatientLook,
    deadline: Deadline,
    stop: Callable[[], bool],
    pause: Callable[[float], None],
) -> ClusterSnapshot | None:
    """The cluster once another broker is unfenced or fenced; None: time is up, or it is to stop."""
    before = look.found.snapshot.live
    # The controller elects such a broker by itself, and that changes no broker's fencing.
    soon = any(one.action.verb is Verb.AWAIT for one in look.found.assessments if _waits(one))
    while not deadline.passed and not stop():
        pause(min(patience.RECHECK, deadline.remaining()))
        try:
            if soon or client.describe(Deadline.after(patience.RECHECK)).live != before:
                return client.snapshot(Deadline.after(patience.SNAPSHOT), _topics(look.waiting))
        except BreakglassError:
            # Nobody answers just now: what was seen last stands.
            continue
    return None


def _waits(one: Assessment) -> bool:
    return one.verdict is Verdict.WAIT


def _awaited(found: Triage) -> dict[int, int]:
    """How many partitions wait for each broker."""
    counts: dict[int, int] = {}
    for one in found.assessments:
        if _waits(one):
            for broker in (*one.restorers, *one.unheard):
                counts[broker] = counts.get(broker, 0) + 1
    return dict(sorted(counts.items()))


def _topics(partitions: frozenset[TopicPartition]) -> list[str]:
    return sorted({partition.topic for partition in partitions})
