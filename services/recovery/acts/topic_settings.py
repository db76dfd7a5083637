"""The act of preventing unclean elections by assignment order during triage (R14).

A held topic has unclean.leader.election.enable=false of its own. `PutSettingsBack`
restores its earlier value.

The act of making the controller forget a last leader that is back EMPTY (R3).
It is for a broker that cannot be stopped. A change of min.insync.replicas makes the controller
forget, permanently and for all partitions of the topic. The setting is put back at once, because
only the change matters, not the value.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, EvidenceChanged, Refused
from breakglass.services.guard.act import (
    HELD,
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    ActStep,
    Armed,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
)
from breakglass.services.guard.consent import (
    ConsentPhrase,
    consent_groups,
    consent_phrase,
    total_price,
)
from breakglass.services.guard.journal import Journal, read
from breakglass.services.guard.steps import FORGET_LEADERS, FREEZE_ELECTIONS
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.cluster.settings import MIN_ISR, UNCLEAN_ELECTION, LayeredSetting
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.topic_settings import (
    Forgetting,
    Layers,
    SettingChange,
    SettingOutcome,
    SettingWriter,
    UncleanWinner,
    eligible_elsewhere,
    forgetting_of,
    ids_of,
    judged,
    layers_of,
    moment_text,
    moment_value,
    owed,
    owing_journals,
    partitions_of,
    read_snapshot,
    remembered,
    together,
    topics_text,
    unclean_winners,
    why_not_ours,
)
from breakglass.services.recovery.triage import Triage
from breakglass.services.snapshot import ClusterSnapshot

OFF, ON = "false", "true"
NOTHING_TO_HOLD = (
    "Nothing is frozen: unclean election is off on every topic with offline partitions."
)


@dataclass(frozen=True, slots=True)
class PlannedHold:
    """The topics to be held, and the replicas that the hold keeps from being elected."""

    changes: tuple[SettingChange, ...]
    partitions: tuple[TopicPartition, ...]
    """All partitions of these topics."""
    winners: tuple[UncleanWinner, ...]
    """The replicas that the controller would elect on offline partitions."""


@dataclass(frozen=True, slots=True)
class HoldElections(Act[PlannedHold]):
    """Keep the controller from electing uncleanly by itself."""

    doing: ClassVar[str] = "freezing unclean elections"
    topics: tuple[str, ...] = ()
    """Topics held whatever their default; empty: those with offline partitions where it is on."""

    def freeze(self, front: Front) -> Frozen[PlannedHold]:
        with front.reading() as client:
            snapshot = read_snapshot(client, self.topics)
            asked = self.topics or sorted({state.partition.topic for state in snapshot.offline})
            layers = layers_of(client, UNCLEAN_ELECTION, asked)
            wanted = [topic for topic in asked if self._to_hold(layers, topic)]
            found = judged(client, snapshot, wanted, patience.BRIEF, front.cluster.native_rpc)
        winners = tuple(unclean_winners(found.assessments, found.circumstances))
        ids = ids_of(snapshot.partitions)
        changes = [
            SettingChange(topic, ids[topic], UNCLEAN_ELECTION, layers.of(topic).own, OFF)
            for topic in wanted
        ]
        planned = PlannedHold(tuple(changes), partitions_of(snapshot.partitions, wanted), winners)
        return Frozen(
            snapshot.cluster_id,
            (ConsentPhrase(f"freeze {topics_text(wanted)}"),) if wanted else (),
            tuple((topic, _told(layers.of(topic))) for topic in wanted),
            tuple(wanted),
            tuple(_remarks(winners)) if wanted else (NOTHING_TO_HOLD,),
            planned,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[PlannedHold]) -> Ending:
        """Hold them; the ending's value is the list of `SettingOutcome`."""
        plan = frozen.plan
        with means.cluster.settings(frozen.cluster_id) as client:
            front.tell(Armed())
            writer = SettingWriter(client, means.journal, plan.partitions)
            done = writer.write(FREEZE_ELECTIONS, plan.changes)
        for outcome in done:
            told = outcome.reason or "frozen: the controller elects no leader uncleanly"
            front.tell(TargetOutcome(outcome.change.topic, outcome.result, told))
        whole = all(outcome.result is TargetResult.DONE for outcome in done)
        text = "frozen until `breakglass recover thaw --write`"
        return Ending(HELD if whole else PARTLY_FAILED, text if whole else "", done)

    def _to_hold(self, layers: Layers, topic: str) -> bool:
        told = layers.of(topic)
        # Only brokers can be asked, and the controllers' default may differ from theirs.
        return told.own != OFF if self.topics else told.effective == ON


def _told(told: LayeredSetting) -> str:
    whose = "of its own" if told.own is not None else "by what brokers have as default"
    return f"{UNCLEAN_ELECTION} is {told.effective} {whose}; false until it is released"


def _remarks(winners: Sequence[UncleanWinner]) -> Iterator[str]:
    """The winners without the hold. They may change: the hold is right in either case."""
    for winner in winners:
        yield f"{winner.partition}: without a freeze {winner}"


LOOK_SECONDS = 0.05
NOTHING = "No broker is back EMPTY that would be elected: nothing has to be forgotten."
FOR_GOOD = "what the controller forgets, nothing brings back: not even the old value of the setting"


@dataclass(frozen=True, slots=True)
class PlannedForgetting:
    """The topics whose setting is briefly changed, and what the controller then forgets."""

    changes: tuple[SettingChange, ...]
    partitions: tuple[TopicPartition, ...]
    """All partitions of these topics."""
    found: tuple[Forgetting, ...]
    """Offline partitions about which the controller forgets something."""

    @property
    def bombs(self) -> dict[TopicPartition, int]:
        """The broker that the controller is to forget, by partition."""
        return {
            forgetting.partition: forgetting.bomb
            for forgetting in self.found
            if forgetting.bomb is not None
        }


@dataclass(frozen=True, slots=True)
class ForgetLeaders(Act[PlannedForgetting]):
    """Make the controller forget ELR and last leaders of topics with a BOMB."""

    doing: ClassVar[str] = "changing min.insync.replicas"
    topics: tuple[str, ...] = ()
    """Empty: every topic that a BOMB threatens."""
    gone: tuple[int, ...] = ()
    """Brokers whose disks are lost: nothing is given up by forgetting them."""
    seconds: float = patience.LOGS
    """For brokers to describe their logs."""

    def freeze(self, front: Front) -> Frozen[PlannedForgetting]:
        with front.reading() as client:
            snapshot = read_snapshot(client, self.topics)
            asked = self.topics or sorted({state.partition.topic for state in snapshot.offline})
            native = front.cluster.native_rpc
            triaged = judged(client, snapshot, asked, self.seconds, native, self.gone)
            bombs = [
                assessment
                for assessment in triaged.assessments
                if assessment.verdict is Verdict.BOMB
            ]
            topics = sorted({bomb.partition.topic for bomb in bombs})
            self._require(bombs, topics)
            # While an earlier change is not put back its value would be taken for the topic's own.
            for view in owing_journals(snapshot.cluster_id, front.state_folder):
                for change in owed(view):
                    if change.name == MIN_ISR and change.topic in topics:
                        raise Refused(
                            f"journal {view.path} has {MIN_ISR} of {change.topic} still to put "
                            f"back: `breakglass recover resume {view.path.stem} --write` first"
                        )
            layers = layers_of(client, MIN_ISR, topics)
        states = [
            partition for partition in snapshot.partitions if partition.partition.topic in topics
        ]
        ids = ids_of(states)
        changes = [
            SettingChange(topic, ids[topic], MIN_ISR, told.own, moment_value(told))
            for topic in topics
            for told in (layers.of(topic),)
        ]
        found = tuple(_forgettings(triaged, topics, self.gone))
        return Frozen(
            snapshot.cluster_id,
            tuple(phrases(found)) if topics else (),
            (
                *((topic, f"{MIN_ISR} is {moment_text(layers.of(topic))}") for topic in topics),
                *together(found),
                *((str(one), _elsewhere(elr)) for one, elr in eligible_elsewhere(states).items()),
            ),
            tuple(topics),
            (
                *(f"missing ACL: {acl}" for acl in triaged.evidence.missing_acls),
                FOR_GOOD if topics else NOTHING,
            ),
            PlannedForgetting(tuple(changes), partitions_of(states, topics), found),
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[PlannedForgetting]) -> Ending:
        """Change the setting, confirm that the controller has forgotten, and put it back.

        The ending's value is the list of `SettingOutcome` of putting it back.
        """
        plan = frozen.plan
        with means.cluster.settings(frozen.cluster_id) as client:
            front.tell(Armed())
            writer = SettingWriter(client, means.journal, plan.partitions)
            changed = writer.write(FORGET_LEADERS, plan.changes)
            kept = _kept(client.reading(), plan, changed)
            front.tell(ActStep("the setting was changed: it is put back now"))
            touched = [
                outcome.change for outcome in changed if outcome.result is not TargetResult.FAILED
            ]
            back = writer.put_back(touched)
        results = list(_results(changed, back, kept))
        for outcome in results:
            front.tell(outcome)
        whole = all(outcome.result is TargetResult.DONE for outcome in results)
        text = "forgotten, and put back: `breakglass triage` says whom to elect"
        return Ending(SUCCEEDED if whole else PARTLY_FAILED, text if whole else "", back)

    def _require(self, bombs: Sequence[Assessment], topics: Sequence[str]) -> None:
        """Refuse topics that the act does not help, or makes worse.

        Raises: Refused.
        """
        for topic in self.topics:
            if topic not in topics:
                raise Refused(
                    f"no broker is back EMPTY that would be elected for {topic}, so that nothing "
                    "has to be forgotten of it: leave it out"
                )
        for bomb in bombs:
            why = _why_useless(bomb)
            if why:
                raise Refused(f"{bomb.partition}: {why}")


def phrases(found: Sequence[Forgetting]) -> Iterator[ConsentPhrase]:
    """``carts forgets b4``, then ``orders-1 lose 0 and abandon b3`` for each intact leader."""
    bombs = [forgetting for forgetting in found if forgetting.bomb is not None]
    if bombs:
        brokers = ", ".join(f"b{broker}" for broker in sorted({bomb.bomb or 0 for bomb in bombs}))
        topics = {bomb.partition.topic for bomb in bombs}
        verb = "forgets" if len(topics) == 1 else "forget"
        yield ConsentPhrase(f"{topics_text(topics)} {verb} {brokers}")
    yield from intact_phrases(found)


def intact_phrases(found: Iterable[Forgetting]) -> Iterator[ConsentPhrase]:
    """A phrase for each set of intact leaders that are no longer elected when they return."""
    for group in consent_groups(forgetting.stake for forgetting in found if forgetting.intact):
        brokers = ", ".join(f"b{broker}" for broker in group.abandons)
        why = f"{brokers} may bring it back whole, and is not elected by itself any more"
        yield ConsentPhrase(group.phrase, why)


def _forgettings(
    triaged: Triage, topics: Sequence[str], gone: Sequence[int]
) -> Iterator[Forgetting]:
    for assessment in triaged.assessments:
        if assessment.partition.topic in topics:
            found = forgetting_of(assessment, gone)
            if found is not None:
                yield found


def _elsewhere(elr: Sequence[int]) -> str:
    brokers = ", ".join(f"b{broker}" for broker in elr)
    return f"has a leader, and forgets {brokers} as eligible until it is in sync again"


def _why_useless(bomb: Assessment) -> str:
    """Why forgetting does not keep the broker of *bomb* from being elected; empty where it does."""
    state, name = bomb.evidence.state, f"b{bomb.action.broker}"
    stop = f"stop {name} instead, wait until it is fenced"
    if isinstance(state.elr, Unknown) or state.isr or bomb.action.broker not in remembered(state):
        return f"{name} is in the ISR, which no change of {MIN_ISR} empties: {stop}"
    unclean = bomb.evidence.settings.unclean_election
    if unclean is not False:
        topic = bomb.partition.topic
        return (
            "its topic may allow unclean elections, so that the controller would then elect by "
            f"order: freeze it first, `breakglass recover freeze --topic {topic} --write`"
        )
    return ""


def _kept(
    client: ReadClient, plan: PlannedForgetting, changed: Sequence[SettingOutcome]
) -> dict[str, str]:
    """Topics whose partitions were not seen to forget, with the reason.

    Metadata shows a change 10 to 100 ms after it was made.
    """
    accepted = {
        outcome.change.topic for outcome in changed if outcome.result is not TargetResult.FAILED
    }
    waited = {one: broker for one, broker in plan.bombs.items() if one.topic in accepted}
    found: dict[str, str] = {}
    deadline = Deadline.after(patience.REQUEST)
    reason = "no broker shows it yet"
    while waited:
        try:
            states = client.partitions(sorted({partition.topic for partition in waited}), deadline)
        except BreakglassError as error:
            reason = str(error)
            break
        for state in states:
            if state.partition in waited and _settled(state, waited[state.partition], found):
                del waited[state.partition]
        if deadline.passed:
            break
        if waited:
            time.sleep(LOOK_SECONDS)
    for partition in waited:
        found.setdefault(partition.topic, f"it is unknown if {partition} was forgotten: {reason}")
    return found


def _settled(state: PartitionState, bomb: int, found: dict[str, str]) -> bool:
    if state.leader == bomb:
        told = (
            f"b{bomb} was elected for {state.partition} before it was forgotten: stop b{bomb} NOW"
        )
        found[state.partition.topic] = told
        return True
    return state.leader is not None or not remembered(state)


def _results(
    changed: Sequence[SettingOutcome], back: Sequence[SettingOutcome], kept: dict[str, str]
) -> Iterator[TargetOutcome]:
    """A result for each topic: forgotten and put back, or the first failure."""
    put_back = {outcome.change.topic: outcome for outcome in back}
    for outcome in changed:
        topic = outcome.change.topic
        last = put_back.get(topic)
        if outcome.result is TargetResult.FAILED or last is None:
            yield TargetOutcome(topic, TargetResult.FAILED, outcome.reason)
        elif last.result is not TargetResult.DONE:
            told = f"{last.reason}; still to be put back: `breakglass recover resume --write`"
            yield TargetOutcome(topic, last.result, told)
        elif topic in kept:
            unknown = kept[topic].startswith("it is unknown")
            result = TargetResult.UNKNOWN if unknown else TargetResult.FAILED
            yield TargetOutcome(topic, result, kept[topic])
        elif outcome.result is TargetResult.UNKNOWN:
            yield TargetOutcome(topic, outcome.result, outcome.reason)
        else:
            yield TargetOutcome(topic, TargetResult.DONE, f"forgotten; {last.change.back}")


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """The settings that a journal has to put back."""

    entries: int
    """Number of lines of the journal when it was read."""
    changes: tuple[SettingChange, ...]
    """Settings that still have the written value: these are put back."""
    left: tuple[tuple[SettingChange, str], ...]
    """Settings that were changed since and are not put back, with the reason."""
    partitions: tuple[TopicPartition, ...]
    winners: tuple[UncleanWinner, ...]
    """The replicas that the controller may elect uncleanly once settings are put back."""


@dataclass(frozen=True, slots=True)
class PutSettingsBack(Act[PlannedRelease]):
    """Give topics the values that they had before *journal* changed them."""

    doing: ClassVar[str] = "putting topic settings back"
    journal: Path
    seconds: float = patience.LOGS
    """For brokers to describe their logs."""

    def freeze(self, front: Front) -> Frozen[PlannedRelease]:
        view = read(self.journal)
        changes = owed(view)
        if not changes:
            raise Refused(f"journal {self.journal} has no setting to put back: nothing was done")
        topics = sorted({change.topic for change in changes})
        with front.reading() as client:
            snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), topics)
            require_same_cluster(view.cluster_id, snapshot.cluster_id)
            names = sorted({change.name for change in changes})
            layers = {name: _layers(client, snapshot, name, topics) for name in names}
            left = dict(_left(changes, snapshot, layers))
            ours = [change for change in changes if change not in left]
            native = front.cluster.native_rpc
            touched = {change.topic for change in ours}
            found = judged(client, snapshot, touched, self.seconds, native)
        allowed = {change.topic for change in ours if _allows(change, layers)}
        offline = [
            assessment for assessment in found.assessments if assessment.partition.topic in allowed
        ]
        winners = tuple(unclean_winners(offline, found.circumstances))
        forgotten = tuple(_forgotten(found, ours))
        return Frozen(
            view.cluster_id,
            tuple(_phrases(ours, winners, forgotten)),
            (
                *((change.topic, change.back) for change in ours),
                *((str(winner.partition), str(winner)) for winner in winners),
                *together(forgotten),
            ),
            tuple(sorted({change.topic for change in changes})),
            tuple(f"{change.topic}: left as it is, for {why}" for change, why in left.items()),
            PlannedRelease(
                len(view.entries),
                tuple(ours),
                tuple(left.items()),
                partitions_of(snapshot.partitions, touched),
                winners,
            ),
        )

    def open_journal(self, agreed: Frozen[PlannedRelease], folder: Path | None) -> Journal:
        """The same journal, unchanged since it was read.

        Raises:
            EvidenceChanged: another process has written to it.
        """
        journal, view = Journal.resume(self.journal, folder)
        if len(view.entries) != agreed.plan.entries:
            journal.close()
            raise EvidenceChanged(
                f"journal {view.path} was written to since: look again at what is to be put back."
            )
        return journal

    def carry_out(self, front: Front, means: Means, frozen: Frozen[PlannedRelease]) -> Ending:
        """Put them back; the ending's value is the list of `SettingOutcome`."""
        plan = frozen.plan
        with means.cluster.settings(frozen.cluster_id) as client:
            front.tell(Armed())
            done = SettingWriter(client, means.journal, plan.partitions).put_back(plan.changes)
        for outcome in done:
            front.tell(
                TargetOutcome(
                    outcome.change.topic, outcome.result, outcome.reason or outcome.change.back
                )
            )
        for change, why in plan.left:
            means.journal.note(f"{change.name} of {change.topic} is left as it is: {why}")
            front.tell(TargetOutcome(change.topic, TargetResult.DONE, f"left as it is, for {why}"))
        whole = all(outcome.result is TargetResult.DONE for outcome in done)
        return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=done)


def _layers(
    client: ReadClient, snapshot: ClusterSnapshot, name: str, topics: Sequence[str]
) -> Layers:
    """The setting *name* of those *topics* that still exist."""
    there = {state.partition.topic for state in snapshot.partitions}
    return layers_of(client, name, [topic for topic in topics if topic in there])


def _left(
    changes: Sequence[SettingChange], snapshot: ClusterSnapshot, layers: dict[str, Layers]
) -> Iterator[tuple[SettingChange, str]]:
    for change in changes:
        told = layers[change.name].told.get(change.topic)
        why = why_not_ours(change, snapshot.partitions, told)
        if why:
            yield change, why


def _allows(change: SettingChange, layers: dict[str, Layers]) -> bool:
    """Whether unclean election is on again once *change* is put back."""
    if change.name != UNCLEAN_ELECTION:
        return False
    beneath = layers[change.name].of(change.topic).beneath
    return (beneath if change.before is None else change.before) == ON


def _forgotten(found: Triage, ours: Sequence[SettingChange]) -> Iterator[Forgetting]:
    """What the controller forgets: putting min.insync.replicas back changes it, too."""
    topics = {change.topic for change in ours if change.name == MIN_ISR}
    for assessment in found.assessments:
        forgetting = forgetting_of(assessment, ()) if assessment.partition.topic in topics else None
        if forgetting is not None:
            yield forgetting


def _phrases(
    ours: Sequence[SettingChange], winners: Sequence[UncleanWinner], forgotten: Sequence[Forgetting]
) -> Iterator[ConsentPhrase]:
    """``release feed``; ``release feed and feed-1 lose 25`` while that is offline."""
    if not ours:
        return
    phrase = f"release {topics_text(change.topic for change in ours)}"
    if winners:
        price = total_price([winner.price for winner in winners])
        phrase += f" and {consent_phrase([winner.partition for winner in winners], price)}"
    yield ConsentPhrase(phrase)
    yield from intact_phrases(forgotten)
