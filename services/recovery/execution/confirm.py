"""Who leads now: the controller's metadata first, then the elected broker's own word (R6)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    LATEST,
    LEADER_ONLY,
    EpochAnswer,
    ListedOffset,
    Unanswered,
    ask_brokers,
    list_offsets,
    offset_of,
    read_epoch_ends,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, TopicSettings, Unknown
from breakglass.services.recovery.execution.target import (
    Clues,
    ElectedReach,
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Rung,
    unknown_cause,
    what_to_do,
)

POLL_SECONDS = 0.02
"""Metadata follows an election's reply by 10 to 100 ms."""


States = Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads who leads; the waits between looks go through *pause*, until *passed* ends them."""

    client: ReadClient
    pause: Callable[[float], None] = time.sleep
    passed: Callable[[Deadline], bool] = attrgetter("passed")

    def states(self, targets: Sequence[ElectionTarget], deadline: Deadline) -> States:
        """The partitions of *targets* as brokers know them now.

        Raises:
            Unreachable: no broker answers.
        """
        topics, wanted = _asked_for(targets)
        return _of(wanted, self.client.partitions(topics, deadline, wanted))

    def states_and_moves(self, targets: Sequence[ElectionTarget], deadline: Deadline) -> States:
        """The same with the reassignments under way, as the controller knows them now.

        Raises:
            Unreachable: no broker answers.
        """
        topics, wanted = _asked_for(targets)
        return _of(wanted, self.client.partitions_and_moves(topics, deadline, wanted))

    def confirm(
        self,
        targets: Sequence[ElectionTarget],
        deadline: Deadline,
        *,
        until_designee_leads: bool = False,
        stop: Callable[[], bool] = lambda: False,
    ) -> dict[TopicPartition, PartitionOutcome]:
        """Wait until each of *targets* has a leader, *deadline* or *stop*; then ask the designees.

        With *until_designee_leads* another leader is waited out too: for partitions that
        were online before. Each designee has `patience.LEADER` to say that it leads, however
        long others let wait for a leader.
        """
        states = self._wait_for_leaders(targets, deadline, stop, not until_designee_leads)
        elected = [target for target in targets if _leader(states, target) == target.designee]
        spoken = self._ask_leaders(elected, states)
        return {target.partition: _outcome(target, states, spoken) for target in targets}

    def _wait_for_leaders(
        self,
        targets: Sequence[ElectionTarget],
        deadline: Deadline,
        stop: Callable[[], bool],
        any_leader: bool,
    ) -> States:
        states: States = {}
        while True:
            # Without an answer the last look stands, and another broker is asked.
            with contextlib.suppress(BreakglassError):
                states = self.states(targets, deadline.sooner(patience.LOOK))
            led = all(_led(states, target, any_leader) for target in targets)
            if led or self.passed(deadline) or stop():
                return states
            self.pause(min(POLL_SECONDS, deadline.remaining()))

    def unanswering(self, deadline: Deadline) -> tuple[int, ...]:
        """The unfenced brokers that do not answer now; empty where nobody says who is unfenced."""
        sender = self.client.sender

        def silent(broker: int) -> bool:
            try:
                sender.prove(broker, deadline)
            except BreakglassError:
                return True
            return False

        try:
            live = self.client.describe(deadline).live
        except BreakglassError:
            return ()
        with ThreadPoolExecutor(max(len(live), 1), "roll call") as asking:
            found = asking.map(silent, live)
            return tuple(broker for broker, quiet in zip(live, found, strict=True) if quiet)

    def seen_again(
        self, targets: Sequence[ElectionTarget], deadline: Deadline
    ) -> dict[TopicPartition, Clues]:
        """Clues to why another replica leads *targets*; empty where no broker answers."""
        topics = sorted({target.partition.topic for target in targets})
        try:
            brokers = self.client.describe(deadline)
            states = self.states(targets, deadline)
            settings = self.client.settings(topics, deadline)
        except BreakglassError:
            return {}
        return {
            target.partition: Clues(
                target.partition,
                states.get(target.partition),
                brokers,
                unclean=_unclean(settings.get(target.partition.topic)),
            )
            for target in targets
        }

    def log_ends(self, targets: Sequence[ElectionTarget]) -> dict[TopicPartition, int | Unknown]:
        """Where the designee's log of each of *targets* ends now; Unknown with the reason."""
        limit = Deadline.after(patience.LEADER)
        answers = ask_brokers(
            by_designee(targets),
            lambda broker, partitions: list_offsets(
                self.client.sender, broker, partitions, LATEST, limit
            ),
        )
        return {
            partition: Unknown(_in_short(answer.error))
            if isinstance(answer, Unanswered)
            else offset_of(answer)
            for partition, answer in answers.items()
        }

    def _ask_leaders(
        self, elected: Sequence[ElectionTarget], states: States
    ) -> dict[TopicPartition, str]:
        """The word of each designee: empty for "I lead", else why that is unknown."""
        designees = by_designee(elected)
        if not designees:
            return {}
        with ThreadPoolExecutor(len(designees), "leaders") as asking:
            answered = asking.map(
                lambda broker: self._ask_leader(broker, designees[broker], states), designees
            )
            return {
                partition: silence for answers in answered for partition, silence in answers.items()
            }

    def _ask_leader(
        self, broker: int, asked: list[TopicPartition], states: States
    ) -> dict[TopicPartition, str]:
        answers = dict.fromkeys(asked, f"b{broker} was elected but does not answer as leader")
        limit = Deadline.after(patience.LEADER)
        while not self.passed(limit):
            silent = [partition for partition in asked if answers[partition]]
            if not silent:
                break
            try:
                answers.update(self._leader_answers(broker, silent, states, limit))
            except BreakglassError as error:
                unheard = f"b{broker} was elected but does not answer ({_in_short(error)})"
                answers.update(dict.fromkeys(silent, unheard))
            if any(answers[partition] for partition in silent):
                self.pause(min(POLL_SECONDS, limit.remaining()))
        return answers

    def _leader_answers(
        self, broker: int, asked: list[TopicPartition], states: States, deadline: Deadline
    ) -> dict[TopicPartition, str]:
        epochs = {partition: states[partition].leader_epoch for partition in asked}
        answers = list_offsets(
            self.client.sender,
            broker,
            asked,
            EARLIEST,
            deadline,
            replica_id=LEADER_ONLY,
            leader_epochs=epochs,
        )
        return {
            partition: "" if isinstance(answer, ListedOffset) else answer.reason
            for partition, answer in answers.items()
        }


def by_designee(targets: Sequence[ElectionTarget]) -> dict[int, list[TopicPartition]]:
    """The partitions of *targets* by the broker that is to lead them."""
    grouped: dict[int, list[TopicPartition]] = {}
    for target in sorted(targets, key=lambda target: target.designee):
        grouped.setdefault(target.designee, []).append(target.partition)
    return grouped


def _asked_for(targets: Sequence[ElectionTarget]) -> tuple[list[str], set[TopicPartition]]:
    wanted = {target.partition for target in targets}
    return sorted({partition.topic for partition in wanted}), wanted


def _of(wanted: Collection[TopicPartition], read: Iterable[PartitionState]) -> States:
    return {state.partition: state for state in read if state.partition in wanted}


def _unclean(settings: TopicSettings | None) -> bool | Unknown | None:
    return None if settings is None else settings.unclean_election


def _in_short(error: BreakglassError) -> str:
    return error.reason if isinstance(error, Unreachable) else str(error)


def _led(states: States, target: ElectionTarget, any_leader: bool) -> bool:
    leader = _leader(states, target)
    return leader is not None if any_leader else leader == target.designee


def _leader(states: States, target: ElectionTarget) -> int | None:
    state = states.get(target.partition)
    return state.leader if state is not None else None


def _outcome(
    target: ElectionTarget, states: States, spoken: Mapping[TopicPartition, str]
) -> PartitionOutcome:
    state = states.get(target.partition)
    if state is None or state.leader is None:
        return PartitionOutcome(
            target,
            RecoveryResult.UNKNOWN,
            "no leader was seen in time: run `breakglass triage`; if it is still offline, run "
            "`breakglass recover resume`",
        )
    if state.leader != target.designee:
        return PartitionOutcome(
            target,
            RecoveryResult.ELECTED_ANOTHER,
            f"{unknown_cause(state.leader)}; {what_to_do(target.designee, state.leader)}",
            state.leader,
            state.leader_epoch,
        )
    silence = spoken[target.partition]
    if silence:
        return PartitionOutcome(
            target,
            RecoveryResult.UNKNOWN,
            f"{silence}: it may be hung; check broker {state.leader}, then "
            "`breakglass recover resume`",
            state.leader,
            state.leader_epoch,
            Rung.ANNOUNCED,
        )
    return PartitionOutcome(
        target, RecoveryResult.ELECTED, "", state.leader, state.leader_epoch, Rung.SERVING
    )


FIRST_EPOCH = 0
"""Any epoch will do for a question whose answer has the high watermark too."""


def climb(
    observer: Observer, outcomes: Sequence[PartitionOutcome], deadline: Deadline
) -> tuple[PartitionOutcome, ...]:
    """Watch elected partitions until each is readable, or *deadline*; others stay as they are.

    A broker that stops answering leaves its partitions on the rung last seen.
    """
    seen = {outcome.partition: outcome for outcome in outcomes}
    while True:
        waiting = [outcome for outcome in seen.values() if _climbs(outcome)]
        if not waiting:
            break
        seen.update(_look(observer, waiting, Deadline.after(patience.LOOK)))
        if deadline.passed or not any(_climbs(outcome) for outcome in seen.values()):
            break
        observer.pause(min(POLL_SECONDS * 5, deadline.remaining()))
    return tuple(seen[outcome.partition] for outcome in outcomes)


def rung(target: ElectionTarget, state: PartitionState, high_watermark: int | None) -> Rung:
    """The highest rung that *state* and the leader's *high_watermark* prove.

    A log that was unread when it was chosen (R16) is not known to be readable to its end.
    """
    end = target.log_end
    if high_watermark is None or end is None or high_watermark < end:
        return Rung.SERVING
    if target.min_insync_replicas is None or len(state.isr) < target.min_insync_replicas:
        return Rung.READABLE
    return Rung.REDUNDANT if len(state.isr) > 1 else Rung.WRITABLE


def _climbs(outcome: PartitionOutcome) -> bool:
    return (
        outcome.result is RecoveryResult.ELECTED
        and outcome.rung is not None
        and outcome.rung < Rung.READABLE
    )


def _look(
    observer: Observer, waiting: Sequence[PartitionOutcome], deadline: Deadline
) -> dict[TopicPartition, PartitionOutcome]:
    try:
        states = observer.states([outcome.target for outcome in waiting], deadline)
    except BreakglassError:
        return {}
    return seen_in(observer, waiting, states, deadline)


def seen_in(
    observer: Observer, waiting: Sequence[PartitionOutcome], states: States, deadline: Deadline
) -> dict[TopicPartition, PartitionOutcome]:
    """Where each of *waiting* stands by *states* and its leader's own word.

    Those whose leader does not answer before *deadline* are missing, as are those without a state.
    """
    marks = _high_watermarks(observer, waiting, deadline)
    return {
        outcome.partition: outcome.with_rung(
            rung(outcome.target, states[outcome.partition], marks[outcome.partition]),
            ElectedReach(marks[outcome.partition], len(states[outcome.partition].isr)),
        )
        for outcome in waiting
        if outcome.partition in states and outcome.partition in marks
    }


def _high_watermarks(
    observer: Observer, waiting: Sequence[PartitionOutcome], deadline: Deadline
) -> Mapping[TopicPartition, int | None]:
    """The leaders' high watermarks; None: not known.

    Where one lies before the leader's own epoch, it is not in ListOffsets (error 78), but in every
    Fetch. Partitions of a broker that does not answer are missing; the others do not wait for it.
    """
    asked = by_designee([outcome.target for outcome in waiting])
    answers = ask_brokers(
        asked,
        lambda broker, partitions: list_offsets(
            observer.client.sender, broker, partitions, LATEST, deadline, replica_id=LEADER_ONLY
        ),
    )
    marks = {
        partition: answer.offset if isinstance(answer, ListedOffset) else None
        for partition, answer in answers.items()
        if not isinstance(answer, Unanswered)
    }
    low = {
        broker: [partition for partition in partitions if marks.get(partition, 0) is None]
        for broker, partitions in asked.items()
    }
    fetched = ask_brokers(
        {broker: partitions for broker, partitions in low.items() if partitions},
        lambda broker, partitions: read_epoch_ends(
            observer.client.sender, broker, dict.fromkeys(partitions, FIRST_EPOCH), deadline
        ),
    )
    for partition, told in fetched.items():
        if isinstance(told, EpochAnswer):
            marks[partition] = told.high_watermark
    return marks
