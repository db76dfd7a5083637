"""What every electing command does once it knows its targets: consent, run, report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.console.documents import given_up_brokers, outcomes_document, rescued_partitions
from breakglass.console.evidence import say_past_end
from breakglass.console.exits import FAILED, INTERRUPTED, REFUSED_BY_GUARD, StopSignal
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import Consent
from breakglass.console.output import print_json, report, say
from breakglass.console.wiring import Connection
from breakglass.services.guard.act import ActEvent, JournalOpened
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.acts.add_replicas import reach_text, waits_for
from breakglass.services.recovery.acts.elect import Elect, OutcomesReported, RescueEnded
from breakglass.services.recovery.execution.steps import ExecutionLimits, RouteChoice
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Skipped,
    exit_code,
)
from breakglass.services.recovery.guarded.aftermath import (
    Aftermath,
    GroupPastEnd,
    given_up,
    groups_unread,
    left_open_text,
    open_transactions_after,
    past_end,
)
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, Priced, empty_over_unread
from breakglass.services.recovery.judgement.assessment import INTERNAL_ALONE
from breakglass.services.words.figures import count

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.recovery.rescue.spans import RescuedPartition
    from breakglass.services.recovery.triage import Left


SHOWN_PARTITIONS = 20
"""More rescued partitions than these are reported by their sum."""


@dataclass(slots=True)
class Electing:
    """The elections of one command: held after consent, said as they end, and collected."""

    connection: Connection
    client: ReadClient
    cluster_id: str
    stop: StopSignal
    choose_route: RouteChoice
    rescue: RescueChoice = field(default_factory=RescueChoice)
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    as_json: bool = False
    """stdout is kept for a document."""
    native: NativeRpc = STOCK
    outcomes: list[PartitionOutcome] = field(default_factory=list)
    unheld: list[Skipped] = field(default_factory=list)
    """Partitions for which no election was held."""
    rescued: list[RescuedPartition] = field(default_factory=list)
    """Of partitions that something was to be saved of."""
    journals: list[Path] = field(default_factory=list)
    """One for each call of `run` that elected something; each is said when it is first named."""
    evidence: dict[TopicPartition, PartitionEvidence] = field(default_factory=dict)
    """What the elections rest on."""
    abandons: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """Brokers whose unread logs they give up."""
    aftermath: Aftermath = field(default_factory=lambda: Aftermath((), ()))
    """What they left; `look_after` says so."""
    _said: set[str] = field(default_factory=set)
    """Of unread groups, each once."""

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
                say("what internal topics lose, key by key: breakglass after internal-topics")
            for group in alone:
                say(f"{group.phrase}: needs a consent of its own: {group.why_alone}")
        self.evidence |= {priced.partition: priced.evidence for priced in wanted}
        self.abandons |= {priced.partition: priced.stake.abandons for priced in wanted}
        self._say_past_end([priced.target for priced in wanted], "once that is elected")
        command = GuardedCommand(act, consent, self.connection, stop=self.stop, hear=self.hear)
        command.carry_out(command.freeze(), write=True)

    def hear(self, event: ActEvent) -> None:
        """Say what an act reports; with nobody left to read it, end and let the journal speak."""
        if isinstance(event, JournalOpened) and event.path not in self.journals:
            self.journals.append(event.path)
            say(f"journal: {event.path}")
        elif isinstance(event, RescueEnded):
            self.rescued += event.results
            say_rescued(event.results)
        elif isinstance(event, OutcomesReported):
            self.outcomes += event.outcomes
            try:
                for outcome in event.outcomes:
                    aside = self.as_json or not outcome.succeeded
                    report(f"{outcome.partition}  {_words(outcome)}", aside=aside)
            except OSError:
                self.stop.requested = True

    def leave(
        self, partition: TopicPartition, result: RecoveryResult, reason: str, words: str = ""
    ) -> None:
        """Say why *partition* gets no election: its *result*, or *words* for it."""
        self.unheld.append(Skipped(partition, None, result, reason, None))
        say(f"{partition}  {words or result}: {reason}")

    def report_online(self, states: Iterable[PartitionState]) -> None:
        """Say that these partitions have leaders already."""
        for state in states:
            online = RecoveryResult.ALREADY_ONLINE
            self.unheld.append(Skipped(state.partition, None, online, "", state.leader))
            line = f"{state.partition}  already online: led by b{state.leader}"
            report(line, aside=self.as_json)

    def look_after(self) -> None:
        """Say what the elections left.

        Brokers that must not be started as they are, records that nobody reads yet (R30), open
        transactions (R18), and groups past the end (R19).
        """
        spared = given_up(self.outcomes, self.abandons)
        for broker in spared:
            say(broker.advice)
        for waiting in waits_for(self.outcomes):
            say(waiting)
        elected = [
            outcome.target for outcome in self.outcomes if outcome.result is RecoveryResult.ELECTED
        ]
        transactions = open_transactions_after(self.client, self.outcomes)
        if not isinstance(transactions, Unknown):
            for transaction in transactions:
                say(left_open_text(transaction))
        elif elected:
            say(f"open transactions are not known: {transactions.reason}")
        read = [target for target in elected if target.partition in self.evidence]
        past, unread = self._say_past_end(read, "now")
        self.aftermath = Aftermath(transactions, past, spared, unread)

    def _say_past_end(
        self, targets: Sequence[ElectionTarget], moment: str
    ) -> tuple[tuple[GroupPastEnd, ...], tuple[str, ...]]:
        found, unread = past_end(targets, self.evidence), groups_unread(targets, self.evidence)
        say_past_end(found, (reason for reason in unread if reason not in self._said), moment)
        self._said.update(unread)
        return found, unread

    def conclude(self, more: Mapping[str, object] | None = None, **head: object) -> None:
        """Say what the elections left, and print the document between *head* and *more*."""
        self.look_after()
        if self.as_json:
            left = self.aftermath
            print_json(
                {
                    **head,
                    **outcomes_document(self.cluster_id, self.outcomes, self.unheld),
                    "rescued": rescued_partitions(self.rescued),
                    "open_transactions": left.open_transactions,
                    "given_up": given_up_brokers(left.given_up),
                    "groups_past_end": left.groups_past_end,
                    "groups_unread": left.groups_unread,
                    **(more or {}),
                }
            )

    def ended(self, others: Sequence[RecoveryResult] = ()) -> int:
        """The exit code; where the elections left something, that and the next command are said.

        *others* are results of partitions that were never part of them.
        """
        code = exit_code(self.outcomes, others)
        results = {outcome.result for outcome in self.outcomes}
        if (
            self.stop.requested
            and code in (FAILED, REFUSED_BY_GUARD)
            and RecoveryResult.NOT_ATTEMPTED in results
        ):
            code = INTERRUPTED
        left = [outcome for outcome in self.outcomes if not outcome.complete]
        if left:
            words = Counter(
                "order not put back" if outcome.succeeded else str(outcome.result)
                for outcome in left
            )
            counted = ", ".join(f"{number:,} {word}" for word, number in words.most_common())
            what = f"exit {code}: {counted} of {len(self.outcomes):,}"
            say("; ".join([what, *_next_commands(left, self.journals)]))
        return code


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


def _next_commands(left: Sequence[PartitionOutcome], journals: Sequence[Path]) -> Iterator[str]:
    name = f" {journals[0]}" if len(journals) == 1 else ""
    if any(outcome.result is RecoveryResult.UNKNOWN for outcome in left):
        yield f"`breakglass journal check{name}` asks the cluster what became of it"
    if any(outcome.result is not RecoveryResult.ELECTED_ANOTHER for outcome in left):
        undo = any(outcome.order_restored is False and not outcome.succeeded for outcome in left)
        also = ", with --undo it puts orders back" if undo else ""
        yield f"`breakglass recover resume{name} --write` finishes what is left{also}"
    else:
        yield "plan again: `breakglass plan make`"


def say_rescued(results: Sequence[RescuedPartition]) -> None:
    """Say on stderr what was saved and where; the elections that are not held say what was not."""
    saved = [(result, place) for result in results for place in result.saved]
    if len(saved) <= SHOWN_PARTITIONS:
        for partition, place in saved:
            what = f"{place.records:,} records of b{place.broker}"
            say(f"{partition.partition}  rescued {what}: {place.path}")
    else:
        records = sum(result.records for result in results)
        size = sum(place.bytes for _, place in saved)
        folder = saved[0][1].path.parents[2]
        partitions = len({partition.partition for partition, _ in saved})
        say(f"rescued {records:,} records of {partitions:,} partitions, {size:,} bytes: {folder}")
