"""What every electing command does once it knows its targets: consent, journal, run, report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.consent import Consent
from console.offsets import count
from console.output import inert, say
from console.stop_signal import StopSignal
from console.wiring import Connection
from services.consent import Price, consent_phrase, total_price
from services.recovery.execution.routes import RouteChoice
from services.recovery.execution.run import Limits
from services.recovery.execution.target import Outcome, Result, Target, exit_code
from services.recovery.loss import loss_of
from services.recovery.recover import Recovery, Rescue, nothing_rescued, open_transactions_after
from services.recovery.replica_choice import own_consent

if TYPE_CHECKING:
    from services.kafka.read_client import ReadClient
    from services.model import PartitionEvidence


@dataclass(frozen=True, slots=True)
class Priced:
    """A target with what electing it loses."""

    target: Target
    price: Price
    alone_because: str = ""
    """Why it is consented to on its own (internal topic, loss unknown); empty for the bulk."""


def priced(evidence: PartitionEvidence, target: Target) -> Priced:
    """*target* with its price, and whether it needs a consent of its own."""
    loss = loss_of(evidence, target.designee)
    return Priced(
        target,
        Price(loss.total, loss.approximate),
        own_consent(evidence, target.designee),
    )


def consent_groups(wanted: Sequence[Priced]) -> list[list[Priced]]:
    """Those that need their own consent one by one, then the rest together."""
    alone = [[one] for one in wanted if one.alone_because]
    bulk = [one for one in wanted if not one.alone_because]
    return [*alone, bulk] if bulk else alone


def phrase_of(group: Sequence[Priced]) -> str:
    """What an operator types for one group."""
    price = total_price([one.price for one in group])
    return consent_phrase([one.target.partition for one in group], price)


@dataclass(slots=True)
class Electing:
    """One armed command: its journal is opened with the first target, its outcomes collected."""

    connection: Connection
    client: ReadClient
    cluster_id: str
    stop: StopSignal
    choose_route: RouteChoice
    rescue: Rescue = nothing_rescued
    limits: Limits = field(default_factory=Limits)
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, wanted: Sequence[Priced], consent: Consent, digest: str = "") -> None:
        """Elect *wanted*, after consent; prints each batch as it ends.

        Raises:
            ReadOnly: `--write` is missing.
            ConsentMissing: the phrase was not given.
            AlreadyRunning: somebody else changes this cluster from here.
        """
        if not wanted:
            return
        doing = "electing leaders"
        self.connection.require_write(doing)
        phrases = consent.require([phrase_of(group) for group in consent_groups(wanted)])
        from services.journal import Journal

        with Journal.open(self.cluster_id) as journal, self.connection.arm(doing) as armed:
            self.stop.armed()
            journal.plan(digest, "", {one.target.partition: _planned(one) for one in wanted})
            for phrase in phrases:
                journal.consent(phrase, implied=consent.implied)
            say(f"journal: {journal.path}")
            recovery = Recovery(
                self.client,
                armed,
                journal,
                self.choose_route,
                self.rescue,
                self.limits,
                lambda: self.stop.requested,
            )
            ended = [
                outcome
                for batch in recovery.run([one.target for one in wanted])
                for outcome in report(batch)
            ]
            self.outcomes += ended
            journal.finish("succeeded" if all(one.succeeded for one in ended) else "partly failed")

    @property
    def exit_code(self) -> int:
        """What the outcomes so far amount to."""
        return exit_code(self.outcomes)

    def look_after(self) -> None:
        """Say what recovery has left behind: open transactions (R18)."""
        left = open_transactions_after(self.client, self.outcomes)
        if not isinstance(left, tuple):
            if any(one.result is Result.ELECTED for one in self.outcomes):
                say(f"open transactions are not known: {left.reason}")
            return
        for one in left:
            kind = "hanging" if one.hanging is True else "open"
            say(
                f"{one.partition}: {kind} transaction of producer {one.producer_id} since offset "
                f"{one.start_offset:,}: read_committed consumers stop there; abort it with "
                "kafka-transactions.sh abort"
            )


def report(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Print *outcomes*: successes on stdout, the others on stderr; returns them."""
    told = list(outcomes)
    for one in told:
        line = f"{one.partition}  {_words(one)}"
        if one.succeeded:
            print(inert(line), flush=True)
        else:
            say(line)
    return told


def _words(one: Outcome) -> str:
    if one.result is Result.ELECTED:
        kept = {True: "", False: ", assignment order not put back", None: ""}[one.order_restored]
        return f"elected b{one.leader} (epoch {count(one.leader_epoch)}), {one.rung}{kept}"
    reason = f": {one.reason}" if one.reason else ""
    return f"{one.result}{reason}"


def _planned(one: Priced) -> dict[str, object]:
    return {
        "designee": one.target.designee,
        "log_end": one.target.log_end,
        "leader_epoch": one.target.leader_epoch,
        "price": str(one.price),
    }
