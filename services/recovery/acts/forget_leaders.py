"""The act of making the controller forget a last leader that is back EMPTY (R3).

It is for a broker that cannot be stopped. A change of min.insync.replicas makes the controller
forget, permanently and for all partitions of the topic. The setting is put back at once, because
only the change matters, not the value.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.guard.act import (
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
from breakglass.services.guard.consent import ConsentPhrase, consent_groups
from breakglass.services.guard.steps import FORGET_LEADERS
from breakglass.services.kafka.cluster.settings import MIN_ISR
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.settings.changes import (
    SettingChange,
    owed,
    owing_journals,
    topics_text,
)
from breakglass.services.recovery.settings.forgetting import (
    Forgetting,
    eligible_elsewhere,
    forgetting_of,
    moment_text,
    moment_value,
    remembered,
    together,
)
from breakglass.services.recovery.settings.looking import (
    ids_of,
    judged,
    layers_of,
    partitions_of,
    read_snapshot,
)
from breakglass.services.recovery.settings.writing import SettingOutcome, SettingWriter
from breakglass.services.recovery.triage import Triage

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
            f"order: hold it first, `breakglass recover freeze --topic {topic} --write`"
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
