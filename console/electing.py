"""What every electing command does once it knows its targets: consent, run, report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.console.consent import Consent
from breakglass.console.evidence import say_past_end
from breakglass.console.exits import FAILED, INTERRUPTED, REFUSED_BY_GUARD
from breakglass.console.guarded import GuardedCommand
from breakglass.console.output import say
from breakglass.console.rescuing import RescueChoice, say_rescued
from breakglass.console.stop_signal import StopSignal
from breakglass.console.wiring import Connection
from breakglass.services.guard.act import ActEvent, JournalOpened
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.acts.add_replicas import reach_text, waits_for
from breakglass.services.recovery.acts.elect import Elect
from breakglass.services.recovery.acts.events import OutcomesReported, RescueEnded
from breakglass.services.recovery.execution.batches import ExecutionLimits
from breakglass.services.recovery.execution.routes import RouteChoice
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Skipped,
    exit_code,
)
from breakglass.services.recovery.guarded.aftermath import (
    GroupPastEnd,
    groups_unread,
    left_open_text,
    open_transactions_after,
    past_end,
)
from breakglass.services.recovery.guarded.election_quote import Priced, empty_over_unread
from breakglass.services.recovery.guarded.given_up import GivenUp, given_up
from breakglass.services.recovery.guarded.subject import ElectionSubject
from breakglass.services.recovery.judgement.assessment import INTERNAL_ALONE
from breakglass.services.words.figures import count
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.recovery.rescue.results import RescuedPartition
    from breakglass.services.recovery.triage import Left


def report(outcomes: Iterable[PartitionOutcome]) -> list[PartitionOutcome]:
    """Print *outcomes*: successes on stdout, the others on stderr; returns them."""
    reported = list(outcomes)
    for outcome in reported:
        line = told_of(outcome)
        if outcome.succeeded:
            print(inert(line), flush=True)
        else:
            say(line)
    return reported


def report_aside(outcomes: Iterable[PartitionOutcome]) -> list[PartitionOutcome]:
    """Say all *outcomes* on stderr, where stdout is kept for a document; returns them."""
    reported = list(outcomes)
    for outcome in reported:
        say(told_of(outcome))
    return reported


def report_online(state: PartitionState, *, as_json: bool) -> Skipped:
    """Say that a partition has a leader already, on stderr where stdout is kept for a document."""
    line = f"{state.partition}  already online: led by b{state.leader}"
    if as_json:
        say(line)
    else:
        print(inert(line), flush=True)
    return Skipped(state.partition, None, RecoveryResult.ALREADY_ONLINE, "", state.leader)


def tell_or_stop(
    tell: Callable[[Sequence[PartitionOutcome]], object],
    batch: Sequence[PartitionOutcome],
    stop: StopSignal,
) -> None:
    """Print *batch*; with nobody left to read it, end after it and let the journal speak."""
    try:
        tell(batch)
    except OSError:
        stop.requested = True


def told_of(outcome: PartitionOutcome) -> str:
    """*outcome* in a line."""
    return f"{outcome.partition}  {_words(outcome)}"


def _words(outcome: PartitionOutcome) -> str:
    kept = ""
    if outcome.order_restored is False and outcome.result is not RecoveryResult.REORDERED:
        kept = ", assignment order not put back: `breakglass recover resume --write` does it"
    if outcome.result is RecoveryResult.ELECTED:
        reach = reach_text(outcome)
        read = f", {reach}" if reach else ""
        epoch = count(outcome.leader_epoch)
        return f"elected b{outcome.leader} (epoch {epoch}), {outcome.rung}{read}{kept}"
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.result}{reason}{kept}"


def ended(
    outcomes: Sequence[PartitionOutcome],
    stop: StopSignal,
    journals: Sequence[Path],
    others: Sequence[RecoveryResult] = (),
) -> int:
    """The exit code of a run; where it left something, that and the next command are said.

    *others* are results of partitions that were never part of it.
    """
    code = exit_code(outcomes, others)
    if stop.requested and code in (FAILED, REFUSED_BY_GUARD) and _unattempted(outcomes):
        code = INTERRUPTED
    left = [outcome for outcome in outcomes if not outcome.complete]
    if left:
        told = f"exit {code}: {_counted(left)} of {len(outcomes):,}"
        say("; ".join([told, *_next_commands(left, journals)]))
    return code


def _unattempted(outcomes: Sequence[PartitionOutcome]) -> bool:
    return any(outcome.result is RecoveryResult.NOT_ATTEMPTED for outcome in outcomes)


def _counted(left: Sequence[PartitionOutcome]) -> str:
    words = Counter(
        "order not put back" if outcome.succeeded else str(outcome.result) for outcome in left
    )
    return ", ".join(f"{number:,} {word}" for word, number in words.most_common())


def _next_commands(left: Sequence[PartitionOutcome], journals: Sequence[Path]) -> Iterator[str]:
    named = f" --journal {journals[0]}" if len(journals) == 1 else ""
    if any(outcome.result is RecoveryResult.UNKNOWN for outcome in left):
        name = f" {journals[0]}" if len(journals) == 1 else ""
        yield f"`breakglass journal check{name}` asks the cluster what became of it"
    if any(outcome.result is not RecoveryResult.ELECTED_ANOTHER for outcome in left):
        undo = any(outcome.order_restored is False and not outcome.succeeded for outcome in left)
        also = ", with --undo it puts orders back" if undo else ""
        yield f"`breakglass recover resume{named} --write` finishes what is left{also}"
    else:
        yield "plan again: `breakglass plan make`"


@dataclass(slots=True)
class Talk:
    """What guarded elections report, said as a command says it, and collected."""

    stop: StopSignal
    tell: Callable[[Sequence[PartitionOutcome]], object]
    """Prints the outcomes of a batch."""
    announce: bool = True
    """Say which journal it is; not of one that was named before."""
    outcomes: list[PartitionOutcome] = field(default_factory=list)
    rescued: list[RescuedPartition] = field(default_factory=list)
    """Of partitions that something was to be saved of."""
    journals: list[Path] = field(default_factory=list)

    def __call__(self, event: ActEvent) -> None:
        if isinstance(event, JournalOpened):
            self.journals.append(event.path)
            if self.announce:
                say(f"journal: {event.path}")
        elif isinstance(event, RescueEnded):
            self.rescued += event.results
            say_rescued(event.results)
        elif isinstance(event, OutcomesReported):
            self.outcomes += event.outcomes
            tell_or_stop(self.tell, event.outcomes, self.stop)


@dataclass(slots=True)
class Electing:
    """One armed command: its journal is opened with the first target, its outcomes collected."""

    connection: Connection
    client: ReadClient
    cluster_id: str
    stop: StopSignal
    choose_route: RouteChoice
    rescue: RescueChoice = field(default_factory=RescueChoice)
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    tell: Callable[[Sequence[PartitionOutcome]], list[PartitionOutcome]] = report
    """Prints the outcomes of a batch and returns them."""
    outcomes: list[PartitionOutcome] = field(default_factory=list)
    rescued: list[RescuedPartition] = field(default_factory=list)
    """Of partitions that something was to be saved of."""
    given_up: tuple[GivenUp, ...] = ()
    """Brokers whose unread logs the elections gave up; `look_after` says so."""
    groups_past_end: tuple[GroupPastEnd, ...] = ()
    """Groups that the elections left past the end; `look_after` says so."""
    groups_unread: tuple[str, ...] = ()
    """Which groups *groups_past_end* may lack, each with the reason."""
    _wanted: list[Priced] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)
    """What was said of unread groups, each once."""
    journals: list[Path] = field(default_factory=list)
    """One for each call of `run` that elected something."""
    native: NativeRpc = STOCK

    def run(
        self,
        wanted: Sequence[Priced],
        consent: Consent,
        digest: str = "",
        *,
        approved_by: tuple[str, ...] | None = None,
        left: Iterable[Left] = (),
    ) -> None:
        """Elect *wanted*, after consent; prints each batch as it ends.

        The journal says as well who approved the plan of that *digest*, and what of it is *left*.

        Raises:
            ReadOnly: `--write` is missing.
            ConsentMissing: the phrase was not given.
            AlreadyRunning: somebody else changes this cluster from here.
        """
        if not wanted:
            return
        subject = ElectionSubject(
            self.cluster_id,
            tuple(wanted),
            left=tuple(left),
            native=self.native,
            digest=digest,
            approved_by=approved_by,
        )
        act = Elect(lambda _: subject, self.choose_route, self.rescue, self.limits)
        self.connection.require_write(act.doing)
        for sentence in empty_over_unread(
            (priced.evidence, priced.target.designee, priced.stake.abandons) for priced in wanted
        ):
            say(sentence)
        if not consent.implied:
            alone = [group for group in subject.groups if group.why_alone]
            if any(group.why_alone == INTERNAL_ALONE for group in alone):
                say("what internal topics lose, key by key: breakglass internal-topics")
            for group in alone:
                say(f"{group.phrase}: needs a consent of its own: {group.why_alone}")
        self._wanted += wanted
        targets = [priced.target for priced in wanted]
        self._say_past_end(targets, "once that is elected")
        talk = Talk(
            self.stop,
            self.tell,
            outcomes=self.outcomes,
            rescued=self.rescued,
            journals=self.journals,
        )
        command = GuardedCommand(act, consent, self.connection, stop=self.stop, hear=talk)
        command.carry_out(command.freeze(), write=True)

    def ended(self, others: Sequence[RecoveryResult] = ()) -> int:
        """The exit code, *others* included, which were never part of it; says what is left."""
        return ended(self.outcomes, self.stop, self.journals, others)

    def look_after(self) -> tuple[OpenTransaction, ...] | Unknown:
        """Say what the recovery has left; returns the transactions left open."""
        abandons = {priced.partition: priced.stake.abandons for priced in self._wanted}
        self.given_up = say_given_up(self.outcomes, abandons)
        left = look_after(self.client, self.outcomes)
        elected = [
            outcome.target for outcome in self.outcomes if outcome.result is RecoveryResult.ELECTED
        ]
        self.groups_past_end, self.groups_unread = self._say_past_end(elected, "now")
        return left

    def _say_past_end(
        self, targets: Sequence[ElectionTarget], moment: str
    ) -> tuple[tuple[GroupPastEnd, ...], tuple[str, ...]]:
        evidence = {priced.partition: priced.evidence for priced in self._wanted}
        found, unread = past_end(targets, evidence), groups_unread(targets, evidence)
        say_past_end(found, (reason for reason in unread if reason not in self._told), moment)
        self._told.update(unread)
        return found, unread


def say_given_up(
    outcomes: Iterable[PartitionOutcome], abandons: Mapping[TopicPartition, Iterable[int]]
) -> tuple[GivenUp, ...]:
    """Say which brokers must not be started as they are, and return them."""
    found = given_up(outcomes, abandons)
    for broker in found:
        say(broker.advice)
    return found


def look_after(
    client: ReadClient, outcomes: Sequence[PartitionOutcome]
) -> tuple[OpenTransaction, ...] | Unknown:
    """Say what *outcomes* left: records that nobody reads yet (R30), and open transactions (R18).

    Returns the transactions.
    """
    for waiting in waits_for(outcomes):
        say(waiting)
    left = open_transactions_after(client, outcomes)
    if isinstance(left, Unknown):
        if any(outcome.result is RecoveryResult.ELECTED for outcome in outcomes):
            say(f"open transactions are not known: {left.reason}")
        return left
    for transaction in left:
        say(left_open_text(transaction))
    return left
