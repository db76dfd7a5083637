"""What a guarded screen knows, and what it says of it. Changed by the screen's handlers only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from breakglass.screens.elect import wording
from breakglass.screens.elect.progress import (
    LOOKED_AT,
    ElectionProgress,
    PartitionStanding,
    changed,
)
from breakglass.screens.elect.rows import ElectionRow
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.model import ReplicaLog, TopicPartition, Unknown, known
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.guarded.aftermath import Aftermath
from breakglass.services.recovery.guarded.election_quote import Priced
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject
from breakglass.services.recovery.judgement.loss import Loss, ReplicaLoss, loss_of
from breakglass.services.words.figures import count, epochs_text
from breakglass.themes.roles import Role


def evidence_told(priced: Priced) -> Iterator[str]:
    """The designee first."""
    designee = priced.target.designee
    loss = loss_of(priced.evidence, designee)
    replicas = sorted(priced.evidence.replicas, key=lambda held: held.broker != designee)
    for replica in replicas:
        yield _told(replica, designee, loss)


def _told(replica: ReplicaLog, designee: int, loss: Loss) -> str:
    name = f"b{replica.broker} {replica.role.value}"
    if isinstance(replica.log_end, Unknown):
        return f"{name}  ?: {replica.log_end.reason}"
    held = f"{count(replica.log_start)} to {count(replica.log_end)}"
    figures = f"{held}  HW {count(replica.high_watermark)}  epochs {epochs_text(replica.epochs)}"
    if replica.broker == designee:
        return f"{name}  {figures}  is elected"
    return f"{name}  {figures}  {_dropped(loss.of(replica.broker), designee)}"


def _dropped(lost: ReplicaLoss | None, designee: int) -> str:
    if lost is None:
        return "was not compared"
    parts = [_tail(lost)] if lost.tail != 0 else []
    if lost.head != 0:
        parts.append(f"{count(lost.head)} before b{designee} starts")
    return f"loses {' and '.join(parts)}" if parts else f"adds nothing to b{designee}"


def _tail(lost: ReplicaLoss) -> str:
    where = f" past {lost.divergence:,}" if known(lost.divergence) else ""
    return f"{count(lost.tail)}{where}"


class Phase(Enum):
    """Where it stands."""

    READING = auto()
    """What is to be carried out is read; nothing can be agreed to yet."""
    REVIEW = auto()
    """Everything is shown, and the phrases are asked for."""
    REREADING = auto()
    """Agreed to: read again, nothing sent yet. Esc gives it up."""
    RUNNING = auto()
    """Armed: it ends between two batches only."""
    DONE = auto()
    """Over; what was elected is watched."""


@dataclass(slots=True)
class ElectionState:
    """One undertaking, from its price to what is left to do."""

    armed: bool
    """The session may change the cluster."""
    doing: str
    rescue: RescueChoice
    phase: Phase = Phase.READING
    subject: ElectionSubject | None = None
    every_row: tuple[ElectionRow, ...] = ()
    """Of the subject, in its order."""
    asked: tuple[ConsentPhrase, ...] = ()
    """The phrases that the subject takes."""
    given: list[str] = field(default_factory=list)
    """Those that were typed so far."""
    changed: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Why a consent did not hold any more."""
    progress: ElectionProgress = field(default_factory=ElectionProgress)
    aftermath: Aftermath | None = None
    answered: str = ""
    """What asking again has found out."""
    reopened: bool = False
    """Asking again has found elections that are to be finished."""
    intro: str = ""
    """Said above everything else."""
    undo: bool = False
    note: str = ""
    note_role: Role | None = None

    def say(self, note: str, role: Role | None = None) -> None:
        self.note, self.note_role = note, role

    def review(
        self,
        subject: ElectionSubject,
        rows: tuple[ElectionRow, ...],
        asked: tuple[ConsentPhrase, ...],
    ) -> None:
        """Show *subject* in *rows* and ask for its phrases from the beginning."""
        self.phase, self.subject, self.every_row, self.asked = Phase.REVIEW, subject, rows, asked
        self.given.clear()
        self.progress = ElectionProgress()
        self.progress.standings = {name: changed(why) for name, why in self.changed.items()}

    def reread(self, subject: ElectionSubject) -> None:
        self.phase, self.changed = Phase.REREADING, {}
        self.progress = ElectionProgress()
        partitions = [priced.partition for priced in subject.wanted]
        partitions += [led.partition for led in subject.led]
        self.progress.begin(partitions, LOOKED_AT)

    @property
    def next_asked(self) -> ConsentPhrase | None:
        """The phrase to be typed now; None where there is nothing to agree to."""
        if not self.armed or self.phase is not Phase.REVIEW or len(self.given) == len(self.asked):
            return None
        return self.asked[len(self.given)]

    @property
    def resumable(self) -> bool:
        """The journal may be taken up: not attempted, unknown, or an order not put back."""
        progress = self.progress
        left = (
            self.reopened
            or progress.result is None
            or any(
                outcome.result in (RecoveryResult.NOT_ATTEMPTED, RecoveryResult.UNKNOWN)
                or outcome.order_restored is False
                for outcome in progress.outcomes.values()
            )
        )
        return self.phase is Phase.DONE and progress.journal is not None and left

    @property
    def headline(self) -> str:
        if self.subject is None:
            return "Reading what there is to do."
        if self.phase is Phase.REREADING:
            return "Reading everything again before anything is sent."
        if self.phase is Phase.RUNNING:
            return wording.progress_told(self.progress)
        if self.phase is Phase.DONE:
            return wording.ended_told(self.progress)
        return wording.headline(self.subject, undo=self.undo)

    @property
    def remarks(self) -> Iterator[str]:
        if self.subject is not None and self.phase in (Phase.READING, Phase.REVIEW):
            if self.intro:
                yield self.intro
            yield from wording.spared(self.subject)
            if self.subject.wanted:
                yield wording.rescue_told(self.subject, self.rescue)
            yield from wording.remarks(self.subject)

    @property
    def rows(self) -> tuple[ElectionRow, ...]:
        """What needs the operator on top, once something was reported."""
        if self.phase is not Phase.DONE and not self.changed:
            return self.every_row
        return tuple(sorted(self.every_row, key=lambda row: -self.standing(row).weight))

    def standing(self, row: ElectionRow) -> PartitionStanding:
        return self.progress.standings.get(row.partition, row.asked)

    def reason(self, row: ElectionRow | None) -> Iterator[str]:
        """All that is to be said of *row*: its state, and before consent its evidence."""
        if row is None or self.subject is None:
            return
        asked = self.next_asked
        said_below = asked is not None and asked.partition == row.partition and not self.changed
        why = self.standing(row).reason
        if why and not said_below:
            yield f"{row.partition}: {why}"
        if self.phase in (Phase.READING, Phase.REVIEW):
            for priced in self.subject.wanted:
                if priced.partition == row.partition:
                    yield from evidence_told(priced)

    @property
    def summary(self) -> Iterator[str]:
        if self.phase is Phase.DONE:
            if self.answered:
                yield self.answered
            yield from wording.what_next(self.progress, self.aftermath)
