"""Temporary changes of topic settings: as journals keep them, and what they cost or prevent.

Any change of a topic's min.insync.replicas makes the controller forget ELR and last known leaders
on every partition of the topic (R3). A broker that came back EMPTY is then no longer elected, and
an unclean election takes the first live replica of the assignment. But an intact leader that
returns is not elected either. Whom the controller elects uncleanly by itself, and the loss, is
predicted (R14).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    NoQuorum,
    Unreachable,
    UsageError,
)
from breakglass.services.guard.act import SUCCEEDED, TargetResult, result_of
from breakglass.services.guard.consent import Price, Stake
from breakglass.services.guard.journal import (
    UNKNOWN,
    Journal,
    JournalStep,
    JournalView,
    StepName,
    list_journals,
)
from breakglass.services.kafka.admin_client import TOPICS_A_REQUEST, SettingClient
from breakglass.services.kafka.cluster.settings import (
    MIN_ISR,
    UNCLEAN_ELECTION,
    LayeredSetting,
    read_layered,
)
from breakglass.services.kafka.election_client import Reply
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    Forfeited,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    Unknown,
    known,
)
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.judgement.loss import loss_of, unread_bound
from breakglass.services.recovery.judgement.ranking import rank
from breakglass.services.recovery.judgement.succession import (
    BY_UNCLEAN_ELECTION,
    Circumstances,
    forecast,
    inheritors,
    quorum_lost,
    shortfall,
    without_quorum,
)
from breakglass.services.recovery.triage import Triage, judge
from breakglass.services.snapshot import ClusterSnapshot
from breakglass.services.words.inert import inert

CHANGING = (StepName.FREEZE_ELECTIONS, StepName.FORGET_LEADERS)


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting of one topic: the topic's own value before, and the value written."""

    topic: str
    topic_id: str
    name: str
    before: str | None
    """None: the topic had no value of its own, so the written value is removed again."""
    written: str | None
    """None: the topic's own value was temporarily removed."""

    @property
    def key(self) -> tuple[str, str]:
        return self.topic, self.name

    @property
    def back(self) -> str:
        """How the change is put back, in words."""
        if self.before is None:
            return f"{self.name} is taken from the topic again: it had none of its own"
        return f"{self.name}={self.before} is set again"


def journalled(changes: Iterable[SettingChange]) -> list[dict[str, Any]]:
    """*changes* as a journal's request has them: all that is needed to put them back."""
    return [asdict(change) for change in changes]


def owed(view: JournalView) -> tuple[SettingChange, ...]:
    """The changes that *view* made, or may have made, and has not put back, in order of topics.

    Empty if the journal ended with success: a value left then was set by another operator.
    """
    if view.result == SUCCEEDED:
        return ()
    found: dict[tuple[str, str], SettingChange] = {}
    for step in view.steps:
        for change in _changes(step):
            # The result of step for topic; `UNKNOWN` if the step has no answer.
            told = (
                outcome.result
                for partition, outcome in step.outcomes.items()
                if partition.topic == change.topic
            )
            result = next(told, UNKNOWN)
            if step.name in CHANGING and result in (TargetResult.DONE, UNKNOWN):
                found[change.key] = change
            elif step.name == StepName.PUT_SETTING_BACK and result == TargetResult.DONE:
                found.pop(change.key, None)
    return tuple(found[key] for key in sorted(found))


def owing_journals(cluster_id: str, folder: Path | None = None) -> list[JournalView]:
    """Journals of that cluster that have a setting to put back, newest first."""
    journals = list_journals(cluster_id, folder)
    return [view for view in journals if isinstance(view, JournalView) and owed(view)]


def topics_text(topics: Iterable[str]) -> str:
    """``carts``; ``3 topics``."""
    named = sorted(set(topics))
    return inert(named[0]) if len(named) == 1 else f"{len(named):,} topics"


def _changes(step: JournalStep) -> Iterator[SettingChange]:
    """The changes of *step*; malformed entries of a foreign journal are left out."""
    listed = step.request.payload.get("settings")
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict):
            continue
        texts = [entry.get(name) for name in ("topic", "topic_id", "name")]
        values = [entry.get(name) for name in ("before", "written")]
        named = all(isinstance(text, str) for text in texts) and texts[2] in (
            MIN_ISR,
            UNCLEAN_ELECTION,
        )
        if named and all(value is None or isinstance(value, str) for value in values):
            yield SettingChange(*map(str, texts), *values)


def read_snapshot(client: ReadClient, topics: Sequence[str]) -> ClusterSnapshot:
    """The cluster now, with the partitions of *topics* (all by default).

    Raises:
        UsageError: a topic of *topics* does not exist.
        NoQuorum: no controller can write a setting.
    """
    snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), topics)
    found = {state.partition.topic for state in snapshot.partitions}
    missing = sorted(set(topics) - found)
    if missing:
        raise UsageError(f"there is no topic {missing[0]} in this cluster: name one that exists")
    lost = quorum_lost(snapshot.quorum)
    if lost:
        raise NoQuorum(without_quorum(lost, "no setting can be written"))
    return snapshot


def judged(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    topics: Collection[str],
    seconds: float,
    native_rpc: str,
    gone: Collection[int] = (),
) -> Triage:
    """The offline partitions of *topics*, judged without reading contents.

    Brokers have *seconds* to describe their logs.
    """
    offline = [state for state in snapshot.offline if state.partition.topic in topics]
    *_, found = judge(client, snapshot, offline, seconds, native_rpc, gone, contents=None)
    return found


@dataclass(frozen=True, slots=True)
class Layers:
    """One setting of many topics."""

    name: str
    told: dict[str, LayeredSetting | Unknown]

    def of(self, topic: str) -> LayeredSetting:
        """The setting of *topic*.

        Raises:
            ClusterError: the setting could not be read, so it could not be put back.
        """
        told = self.told[topic]
        if isinstance(told, Unknown):
            raise ClusterError(
                f"{self.name} of topic {topic} cannot be read ({told.reason}), so it could not be "
                "put back: nothing was changed"
            )
        return told


def layers_of(client: ReadClient, name: str, topics: Sequence[str]) -> Layers:
    """The setting *name* of *topics*. Raises Unreachable."""
    return Layers(
        name, read_layered(client.sender, name, topics, Deadline.after(patience.SNAPSHOT))
    )


def ids_of(states: Sequence[PartitionState]) -> dict[str, str]:
    """The id of each topic, as journals have it."""
    return {state.partition.topic: str(state.topic_id) for state in states}


def partitions_of(
    states: Sequence[PartitionState], topics: Collection[str]
) -> tuple[TopicPartition, ...]:
    """The partitions of *topics*, in order."""
    return tuple(sorted(state.partition for state in states if state.partition.topic in topics))


REMEMBERED = (Role.ELR, Role.LAST_KNOWN_ELR)
_NOBODY = Unknown("no replica can be read")


@dataclass(frozen=True, slots=True)
class Forgetting:
    """One offline partition whose ELR and last known leader are forgotten."""

    partition: TopicPartition
    forgotten: tuple[int, ...]
    """The forgotten brokers, in the order of the assignment."""
    bomb: int | None
    """The broker that came back EMPTY, or below others, and would be elected (R2)."""
    intact: tuple[int, ...]
    """Brokers that would have led without loss, and are no longer elected by themselves."""
    best: int | None
    """The replica that an election must choose then; None: no replica can be read."""
    price: Price
    """The readable records that electing `best` loses."""
    unread: int | Unknown
    """At least how many records are known to be in no readable log."""

    @property
    def stake(self) -> Stake:
        """What the partition gives up."""
        return Stake(self.partition, self.price, abandons=self.intact)

    def __str__(self) -> str:
        """``forgets b4, which is back EMPTY; forgets b3, which ...``."""
        told = [f"forgets {_named([self.bomb])}, which would be elected over better logs"] * (
            self.bomb is not None
        )
        if self.intact:
            told.append(
                f"forgets {_named(self.intact)}, which may bring it back whole: from then on "
                f"{self._choice}"
            )
        rest = [
            number for number in self.forgotten if number != self.bomb and number not in self.intact
        ]
        if rest:
            told.append(f"forgets {_named(rest)}")
        return "; ".join(told)

    @property
    def _choice(self) -> str:
        if self.best is None:
            return "it has to be elected by hand, and none can be read now"
        least = "?" if isinstance(self.unread, Unknown) else f"{self.unread:,}"
        return f"electing b{self.best} loses {self.price}, unread >= {least}"


def remembered(state: PartitionState) -> tuple[int, ...]:
    """The members of ELR and last known leaders, in the order of the assignment."""
    elr = state.elr if known(state.elr) else ()
    last = state.last_known_elr if known(state.last_known_elr) else ()
    return tuple(broker for broker in state.assignment if broker in {*elr, *last})


def forgetting_of(judged: Assessment, gone: Collection[int]) -> Forgetting | None:
    """What the controller forgets about one offline partition; None if nothing."""
    evidence = judged.evidence
    brokers = remembered(evidence.state)
    if not brokers:
        return None
    bomb = judged.action.broker if judged.verdict is Verdict.BOMB else None
    bomb = bomb if bomb in brokers else None
    intact = [
        broker
        for broker in inheritors(evidence.state)
        if broker in brokers and broker != bomb and _intact(evidence, broker, gone)
    ]
    # *evidence* as it is after ELR and last known leaders are forgotten.
    after = replace(
        evidence,
        state=replace(evidence.state, elr=(), last_known_elr=()),
        replicas=tuple(map(_stale, evidence.replicas)),
    )
    winner = rank(after).winner
    loss = None if winner is None else loss_of(after, winner.broker)
    return Forgetting(
        evidence.partition,
        brokers,
        bomb,
        tuple(intact),
        None if winner is None else winner.broker,
        Price(_NOBODY) if loss is None else Price(loss.total, loss.approximate),
        unread_bound(after).at_least,
    )


def moment_value(told: LayeredSetting) -> str | None:
    """The temporary value: the one that affects the topic's producers least.

    A topic without its own value gets the value that already applies. An own value equal to the
    value beneath is removed (None). Any other own value is raised by one, because a lower value
    would let fewer replicas acknowledge records than the topic requires.
    """
    if told.own is None:
        return told.beneath
    return None if told.own == told.beneath else str(int(told.own) + 1)


def moment_text(told: LayeredSetting) -> str:
    """The temporary change in words."""
    if told.own is None:
        return f"set to {told.beneath}, which holds already, then taken away again"
    if told.own == told.beneath:
        return f"its own {told.own} taken away, beneath which the same holds, then set again"
    return (
        f"raised from {told.own} to {int(told.own) + 1} for a moment, in which producers may meet "
        f"NOT_ENOUGH_REPLICAS and try again, then set to {told.own} again"
    )


def together(found: Iterable[Forgetting]) -> Iterator[tuple[str, str]]:
    """Label and sentence for each topic's partitions of the same fate: ``orders 0-2``."""
    from breakglass.services.recovery.timeline.account import partition_numbers

    alike: dict[tuple[str, str], list[int]] = {}
    for forgetting in found:
        key = forgetting.partition.topic, str(forgetting)
        alike.setdefault(key, []).append(forgetting.partition.partition)
    for (topic, told), numbers in alike.items():
        yield f"{topic}-{partition_numbers(numbers)}", told


def eligible_elsewhere(
    states: Iterable[PartitionState],
) -> Mapping[TopicPartition, tuple[int, ...]]:
    """Partitions with a leader whose other eligible replicas are forgotten, too."""
    return {
        state.partition: state.elr
        for state in states
        if not state.offline and isinstance(state.elr, tuple) and state.elr
    }


def _intact(evidence: PartitionEvidence, broker: int, gone: Collection[int]) -> bool:
    """Whether no evidence says that electing *broker* loses records."""
    replica = evidence.replica(broker)
    if replica is None or broker in gone or isinstance(replica.log_end, Forfeited):
        return False
    if isinstance(replica.log_end, Unknown):
        return True
    return not shortfall(evidence, replica)


def _stale(replica: ReplicaLog) -> ReplicaLog:
    return replace(replica, role=Role.STALE) if replica.role in REMEMBERED else replica


def _named(brokers: Iterable[int | None]) -> str:
    return ", ".join(f"b{broker}" for broker in brokers)


@dataclass(frozen=True, slots=True)
class UncleanWinner:
    """The replica that an unclean election by order takes, with the brokers live now."""

    partition: TopicPartition
    broker: int
    price: Price
    best: int | None
    """The replica that an election should choose; None: no replica can be read."""
    best_price: Price | None

    @property
    def stake(self) -> Stake:
        return Stake(self.partition, self.price)

    def __str__(self) -> str:
        """``b2 is elected next, and loses 25; b1 loses 0``."""
        told = f"b{self.broker} is elected at any moment, and loses {self.price}"
        if self.best is None or self.best_price is None or self.best == self.broker:
            return told
        return f"{told}; b{self.best} loses {self.best_price}"


def unclean_winners(
    judged: Iterable[Assessment], circumstances: Circumstances
) -> Iterator[UncleanWinner]:
    """The winners of *judged* partitions where unclean election is on and a replica is live.

    Partitions for which a clean successor is elected are left out: they need no unclean election.
    """
    for assessment in judged:
        settings = replace(assessment.evidence.settings, unclean_election=True)
        next_leader = forecast(replace(assessment.evidence, settings=settings), circumstances)
        if next_leader.broker is None or next_leader.reason != BY_UNCLEAN_ELECTION:
            continue
        best = assessment.best
        yield UncleanWinner(
            assessment.partition,
            next_leader.broker,
            _price(assessment, next_leader.broker),
            best,
            None if best is None else _price(assessment, best),
        )


def _price(judged: Assessment, broker: int) -> Price:
    loss = judged.loss_of(broker)
    return Price(loss.total, loss.approximate)


LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """The result of one change."""

    change: SettingChange
    result: TargetResult
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SettingWriter:
    """Writes through *client*; *partitions* are what the journal names for each topic."""

    client: SettingClient
    journal: Journal
    partitions: Sequence[TopicPartition]

    def write(self, step: str, changes: Sequence[SettingChange]) -> list[SettingOutcome]:
        """Write *changes*; one result for each. After a failure nothing more is sent.

        Raises:
            StorageError: the journal cannot be written; nothing more was sent.
        """
        return list(self._sent(step, changes, lambda change: change.written))

    def put_back(self, changes: Sequence[SettingChange]) -> list[SettingOutcome]:
        """Give each topic its earlier value. Raises as `write`."""
        return list(self._sent(StepName.PUT_SETTING_BACK, changes, lambda change: change.before))

    def _sent(
        self,
        step: str,
        changes: Sequence[SettingChange],
        value: Callable[[SettingChange], str | None],
    ) -> Iterator[SettingOutcome]:
        stopped = ""
        ordered = sorted(changes, key=lambda change: (change.name, change.topic))
        for name, named in groupby(ordered, key=lambda change: change.name):
            same = list(named)
            for first in range(0, len(same), TOPICS_A_REQUEST):
                batch = same[first : first + TOPICS_A_REQUEST]
                if stopped:
                    yield from (_not_sent(change, stopped) for change in batch)
                    continue
                values = {change.topic: value(change) for change in batch}
                done = self._batch(step, name, batch, values)
                stopped = next(
                    (outcome.reason for outcome in done if outcome.result is not TargetResult.DONE),
                    "",
                )
                yield from done

    def _batch(
        self, step: str, name: str, batch: Sequence[SettingChange], values: Mapping[str, str | None]
    ) -> list[SettingOutcome]:
        touched = [partition for partition in self.partitions if partition.topic in values]
        items = {partition: {"value": values[partition.topic]} for partition in touched}
        request = self.journal.request(step, items, settings=journalled(batch))
        try:
            replies = self.client.write(name, values, Deadline.after(patience.COMMAND))
            outcomes = [_outcome(change, replies[change.topic]) for change in batch]
        except Unreachable as error:
            outcomes = [_not_sent(change, str(error)) for change in batch]
        except BreakglassError as error:
            outcomes = [SettingOutcome(change, result_of(error), str(error)) for change in batch]
        shown = _shown(self.client.reading(), name, values, outcomes)
        by_topic = {outcome.change.topic: outcome for outcome in shown}
        told = {
            partition: {
                "result": by_topic[partition.topic].result,
                "reason": by_topic[partition.topic].reason,
            }
            for partition in touched
        }
        self.journal.outcome(request, told)
        return shown


def _outcome(change: SettingChange, reply: Reply) -> SettingOutcome:
    if reply.accepted:
        return SettingOutcome(change, TargetResult.DONE)
    result = TargetResult.UNKNOWN if reply.unsettled else TargetResult.FAILED
    return SettingOutcome(change, result, str(reply))


def _not_sent(change: SettingChange, reason: str) -> SettingOutcome:
    return SettingOutcome(change, TargetResult.FAILED, f"nothing was sent: {reason}")


def _shown(
    client: ReadClient,
    name: str,
    values: Mapping[str, str | None],
    outcomes: Sequence[SettingOutcome],
) -> list[SettingOutcome]:
    """*outcomes*, in which an accepted change is unknown until a broker shows it."""
    waited = {outcome.change.topic for outcome in outcomes if outcome.result is TargetResult.DONE}
    deadline = Deadline.after(patience.REQUEST)
    while waited:
        try:
            read = read_layered(client.sender, name, sorted(waited), deadline)
        except BreakglassError:
            break
        waited -= {topic for topic, told in read.items() if own_value(told) == values[topic]}
        if deadline.passed:
            break
        if waited:
            time.sleep(LOOK_SECONDS)
    why = "it was accepted, and no broker shows it yet: look at the topic's settings"
    return [
        replace(outcome, result=TargetResult.UNKNOWN, reason=why)
        if outcome.change.topic in waited
        else outcome
        for outcome in outcomes
    ]


def own_value(told: LayeredSetting | Unknown) -> str | Unknown | None:
    """The topic's own value, or why it is not known."""
    return told if isinstance(told, Unknown) else told.own


def why_not_ours(
    change: SettingChange, states: Sequence[PartitionState], told: LayeredSetting | Unknown | None
) -> str:
    """Why *change* is not put back; empty if the topic still has the written value.

    Raises:
        ClusterError: the topic's setting cannot be read.
    """
    same = [state for state in states if state.partition.topic == change.topic]
    if told is None or not any(str(state.topic_id) == change.topic_id for state in same):
        return "the topic is gone, or was created again"
    if isinstance(told, Unknown):
        raise ClusterError(
            f"{change.name} of topic {change.topic} cannot be read ({told.reason}), so it "
            "may not be ours any more: nothing was put back; resume once it can be read"
        )
    if told.own == change.before:
        return "it has what it had before"
    if told.own != change.written:
        own = "no value of its own" if told.own is None else told.own
        return f"somebody has set it since: it has {own}"
    return ""
