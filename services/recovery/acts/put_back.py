"""The act of putting back topic settings that a hold or a killed change left, if still ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.errors import EvidenceChanged, Refused
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    Armed,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
)
from breakglass.services.guard.consent import ConsentPhrase, consent_phrase, total_price
from breakglass.services.guard.journal import Journal, read
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.cluster.settings import MIN_ISR, UNCLEAN_ELECTION
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.forget_leaders import intact_phrases
from breakglass.services.recovery.acts.hold import ON
from breakglass.services.recovery.settings.changes import SettingChange, owed, topics_text
from breakglass.services.recovery.settings.forgetting import Forgetting, forgetting_of, together
from breakglass.services.recovery.settings.looking import Layers, judged, layers_of, partitions_of
from breakglass.services.recovery.settings.unclean import UncleanWinner, unclean_winners
from breakglass.services.recovery.settings.writing import SettingWriter, why_not_ours
from breakglass.services.recovery.triage import Triage
from breakglass.services.snapshot import ClusterSnapshot


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
