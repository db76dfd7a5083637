"""What the page of an election knows, and what it says of it; changed by its handlers only.

How far each partition is: a glyph, a word, a reason; never colour alone.

The thread of guarded elections: besides the act itself, what follows it and can be asked again.
What was elected is watched as it climbs, and unknown outcomes are looked up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakglass.screens.elect import wording
from breakglass.screens.guard import ActFrozen, GuardedWorker, GuardMessage
from breakglass.screens.widgets.line_table import LineColumn
from breakglass.services.guard.act import (
    ActEvent,
    Change,
    Ending,
    Frozen,
    GuardedRun,
    JournalOpened,
)
from breakglass.services.guard.consent import ConsentPhrase, Price
from breakglass.services.model import TopicPartition, Unknown, known
from breakglass.services.recovery.acts.add_replicas import reach_text
from breakglass.services.recovery.acts.elect import (
    BatchBegun,
    OutcomesReported,
    RescueEnded,
    RescueProgressed,
    frozen_elections,
)
from breakglass.services.recovery.acts.resume import Resumption
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult, Rung
from breakglass.services.recovery.guarded.aftermath import Aftermath, look_after, watch_ladder
from breakglass.services.recovery.guarded.check_again import check_again, settled_by
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, Priced
from breakglass.services.recovery.judgement.loss import ReplicaLoss, UnreadRecords, loss_of
from breakglass.services.recovery.rescue.spans import RescuedPartition, RescueProgress
from breakglass.services.words.figures import count, epochs_text, unread_text
from breakglass.themes.roles import Role, Words

if TYPE_CHECKING:
    from breakglass.services.recovery.guarded.check_again import CheckedAgain


@dataclass(eq=False)
class SubjectFrozen(ActFrozen):
    """What is to be elected, with its price, and the *rows* that show it."""

    rows: tuple[ElectionRow, ...] = ()


@dataclass(eq=False)
class LadderMoved(GuardMessage):
    """Elected partitions stand on other rungs than before."""

    outcomes: tuple[PartitionOutcome, ...]


@dataclass(eq=False)
class AftermathFound(GuardMessage):
    """What the elections have left behind."""

    aftermath: Aftermath


@dataclass(eq=False)
class UnknownsAnswered(GuardMessage):
    """What the cluster says of steps whose outcome was unknown."""

    found: CheckedAgain
    settled: tuple[PartitionOutcome, ...]
    """Of those that were unknown: what came of them."""


LEFT_OUT = "left out by you"


@dataclass
class ElectionWorker(GuardedWorker[Any]):
    """Elections, or a journal that is resumed."""

    left_out: Collection[TopicPartition] = ()
    """By the operator, from the beginning."""
    _outcomes: list[PartitionOutcome] = field(default_factory=list, init=False)
    """Reported so far."""

    def show(self, frozen: Frozen[Any], changed: tuple[Change, ...] = ()) -> None:
        """Count what is to be elected, so that showing it takes no time, then report it."""
        if self.left_out:
            frozen = frozen_elections(frozen.plan.without(self.left_out, LEFT_OUT))
        rows = tuple(rows_of(subject_in(frozen).summed()))
        self.report(SubjectFrozen(self.number, frozen, changed, rows))

    def leave_out(self, frozen: Frozen[ElectionSubject]) -> None:
        """Report *frozen* without the elections that are left out."""
        self.guarded(lambda: self.show(frozen))

    def began(self, fresh: Frozen[Any]) -> None:
        """The watch need not alarm at the leaders that were agreed to."""
        targets = [election.target for election in subject_in(fresh).wanted]
        self.context.watch.agreed({target.partition: target.designee for target in targets})
        super().began(fresh)

    def hear(self, event: ActEvent) -> None:
        if isinstance(event, OutcomesReported):
            self._outcomes += event.outcomes
        super().hear(event)

    def follow(self, run: GuardedRun[Any], agreed: Frozen[Any], ending: Ending) -> None:  # noqa: ARG002
        """Look at what the elections left behind, and watch what was elected."""
        if self._outcomes:
            self.guarded(lambda: self._watch(subject_in(agreed), self._outcomes))

    def check_again(self, journal: Path, unknown: Sequence[PartitionOutcome]) -> None:
        """Ask the cluster what became of the *unknown* outcomes in *journal*."""
        self.guarded(lambda: self._check_again(journal, unknown))

    def _watch(self, subject: ElectionSubject, outcomes: Sequence[PartitionOutcome]) -> None:
        with self.context.reading() as client:
            found = look_after(client, outcomes, subject.wanted)
            self.report(AftermathFound(self.number, found))
            for moved in watch_ladder(client, outcomes, self.gone):
                self.report(LadderMoved(self.number, tuple(moved)))

    def _check_again(self, journal: Path, unknown: Sequence[PartitionOutcome]) -> None:
        with self.context.reading() as client:
            found = check_again(client, journal, folder=self.context.state_folder)
            settled = settled_by(found, unknown)
            self.report(UnknownsAnswered(self.number, found, tuple(settled)))
            for moved in watch_ladder(client, settled, self.gone):
                self.report(LadderMoved(self.number, tuple(moved)))


def subject_in(frozen: Frozen[Any]) -> ElectionSubject:
    """The elections that *frozen* is about."""
    plan: ElectionSubject | Resumption = frozen.plan
    return plan.subject if isinstance(plan, Resumption) else plan


RUNGS = len(Rung)
CLIMBED, AHEAD = "■", "·"
ORDER_LEFT = "; the order of its assignment was not put back: resume the journal"


@dataclass(frozen=True, slots=True)
class PartitionStanding:
    """What is shown of one partition."""

    glyph: str
    word: str
    role: Role | None = None
    reason: str = ""
    """The whole sentence, for the line below the table."""
    weight: int = 0
    """What needs the operator comes first when all is over: the greater, the earlier."""

    @property
    def text(self) -> str:
        return f"{self.glyph} {self.word}".strip()


ASKED = PartitionStanding("", "")
WAITING = PartitionStanding(AHEAD * RUNGS, "waits for its turn", Role.MUTED)
LOOKED_AT = PartitionStanding("»", "read again", Role.RUNNING)
ELECTING = PartitionStanding("»", "electing", Role.RUNNING)
CONFIRMED = PartitionStanding(
    "", "to be confirmed", None, "its designee leads: it is confirmed, and its order put back"
)
"""Of a partition that a resume finds led as it should be."""


def standing_of(outcome: PartitionOutcome) -> PartitionStanding:
    """What came of one partition."""
    if outcome.result is RecoveryResult.ELECTED:
        if outcome.rung is None:
            word = (
                "leader lost again" if outcome.leader is None else f"b{outcome.leader} leads by now"
            )
            return PartitionStanding("!", word, Role.FAILED, outcome.reason, 4)
        glyph = CLIMBED * outcome.rung + AHEAD * (RUNGS - outcome.rung)
        role = Role.VERIFIED if outcome.rung >= Rung.WRITABLE else Role.RUNNING
        led = f"b{outcome.leader} leads in epoch {count(outcome.leader_epoch)}"
        reason = f"{led}; {reach_text(outcome) or MEANING[outcome.rung]}"
        if outcome.order_restored is False:
            reason += ORDER_LEFT
        return PartitionStanding(glyph, str(outcome.rung), role, reason)
    glyph, role, weight = _UNELECTED[outcome.result]
    word = str(outcome.result)
    if outcome.result is RecoveryResult.ELECTED_ANOTHER:
        word = f"b{outcome.leader} was elected"
    elif outcome.result is RecoveryResult.REORDERED:
        word = "reordered only"
    reason = outcome.reason
    if outcome.order_restored is False and outcome.result is not RecoveryResult.REORDERED:
        reason = f"{reason}{ORDER_LEFT}"
    return PartitionStanding(glyph, word, role, reason, weight)


MEANING = {
    Rung.ANNOUNCED: "the broker itself has not confirmed it yet",
    Rung.SERVING: "it answers as leader; its high watermark lags behind",
    Rung.READABLE: "consumers read to the end; too few replicas are in sync for acks=all",
    Rung.WRITABLE: "acks=all is accepted; no other replica is in sync yet",
    Rung.REDUNDANT: "another replica is in sync",
}

_UNELECTED = {
    RecoveryResult.ALREADY_ONLINE: ("✓", Role.VERIFIED, 0),
    RecoveryResult.UNDONE: ("✓", Role.VERIFIED, 0),
    RecoveryResult.NOT_ATTEMPTED: ("-", Role.MUTED, 1),
    RecoveryResult.REFUSED: ("!", Role.FAILED, 2),
    RecoveryResult.FAILED: ("x", Role.FAILED, 3),
    RecoveryResult.REORDERED: ("!", Role.FAILED, 4),
    RecoveryResult.UNKNOWN: ("?", Role.UNKNOWN, 5),
    RecoveryResult.ELECTED_ANOTHER: ("x", Role.FAILED, 6),
}


@dataclass(slots=True)
class ElectionProgress:
    """How far one election is."""

    total: int = 0
    """Partitions whose outcome is awaited."""
    standings: dict[TopicPartition, PartitionStanding] = field(default_factory=dict)
    outcomes: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    journal: Path | None = None
    rescuing: RescueProgress | None = None
    """None: no rescue runs."""
    rescued: list[RescuedPartition] = field(default_factory=list)
    finished: bool = False
    result: str | None = None

    def begin(
        self, partitions: Iterable[TopicPartition], standing: PartitionStanding = WAITING
    ) -> None:
        self.standings = dict.fromkeys(partitions, standing)
        self.total = len(self.standings)

    def take(self, event: ActEvent) -> None:
        if isinstance(event, JournalOpened):
            self.journal = event.path
        elif isinstance(event, RescueProgressed):
            self.rescuing = event.progress
        elif isinstance(event, RescueEnded):
            self.rescuing = None
            self.rescued += event.results
        elif isinstance(event, BatchBegun):
            self.standings.update(dict.fromkeys(event.partitions, ELECTING))
        elif isinstance(event, OutcomesReported):
            self.told(event.outcomes)

    def end(self, ending: Ending) -> None:
        self.finished, self.result = True, ending.result

    def told(self, outcomes: Iterable[PartitionOutcome]) -> None:
        """What came of some partitions, or how far they have climbed since."""
        for outcome in outcomes:
            self.outcomes[outcome.partition] = outcome
            self.standings[outcome.partition] = standing_of(outcome)

    def count(self, *results: RecoveryResult) -> int:
        return sum(outcome.result in results for outcome in self.outcomes.values())

    @property
    def unknown(self) -> tuple[PartitionOutcome, ...]:
        """Those that may or may not have happened."""
        unknown = RecoveryResult.UNKNOWN
        return tuple(one for one in self.outcomes.values() if one.result is unknown)

    @property
    def by_word(self) -> Counter[str]:
        """How many partitions stand where, by the word that is shown."""
        return Counter(self.standings[outcome].word for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class ElectionRow:
    """One partition of an election. Where it stands is looked up when its line is drawn."""

    partition: TopicPartition
    asked: PartitionStanding
    """Where it stands before anything was sent."""
    designee: int | None = None
    epoch: int | Unknown | None = None
    """Last written epoch of the designee."""
    log_end: int | Unknown | None = None
    price: Price | None = None
    unread: UnreadRecords | None = None


def rows_of(subject: ElectionSubject) -> Iterator[ElectionRow]:
    """A row for each partition of *subject*, in its order; those left out come last."""
    for priced, unread in zip(subject.wanted, subject.unread, strict=True):
        designee = priced.target.designee
        replica = priced.evidence.replica(designee)
        yield ElectionRow(
            priced.partition,
            _asked(subject, priced.partition),
            designee,
            None if replica is None else replica.last_written_epoch,
            None if replica is None else replica.log_end,
            priced.stake.price,
            unread,
        )
    for led in subject.led:
        yield ElectionRow(led.partition, CONFIRMED, led.designee)
    for omitted in subject.left:
        standing = PartitionStanding("-", "left out", Role.MUTED, omitted.reason)
        yield ElectionRow(omitted.partition, standing)


def _asked(subject: ElectionSubject, partition: TopicPartition) -> PartitionStanding:
    """What an operator should know of it before consenting."""
    why, instead = subject.why_alone.get(partition), subject.spared.get(partition)
    alone = f"needs its own consent: {why}"
    if instead is not None:
        reason = f"needs no election if you {instead}{f'; to elect it {alone}' if why else ''}"
        return PartitionStanding("", f"or {instead}", Role.WAITING, reason)
    return PartitionStanding("!", "own phrase", Role.LOST, alone) if why else ASKED


def _loses(row: ElectionRow) -> Words:
    if row.price is None:
        return Words("-", Role.MUTED)
    if not known(row.price.records):
        return Words("?", Role.UNKNOWN)
    return Words(str(row.price), Role.LOST if row.price.records else None)


def _unread(row: ElectionRow) -> Words:
    if row.unread is None:
        return Words("-", Role.MUTED)
    text = unread_text(row.unread)
    return Words(text, None if text == "0" else Role.UNKNOWN)


def columns(
    standing: Callable[[ElectionRow], PartitionStanding],
) -> tuple[LineColumn[ElectionRow], ...]:
    """The columns; *standing* tells where a row stands now."""

    def state(row: ElectionRow) -> Words:
        found = standing(row)
        return Words(found.text, found.role)

    return (
        LineColumn("Topic-partition", lambda row: str(row.partition), shrinks=True, tail="-"),
        LineColumn("Elect", lambda row: "-" if row.designee is None else f"b{row.designee}"),
        LineColumn("Epoch", lambda row: count(row.epoch), right=True, least_width=70),
        LineColumn("LEO", lambda row: count(row.log_end), right=True, least_width=70),
        LineColumn("Loses", _loses, right=True),
        LineColumn("Unread", _unread, right=True, least_width=56),
        LineColumn("State", state, most=60, shrinks=True),
    )


def evidence_told(priced: Priced) -> Iterator[str]:
    """The designee first."""
    designee = priced.target.designee
    loss = loss_of(priced.evidence, designee)
    for replica in sorted(priced.evidence.replicas, key=lambda held: held.broker != designee):
        name = f"b{replica.broker} {replica.role.value}"
        if isinstance(replica.log_end, Unknown):
            yield f"{name}  ?: {replica.log_end.reason}"
            continue
        held = f"{count(replica.log_start)} to {count(replica.log_end)}"
        figures = f"HW {count(replica.high_watermark)}  epochs {epochs_text(replica.epochs)}"
        elected = replica.broker == designee
        fate = "is elected" if elected else _dropped(loss.of(replica.broker), designee)
        yield f"{name}  {held}  {figures}  {fate}"


def _dropped(lost: ReplicaLoss | None, designee: int) -> str:
    if lost is None:
        return "was not compared"
    where = f" past {lost.divergence:,}" if known(lost.divergence) else ""
    parts = [f"{count(lost.tail)}{where}"] if lost.tail != 0 else []
    if lost.head != 0:
        parts.append(f"{count(lost.head)} before b{designee} starts")
    return f"loses {' and '.join(parts)}" if parts else f"adds nothing to b{designee}"


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
        self.progress.standings = {
            name: PartitionStanding("!", f"changed: {why}", Role.FAILED, why, 1)
            for name, why in self.changed.items()
        }

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
