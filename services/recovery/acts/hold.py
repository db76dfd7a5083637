"""The act of preventing unclean elections by assignment order during triage (R14).

A held topic has unclean.leader.election.enable=false of its own. `put_back.PutSettingsBack`
restores its earlier value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.guard.act import (
    HELD,
    PARTLY_FAILED,
    Act,
    Armed,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.steps import HOLD_ELECTIONS
from breakglass.services.kafka.cluster.settings import UNCLEAN_ELECTION, LayeredSetting
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.settings.changes import SettingChange, topics_text
from breakglass.services.recovery.settings.looking import (
    Layers,
    ids_of,
    judged,
    layers_of,
    partitions_of,
    read_snapshot,
)
from breakglass.services.recovery.settings.unclean import UncleanWinner, unclean_winners
from breakglass.services.recovery.settings.writing import SettingWriter

OFF, ON = "false", "true"
NOTHING = "Nothing is to be held: unclean election is off where a partition is offline."


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

    doing: ClassVar[str] = "holding unclean elections back"
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
            (ConsentPhrase(f"hold {topics_text(wanted)}"),) if wanted else (),
            tuple((topic, _told(layers.of(topic))) for topic in wanted),
            tuple(wanted),
            tuple(_remarks(winners)) if wanted else (NOTHING,),
            planned,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[PlannedHold]) -> Ending:
        """Hold them; the ending's value is the list of `SettingOutcome`."""
        plan = frozen.plan
        with means.cluster.settings(frozen.cluster_id) as client:
            front.tell(Armed())
            writer = SettingWriter(client, means.journal, plan.partitions)
            done = writer.write(HOLD_ELECTIONS, plan.changes)
        for outcome in done:
            told = outcome.reason or "held: the controller elects no leader uncleanly"
            front.tell(TargetOutcome(outcome.change.topic, outcome.result, told))
        whole = all(outcome.result is TargetResult.DONE for outcome in done)
        text = "held until it is released: `breakglass recover thaw --write`"
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
        yield f"{winner.partition}: without a hold {winner}"
