"""Runs a recovery: rescue, then batch by batch look, journal, elect, confirm, restore orders.

One attempt at a batch: the route's steps, each journalled before and after, then confirmed.

What the batches so far mean for those to come: who is still elected, and why others wait.
KIP-1275 asks for as many completed elections as possible, and R4 for a stop once another replica
was elected. So a partition that failed or was refused keeps nobody else, and an unknown outcome
keeps only the partitions that its cause can touch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeGuard

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    NoQuorum,
    OutcomeUnknown,
    QuorumUnheard,
    StorageError,
    Unreachable,
)
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.election_client import ElectionClient, Reply
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import Denied, NotOffered, PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.execution.confirm import Observer, climb
from breakglass.services.recovery.execution.recheck import (
    NOTHING_NEW,
    HeardNow,
    ask_unread,
    recheck,
    recheck_log,
)
from breakglass.services.recovery.execution.restore_order import others_at_work, restore_orders
from breakglass.services.recovery.execution.steps import (
    REORDER,
    ExecutionLimits,
    Replies,
    Route,
    RouteChoice,
    RouteStep,
    batches,
    described,
    in_order,
    journal_bytes,
)
from breakglass.services.recovery.execution.target import (
    Clues,
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    explained,
    order_left,
)
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.recovery.judgement.succession import quorum_lost, without_quorum
from breakglass.services.snapshot import ClusterSnapshot, Quorum

LOST_IN_A_ROW = 2
"""The number of consecutive batches without an answer after which the run stops."""


@dataclass(slots=True)
class Course:
    """What is known so far. For one thread; shared by all parts of one run."""

    halted: str = ""
    """Why nothing more is elected; empty while the run continues."""
    silent: dict[int, str] = field(default_factory=dict)
    """Elected brokers that did not confirm; the reason keeps other partitions from them."""
    begun: bool = False
    """An election was held, or may have been."""
    _lost: int = 0
    """Consecutive batches of which an answer was lost."""

    def halt(self, reason: str) -> None:
        """Elect nothing more; the first reason stays."""
        self.halted = self.halted or reason

    def why_not(self, target: ElectionTarget) -> str:
        """Why *target* is not attempted; empty where it may be."""
        return self.halted or self.silent.get(target.designee, "")

    def learn(
        self, outcomes: Sequence[PartitionOutcome], unanswering: Callable[[], Sequence[int]] = tuple
    ) -> None:
        """Take in the outcomes of a batch; *unanswering* finds brokers that do not answer now."""
        for outcome in outcomes:
            if outcome.result in (RecoveryResult.ELECTED, RecoveryResult.UNKNOWN):
                self.begun = True
            if outcome.result is RecoveryResult.ELECTED_ANOTHER:
                designee, leader = outcome.target.designee, outcome.leader
                self.halt(
                    f"stopped because {outcome.partition} elected b{leader}, not b{designee}: keep "
                    f"broker {designee} down, for what it holds beyond b{leader} would be cut off, "
                    "then plan again"
                )
            elif outcome.result is RecoveryResult.UNKNOWN and _elected(outcome):
                self.silent.setdefault(
                    outcome.target.designee,
                    f"b{outcome.target.designee} was elected for {outcome.partition} and does not "
                    f"answer: check broker {outcome.target.designee}, then resume",
                )
        if _unanswered(outcomes):
            self._lost += 1
            if self._lost >= LOST_IN_A_ROW:
                silent = unanswering()
                first = _unanswered(outcomes)[0]
                cure = "check the controllers, then resume"
                if silent:
                    state = "answers or is fenced" if len(silent) == 1 else "answer or are fenced"
                    cure = f"wait until {named(silent)} {state}, then resume"
                self.halt(
                    f"stopped because the outcome of {first.partition} is unknown, and of one "
                    f"before it: {cure}"
                )
        elif any(outcome.result is RecoveryResult.ELECTED for outcome in outcomes):
            self._lost = 0


def _unanswered(outcomes: Sequence[PartitionOutcome]) -> tuple[PartitionOutcome, ...]:
    """Those of *outcomes* that may or may not have happened, because no leader was seen."""
    return tuple(
        outcome
        for outcome in outcomes
        if outcome.result is RecoveryResult.UNKNOWN and not _elected(outcome)
    )


def _elected(outcome: PartitionOutcome) -> bool:
    return outcome.leader == outcome.target.designee


@dataclass(slots=True)
class BatchAttempt:
    """The results of a batch so far. Used for one attempt, then read."""

    observer: Observer
    route: Route
    journal: Journal
    limits: ExecutionLimits
    stop: Callable[[], bool] = lambda: False
    """Ends the wait for what is under way."""
    others: Callable[[TopicPartition], Sequence[str]] = lambda _: ()
    """Who else acts on a partition, as far as this machine knows."""
    outcomes: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    transient: set[TopicPartition] = field(default_factory=set)
    """Partitions that were not elected, and are worth another try."""
    reordered: set[TopicPartition] = field(default_factory=set)
    """Partitions whose assignment may have been written in another order."""
    accepted: set[TopicPartition] = field(default_factory=set)
    """Partitions whose assignment was written in another order, as the controller said."""
    common: str = ""
    """Why nothing more was sent; set where every other request would fail alike."""
    _lost: list[tuple[int, ElectionTarget, str]] = field(default_factory=list)
    """Requests whose answer never came, or settles nothing."""
    _underway: set[TopicPartition] = field(default_factory=set)
    """Partitions among these whose election may still take effect."""

    def make(self, targets: Sequence[ElectionTarget]) -> None:
        """Send the route's steps, each for what the one before accepted, and confirm."""
        if not targets:
            return
        left = list(targets)
        replies: Replies = {}
        request = 0
        for step in self.route.steps:
            try:
                # With what it takes to undo it; what cannot be written must not be sent.
                request = self.journal.request(
                    step.name, {target.partition: described(target) for target in left}
                )
            except StorageError as error:
                self.common = str(error)
                self._keep(_all(left, RecoveryResult.REFUSED, self.common))
                left = []
                break
            replies = self._send(step, request, left)
            left = [target for target in left if _went_through(replies.get(target.partition))]
            if not left:
                break
        if left:
            confirmed = self.observer.confirm(left, Deadline.after(self.limits.confirmation))
            outcomes = [
                self._already_led(confirmed[target.partition], replies[target.partition])
                for target in left
            ]
            self._settle(request, self._explained(outcomes, replies))
        self._ask_about_lost()

    def _send(self, step: RouteStep, request: int, targets: Sequence[ElectionTarget]) -> Replies:
        """The replies to a step; notes which of them failed or were lost."""
        try:
            replies = step.send(targets, Deadline.after(self.limits.election))
        except OutcomeUnknown as error:
            self._note_orders(step, targets)
            self._lose(step, [(request, target, str(error)) for target in targets])
            return {}
        except BreakglassError as error:
            self.common = str(error)
            self._settle(request, _all(targets, RecoveryResult.FAILED, self.common))
            if error.retriable:
                self.transient.update(target.partition for target in targets)
            return {}
        self._sort(step, request, targets, replies)
        return replies

    def _sort(
        self, step: RouteStep, request: int, targets: Sequence[ElectionTarget], replies: Replies
    ) -> None:
        """Settle what failed, remember what is unsettled, and journal what continues."""
        unsettled = [target for target in targets if replies[target.partition].unsettled]
        failed = [
            target
            for target in targets
            if target not in unsettled and not _went_through(replies[target.partition])
        ]
        self._note_orders(step, [target for target in targets if target not in failed])
        if step.name == REORDER:
            self.accepted.update(
                target.partition
                for target in targets
                if target.order != target.assignment and replies[target.partition].accepted
            )
        later = (
            "it may or may not have happened, and may still within a minute; run "
            "`breakglass triage` then to see who leads"
        )
        lost = [(request, one, f"{replies[one.partition]}: {later}") for one in unsettled]
        self._lose(step, lost)
        self._settle(
            request,
            [
                PartitionOutcome(target, RecoveryResult.FAILED, str(replies[target.partition]))
                for target in failed
            ],
        )
        self.transient.update(
            target.partition for target in failed if replies[target.partition].transient
        )
        answers = (replies[target.partition] for target in failed)
        self.common = next((str(reply) for reply in answers if reply.whole), "")
        if step is not self.route.steps[-1]:
            accepted = [target for target in targets if _went_through(replies[target.partition])]
            self._journal(
                request, {target.partition: {"result": "accepted"} for target in accepted}
            )

    def _lose(self, step: RouteStep, lost: Sequence[tuple[int, ElectionTarget, str]]) -> None:
        self._lost += lost
        if step is self.route.steps[-1]:
            self._underway.update(target.partition for _, target, _ in lost)

    def _note_orders(self, step: RouteStep, targets: Sequence[ElectionTarget]) -> None:
        if step.name == REORDER:
            changed = (target for target in targets if target.order != target.assignment)
            self.reordered.update(target.partition for target in changed)

    def _already_led(self, outcome: PartitionOutcome, reply: Reply) -> PartitionOutcome:
        """A designated election changes nothing that is online; a reorder may have elected."""
        another = outcome.result is RecoveryResult.ELECTED_ANOTHER
        if another and reply.already_online and not self.route.reorders:
            led = f"led by b{outcome.leader}"
            return replace(outcome, result=RecoveryResult.ALREADY_ONLINE, reason=led)
        return outcome

    def _explained(
        self, outcomes: Sequence[PartitionOutcome], replies: Replies
    ) -> list[PartitionOutcome]:
        """*outcomes*, with the causes that can be proved where another replica leads."""
        missed = [
            outcome.target
            for outcome in outcomes
            if outcome.result is RecoveryResult.ELECTED_ANOTHER
        ]
        seen = self.observer.seen_again(missed, Deadline.after(self.limits.read)) if missed else {}
        return [
            explained(outcome, self._clues(seen[outcome.partition], replies))
            if outcome.partition in seen
            else outcome
            for outcome in outcomes
        ]

    def _clues(self, seen: Clues, replies: Replies) -> Clues:
        partition = seen.partition
        reply = replies.get(partition)
        return replace(
            seen,
            order_written=partition in self.accepted,
            led_before=reply is not None and reply.already_online,
            others=self.others(partition),
        )

    def _ask_about_lost(self) -> None:
        """Settle lost answers by what brokers say now; the others stay unknown.

        A broker that was frozen, or controllers that were, may carry out an election once they go
        on: it is waited for. Without an election that is under way no leader is to be expected.
        """
        if not self._lost:
            return
        targets = [target for _, target, _ in self._lost]
        limit = self.limits.underway if self._underway else self.limits.confirmation
        confirmed = self.observer.confirm(targets, Deadline.after(limit), stop=self.stop)
        explained_by = {
            outcome.partition: outcome for outcome in self._explained(tuple(confirmed.values()), {})
        }
        for request, target, reason in self._lost:
            explained = explained_by[target.partition]
            self._settle(
                request,
                [replace(explained, reason=reason) if explained.leader is None else explained],
            )

    def _settle(self, request: int, outcomes: Sequence[PartitionOutcome]) -> None:
        self._keep(outcomes)
        self._journal(request, {outcome.partition: journalled(outcome) for outcome in outcomes})

    def _keep(self, outcomes: Sequence[PartitionOutcome]) -> None:
        self.outcomes.update({outcome.partition: outcome for outcome in outcomes})

    def _journal(self, request: int, items: Mapping[TopicPartition, Mapping[str, Any]]) -> None:
        """Write down what became of a request; report the outcome even if that fails.

        The next step's announcement meets the same obstacle, and then nothing more is sent.
        """
        if not items:
            return
        try:
            self.journal.outcome(request, items)
        except StorageError:
            return


def journalled(outcome: PartitionOutcome) -> dict[str, Any]:
    """*outcome* as the journal records it."""
    return {
        "result": outcome.result.value,
        "reason": outcome.reason,
        "leader": outcome.leader,
        "leader_epoch": outcome.leader_epoch,
        "rung": str(outcome.rung) if outcome.rung else None,
    }


def _went_through(reply: Reply | None) -> bool:
    return reply is not None and (reply.accepted or reply.already_online)


def _all(
    targets: Sequence[ElectionTarget], result: RecoveryResult, reason: str
) -> list[PartitionOutcome]:
    return [PartitionOutcome(target, result, reason) for target in targets]


RETRY_SECONDS = 0.2
"""Pause before a transient failure is tried again; doubles each time."""

LONGEST_RETRY_SECONDS = 5.0


class Rescue(Protocol):
    """Saves what elections cut off (services/recovery/rescue)."""

    def needed(self, target: ElectionTarget) -> bool:
        """Whether electing *target* cuts off anything that may be saved."""

    def save(
        self, targets: Sequence[ElectionTarget], journal: Journal
    ) -> Mapping[TopicPartition, str]:
        """Save what electing *targets* cuts off; gives a reason for each target not saved whole."""


@dataclass(slots=True)
class Recovery:
    """One recovery after consent: rescue what will be cut off, elect, confirm, restore orders."""

    client: ElectionClient
    journal: Journal
    choose_route: RouteChoice
    rescue: Rescue | None = None
    """None: what is cut off is lost (`--without-rescue`)."""
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    stop: Callable[[], bool] = lambda: False
    """Asked between batches and before retries; true ends the run after the batch under way."""
    begin: Callable[[Sequence[ElectionTarget]], None] = lambda _: None
    """Called with each batch before anything is sent for it."""
    pause: Callable[[float], None] = time.sleep
    evidence: Mapping[TopicPartition, PartitionEvidence] = field(default_factory=dict)
    """What was agreed to; replicas that it lacks are asked again before each batch."""
    observer: Observer = field(init=False)
    """Looks through the client's own connections, at the cluster that is changed."""
    route: Route = field(init=False)
    course: Course = field(default_factory=Course, init=False)
    """What the batches so far mean for later batches."""

    def __post_init__(self) -> None:
        self.observer = Observer(self.client.reading())
        self.route = self.choose_route(self.client)

    def run(
        self, targets: Sequence[ElectionTarget], course: Course | None = None
    ) -> Iterator[tuple[PartitionOutcome, ...]]:
        """Rescue and elect *targets*; yields the outcomes of each batch as it ends.

        Partitions that lose nothing do not wait until others are rescued, except for internal
        topics, which come first in any case (R17). *course* is what was found out before.
        Space for what the journal will say is reserved before anything is sent.

        Raises:
            StorageError: the journal's disk has no room for it; nothing was sent.
        """
        rescue = self.rescue
        self.course = course or Course()
        space = journal_bytes(targets, rescued=rescue is not None, limits=self.limits)
        self.journal.reserve(space)
        first = [t for t in targets if t.internal or rescue is None or not rescue.needed(t)]
        early = {target.partition for target in first}
        for wave in (first, [target for target in targets if target.partition not in early]):
            if wave:
                unsaved = self._save([target for target in wave if not self.course.why_not(target)])
                stopped = self.stop()
                kept_back = tuple(
                    _not_rescued(target, unsaved[target.partition], stopped=stopped)
                    for target in wave
                    if target.partition in unsaved
                )
                if kept_back:
                    yield kept_back
                yield from self.elect(
                    [target for target in wave if target.partition not in unsaved]
                )

    def _save(self, targets: Sequence[ElectionTarget]) -> Mapping[TopicPartition, str]:
        """Rescue what electing *targets* cuts off; why partitions were not saved whole.

        What cannot be journalled must not be sent: then nothing more is elected.
        """
        if self.rescue is None or not targets:
            return {}
        try:
            return self.rescue.save(targets, self.journal)
        except StorageError as error:
            self.course.halt(f"stopped because every other election would fail alike: {error}")
            return {}

    def elect(self, targets: Sequence[ElectionTarget]) -> Iterator[tuple[PartitionOutcome, ...]]:
        """Elect *targets*; yields the outcomes of each batch as it ends.

        A partition that fails or is refused keeps no other. The run stops once another replica
        was elected (R4), and where every other election would fail alike; partitions whose
        designee does not speak wait. After a lost answer the look before the next batch asks
        whether the controller is there. What was not attempted is yielded last.
        """
        waves = batches(targets, lambda target: bool(self.course.why_not(target)))
        attempted: set[TopicPartition] = set()
        batch = self._next(waves, None)
        while batch is not None:
            attempted.update(target.partition for target in batch)
            outcomes = self._batch(batch)
            self.course.learn(outcomes, self._unanswering)
            yield outcomes
            batch = self._next(
                waves, any(outcome.result is RecoveryResult.ELECTED for outcome in outcomes)
            )
        left = [target for target in in_order(targets) if target.partition not in attempted]
        if left:
            yield self._noted(not_attempted(left, self.course))

    def _unanswering(self) -> Sequence[int]:
        return self.observer.unanswering(Deadline.after(patience.ROLL_CALL))

    def _next(
        self, waves: Generator[tuple[ElectionTarget, ...], bool | None, None], proved: bool | None
    ) -> tuple[ElectionTarget, ...] | None:
        """The next batch, larger only where an election has *proved* the way; None to stop."""
        if self.stop():
            self.course.halt("stopped on request")
        try:
            return waves.send(proved)
        except StopIteration:
            return None

    def _batch(self, batch: Sequence[ElectionTarget]) -> tuple[PartitionOutcome, ...]:
        """Elect *batch*, trying transient failures again, each time after a new look."""
        self.begin(batch)
        outcomes: dict[TopicPartition, PartitionOutcome] = {}
        reordered: set[TopicPartition] = set()
        unsent: set[TopicPartition] = set()
        left, wait, common = list(batch), RETRY_SECONDS, ""
        for tries in range(self.limits.retries + 1):
            if tries:
                if self.stop():
                    break
                self.pause(wait)
                wait = min(wait * 2, LONGEST_RETRY_SECONDS)
            stopped, common = self._look(left)
            outcomes.update(stopped)
            unsent.update(stopped)
            attempt = BatchAttempt(
                self.observer, self.route, self.journal, self.limits, self.stop, self._others
            )
            attempt.make([target for target in left if target.partition not in stopped])
            outcomes.update(attempt.outcomes)
            reordered |= attempt.reordered
            common = common or attempt.common
            left = [target for target in left if target.partition in attempt.transient]
            if not left:
                break
        if common:
            self.course.halt(f"stopped because every other election would fail alike: {common}")
        finished = self._finish(tuple(outcomes[target.partition] for target in batch), reordered)
        self._noted(tuple(outcome for outcome in finished if outcome.partition in unsent))
        return finished

    def _others(self, partition: TopicPartition) -> Sequence[str]:
        """Who else acts on *partition*, as far as this machine knows."""
        return others_at_work(self.journal.path, self.journal.cluster_id, partition)

    def _finish(
        self, outcomes: tuple[PartitionOutcome, ...], reordered: set[TopicPartition]
    ) -> tuple[PartitionOutcome, ...]:
        """Put orders back, say where that was not done, and see how far partitions have come.

        Which replica comes first in an assignment moves no high watermark and no ISR, so the
        leaders are asked while the orders are written.
        """
        with ThreadPoolExecutor(1, "ladder") as asking:
            limit = Deadline.after(self.limits.ladder)
            seen = asking.submit(climb, self.observer, outcomes, limit)
            if self.route.reorders:
                deadline = Deadline.after(self.limits.read)
                restored = restore_orders(
                    self.client, self.observer, self.journal, outcomes, deadline
                )
                outcomes = tuple(
                    order_left(outcome)
                    if outcome.partition in reordered and outcome.order_restored is None
                    else outcome
                    for outcome in restored
                )
            climbed = seen.result()
        return tuple(
            replace(outcome, rung=now.rung, reach=now.reach)
            for outcome, now in zip(outcomes, climbed, strict=True)
        )

    def _look(
        self, targets: Sequence[ElectionTarget]
    ) -> tuple[dict[TopicPartition, PartitionOutcome], str]:
        """The last look before sending: those of *targets* that are stopped here.

        With the reason why nothing can be sent at all; empty where the look could be had.

        The logs are asked first and the metadata last, because it decides more.
        """
        with ThreadPoolExecutor(1, "unread") as asking:
            unread = asking.submit(ask_unread, self.observer.client, self.evidence, targets)
            ends = self.observer.log_ends(targets)
            heard = unread.result()
        try:
            snapshot = self._read_at_last(targets)
        except BreakglassError as error:
            refused = tuple(
                PartitionOutcome(target, RecoveryResult.REFUSED, str(error)) for target in targets
            )
            return {outcome.partition: outcome for outcome in refused}, str(error)
        return _rechecked(targets, snapshot, ends, heard), ""

    def _read_at_last(self, targets: Sequence[ElectionTarget]) -> ClusterSnapshot:
        """`_read`; in the middle of a run, controllers that fell silent are waited for."""
        deadline = Deadline.after(self.limits.underway)
        while True:
            try:
                return self._read(targets)
            except (NoQuorum, Unreachable):
                if not self.course.begun or self.stop() or self.observer.passed(deadline):
                    raise
            self.pause(patience.RECHECK)

    def _read(self, targets: Sequence[ElectionTarget]) -> ClusterSnapshot:
        """The cluster now, without which nothing is sent.

        Raises:
            NoQuorum: no controller leads, so no election can work, or nobody says whether (R20).
            WrongCluster: the address leads to another cluster by now.
            Unreachable: no broker answers.
        """
        only = {target.partition for target in targets}
        topics = sorted({partition.topic for partition in only})
        deadline, half = Deadline.after(self.limits.read), self.limits.read / 2
        client = self.observer.client

        def look() -> ClusterSnapshot:
            # The broker asked first may hang: half of the time is left for another one.
            found = client.snapshot(deadline.sooner(half), topics, only, with_settings=False)
            require_same_cluster(self.journal.cluster_id, found.cluster_id)
            lost = quorum_lost(found.quorum)
            if lost:
                raise NoQuorum(without_quorum(lost))
            if unheard(found.quorum):
                raise QuorumUnheard(
                    f"it is unknown if a controller leads ({found.quorum.reason}): look again"
                )
            return found

        return until(deadline, look)

    def _noted(self, unsent: tuple[PartitionOutcome, ...]) -> tuple[PartitionOutcome, ...]:
        """Journal what was decided without sending anything more."""
        untouched = [outcome for outcome in unsent if outcome.order_restored is None]
        reordered = [outcome for outcome in unsent if outcome.order_restored is False]
        try:
            if untouched:
                self.note("nothing was sent for these", untouched)
            if reordered:
                self.note("the order of these was written, and no election was held", reordered)
        except StorageError:
            # Nothing was sent, so nothing is owed to the journal.
            return unsent
        return unsent

    def note(self, text: str, outcomes: Sequence[PartitionOutcome]) -> None:
        """Journal *outcomes* that no request of this process has."""
        self.journal.note(
            text,
            partitions=[
                {
                    "topic": outcome.partition.topic,
                    "partition": outcome.partition.partition,
                    **journalled(outcome),
                }
                for outcome in outcomes
            ],
        )


def unheard(quorum: Quorum | Unknown) -> TypeGuard[Unknown]:
    """Whether nobody could be asked for the *quorum*, though this user may ask and brokers can."""
    return isinstance(quorum, Unknown) and not isinstance(quorum, Denied | NotOffered)


def _rechecked(
    targets: Sequence[ElectionTarget],
    snapshot: ClusterSnapshot,
    ends: Mapping[TopicPartition, int | Unknown],
    heard: Mapping[TopicPartition, HeardNow],
) -> dict[TopicPartition, PartitionOutcome]:
    states = {state.partition: state for state in snapshot.partitions}
    looks = (
        recheck(
            target,
            states.get(target.partition),
            snapshot.description,
            heard.get(target.partition, NOTHING_NEW),
        )
        or recheck_log(target, ends[target.partition])
        for target in targets
    )
    return {look.partition: look for look in looks if look is not None}


def not_attempted(
    targets: Sequence[ElectionTarget], course: Course
) -> tuple[PartitionOutcome, ...]:
    """*targets* as not attempted, for the reasons that *course* has."""
    return tuple(
        PartitionOutcome(target, RecoveryResult.NOT_ATTEMPTED, course.why_not(target))
        for target in targets
    )


def _not_rescued(target: ElectionTarget, reason: str, *, stopped: bool) -> PartitionOutcome:
    """Why *target* is not elected; after a stop it can be resumed."""
    if stopped:
        return PartitionOutcome(target, RecoveryResult.NOT_ATTEMPTED, f"not rescued: {reason}")
    advice = "put that right, or accept the loss with --without-rescue"
    return PartitionOutcome(target, RecoveryResult.REFUSED, f"not rescued: {reason}; {advice}")
