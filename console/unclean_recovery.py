"""`kafka-unclean-recovery`, KIP-1275's command: options, defaults, exclusions and exit as it says.

Installed under its own name, `--automated-recovery` is the consent, as the KIP has it.
As `breakglass unclean-recovery` it wants `--write` and the consent phrase too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.documents import led_partitions, triage_partitions
from breakglass.console.evidence import print_replicas, say_missing_acls
from breakglass.console.exits import FAILED, INTERRUPTED, StopSignal, run_app
from breakglass.console.option_values import Consent
from breakglass.console.options import (
    DURATION_MS,
    AsJson,
    GivenConsent,
    GoneBrokers,
    Rescue,
    ShowReplicas,
    VerifyContents,
    connected,
    connected_for_writing,
)
from breakglass.console.output import data_aside, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services.errors import OutcomeUnknown, UsageError
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.session import Effort
from breakglass.services.words.figures import partitions_text

if TYPE_CHECKING:
    from breakglass.console.electing import Electing
    from breakglass.services.model import PartitionEvidence, TopicPartition
    from breakglass.services.recovery.patient import Judging, PatientLook
    from breakglass.services.recovery.triage import Selection, Triage

app = new_app()
dropin = new_app()


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanRecoveryRequest:
    """The options of both commands, checked against each other as the KIP says."""

    recovery_duration_ms: Annotated[
        int,
        typer.Option(
            "--recovery-duration-ms",
            min=1,
            help="Time for brokers to answer, in milliseconds.",
        ),
    ] = DURATION_MS
    attempts: Annotated[
        int,
        typer.Option(
            "--recovery-election-attempts",
            min=0,
            help="Retries of an election that fails with a transient error.",
        ),
    ] = 3
    show_replica_info: ShowReplicas = False
    output: Annotated[
        Path | None,
        typer.Option(
            "--manual-recovery-output-file",
            metavar="FILE",
            help="New file for partitions and their designated leaders, for kafka-elect-leaders.",
        ),
    ] = None
    automated: Annotated[
        bool, typer.Option("--automated-recovery", help="Elect the best replica of each partition.")
    ] = False
    path: Annotated[
        Path | None,
        typer.Option(
            "--path-to-json-file", metavar="FILE", help="File of partitions, in Kafka's format."
        ),
    ] = None
    all_offline: Annotated[
        bool, typer.Option("--all-offline-partitions", help="Recover every offline partition.")
    ] = False
    rescue: Rescue
    contents: VerifyContents = Effort.BUDGET

    def __post_init__(self) -> None:
        if not (self.show_replica_info or self.output or self.automated):
            raise UsageError(
                "at least one of --show-replica-info, --manual-recovery-output-file and "
                "--automated-recovery is required"
            )
        if self.output is not None and self.automated:
            raise UsageError(
                "--manual-recovery-output-file and --automated-recovery exclude each other: "
                "give one"
            )
        if self.output is not None and self.output.exists():
            raise UsageError(f"{self.output} exists and is not overwritten: name a new file")
        if (self.path is None) == (not self.all_offline):
            raise UsageError(
                "exactly one of --path-to-json-file and --all-offline-partitions is required"
            )


@app.command()
@connected_for_writing
def unclean_recovery(
    connection: Connection,
    *,
    wanted: UncleanRecoveryRequest,
    gone: GoneBrokers,
    consent: GivenConsent,
    as_json: AsJson = False,
) -> None:
    """Recover offline partitions by designated elections (KIP-1275), with safeguards.

    The options are those of the tool kafka-unclean-recovery, for which --automated-recovery is the
    consent. Here it also needs --write and your consent.

    A partition with the verdict FORK, BOMB or STUCK is left to the operator, and so is one with a
    reason against an unattended election. `breakglass triage` says what to do first. To choose
    the leader of such a partition yourself once nothing prevents its election, write it as the
    designatedLeader of the partition in FILE, and run `breakglass leader-election
    --election-type designated --path-to-json-file FILE`.
    """
    if wanted.automated:
        connection.require_write("--automated-recovery")
    raise typer.Exit(recover(connection, wanted, consent, gone, as_json=as_json))


@dropin.command()
@connected
def kafka_unclean_recovery(connection: Connection, wanted: UncleanRecoveryRequest) -> None:
    """Recover offline partitions by electing the replicas with the best logs (KIP-1275).

    At least one of --show-replica-info, --manual-recovery-output-file and --automated-recovery is
    required, and exactly one of --path-to-json-file and --all-offline-partitions.
    --automated-recovery is the consent. A broker that reports its log after --recovery-duration-ms
    is not elected.

    A partition with the verdict FORK, BOMB or STUCK is left to the operator, and so is one with a
    reason against an unattended election. `breakglass triage` says what to do first. To elect a
    leader all the same, name it as its designatedLeader in a file, and give that to
    kafka-elect-leaders --election-type DESIGNATED --path-to-json-file FILE.
    """
    armed = connection.armed() if wanted.automated else connection
    raise typer.Exit(recover(armed, wanted, Consent(implied=True)))


def recover(
    connection: Connection,
    wanted: UncleanRecoveryRequest,
    consent: Consent,
    gone: tuple[int, ...] = (),
    *,
    as_json: bool = False,
) -> int:
    """Carry out one call; the KIP's own command knows no brokers that are *gone*.

    Returns the exit code.
    """
    from breakglass.console.electing import Electing
    from breakglass.services.recovery.execution.steps import ExecutionLimits, stock_route
    from breakglass.services.recovery.plan.partition_file import read_partitions
    from breakglass.services.recovery.triage import judge, select

    named = None if wanted.path is None else read_partitions(wanted.path)
    with StopSignal() as stop, connection.reading() as client:
        selection = select(client, named)
        electing = Electing(
            connection,
            client,
            selection.snapshot.cluster_id,
            stop,
            stock_route,
            wanted.rescue,
            ExecutionLimits(retries=wanted.attempts),
            as_json,
        )
        judge_now = partial(
            judge,
            client,
            native_choice=connection.native_rpc,
            gone=gone,
            stop=lambda: stop.requested,
            contents=wanted.contents,
        )
        return _Call(electing, wanted, selection, consent, judge_now).run()


@dataclass(slots=True)
class _Call:
    electing: Electing
    wanted: UncleanRecoveryRequest
    selection: Selection
    consent: Consent
    judge: Judging
    dealt_with: set[TopicPartition] = field(default_factory=set)

    def run(self) -> int:
        electing, wanted, stop = self.electing, self.wanted, self.electing.stop
        electing.report_online(self.selection.online)
        for partition in self.selection.missing:
            reason = "the cluster has no such partition"
            electing.leave(partition, RecoveryResult.FAILED, reason)
        whole: Triage | None = None
        """The judgement of every partition; later ones are of those that were waited for."""
        for look in self._looks():
            if whole is None or not whole.final:
                whole = look.found
                if whole.final:
                    say_missing_acls(whole)
                    for broker, number in look.brokers.items() if look.waiting else ():
                        say(
                            f"waiting for b{broker} until it is back or the recovery duration has "
                            f"passed ({partitions_text(number)})"
                        )
            self._report_return(look)
            if wanted.automated and (self.consent.implied or look.found.final):
                self._elect_complete(look)
            if stop.requested:
                break
        if stop.requested:
            # Name what a signal left undone: success means every partition (KIP-1275).
            for state in self.selection.offline:
                if state.partition not in self.dealt_with:
                    result = RecoveryResult.NOT_ATTEMPTED
                    electing.leave(state.partition, result, "stopped on request")
        shown: dict[str, object] = {}
        if whole is not None:
            if wanted.show_replica_info:
                shown = self._show_all(whole)
            if wanted.output is not None:
                self._write(whole, wanted.output)
        electing.conclude(shown)
        code = electing.ended()
        if code == OutcomeUnknown.exit_code or all(one.succeeded for one in electing.unheld):
            return code
        return INTERRUPTED if stop.requested else FAILED

    def _looks(self) -> Iterator[PatientLook]:
        """What is judged; where nobody agrees to a phrase that names whom it gives up, patiently.

        An operator who reads WAIT decides; the drop-in decides alone, and waits for the duration.
        """
        from breakglass.services.recovery.patient import PatientLook, judge_patiently

        snapshot, offline = self.selection.snapshot, self.selection.offline
        seconds, stop = self.wanted.recovery_duration_ms / 1000, self.electing.stop
        if self.wanted.automated and self.consent.implied:
            client = self.electing.client
            return judge_patiently(
                self.judge, client, snapshot, offline, seconds, stop=lambda: stop.requested
            )
        return map(PatientLook, self.judge(snapshot, offline, seconds))

    def _report_return(self, look: PatientLook) -> None:
        """Name the brokers that came back, and those that are waited for no longer."""
        self.dealt_with.update(state.partition for state in look.led)
        self.electing.report_online(look.led)
        if look.found.final and not look.waiting:
            for broker, number in look.brokers.items():
                say(
                    f"b{broker} is not back and the recovery duration has passed: not waited for "
                    f"any longer ({partitions_text(number)})"
                )

    def _elect_complete(self, look: PatientLook) -> None:
        """Elect what is complete now (R15) and waits for nobody; the rest keeps waiting."""
        from breakglass.services.recovery.execution.steps import route_for
        from breakglass.services.recovery.guarded.subject import priced_as_judged
        from breakglass.services.recovery.triage import recommended

        found = look.found
        choice = recommended(found, self.dealt_with | look.waiting)
        self.dealt_with.update(choice.partitions)
        for left in choice.left:
            self.electing.leave(
                left.partition, RecoveryResult.REFUSED, left.reason, "not automated"
            )
        if not self.consent.implied:
            self._print_replicas(found)
        self.electing.choose_route = route_for(found.native)
        judged = {assessment.partition: assessment for assessment in found.assessments}
        quotes = [priced_as_judged(judged[target.partition], target) for target in choice.targets]
        self.electing.run(quotes, self.consent)

    def _show_all(self, found: Triage) -> dict[str, object]:
        """Show every replica, also of partitions that have a leader; all as parts of a document."""
        from breakglass.services.recovery.evidence.gather import gather

        electing, stop = self.electing, self.electing.stop
        *_, last = gather(
            electing.client,
            self.selection.snapshot,
            self.selection.online,
            deadline_after(self.wanted.recovery_duration_ms / 1000),
            found.native,
            lambda: stop.requested,
        )
        self._print_replicas(found, last.partitions)
        if not electing.as_json:
            return {}
        evidence = list(triage_partitions(found))
        return {"evidence": evidence, "led": led_partitions(last.partitions)}

    def _print_replicas(self, found: Triage, led: Sequence[PartitionEvidence] = ()) -> None:
        with data_aside(self.electing.as_json):
            print_replicas(found, led)

    def _write(self, found: Triage, path: Path) -> None:
        """Write the designated leaders; never over an existing file."""
        from breakglass.services.recovery.plan.partition_file import Election, write_elections

        chosen = [assessment for assessment in found.assessments if assessment.designee is not None]
        # Its own reader, as Kafka's, refuses an empty list.
        if chosen:
            write_elections(
                [Election(assessment.partition, assessment.designee) for assessment in chosen], path
            )
        for assessment in found.assessments:
            partition = assessment.partition
            if assessment.designee is None:
                reason = "; ".join(assessment.reasons)
                refused = RecoveryResult.REFUSED
                self.electing.leave(partition, refused, reason, "no leader can be named")
            elif not assessment.automatable:
                say(f"{partition}  review this one: {'; '.join(assessment.barriers)}")
        if chosen:
            say(f"{len(chosen):,} partitions written to {path}")
        else:
            say(f"{path} was not written: the list would be empty")


def main() -> int:
    """The program `kafka-unclean-recovery`; returns the exit code."""
    return run_app(dropin, "kafka-unclean-recovery")
