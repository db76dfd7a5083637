"""`kafka-unclean-recovery`, KIP-1275's command: options, defaults, exclusions and exit as it says.

Installed under its own name, `--automated-recovery` is the consent, as the KIP has it.
As `breakglass unclean-recovery` it wants `--write` and the consent phrase too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.evidence import say_missing_acls
from breakglass.console.exits import FAILED, INTERRUPTED
from breakglass.console.option_values import broker_ids
from breakglass.console.options import (
    AsJson,
    Gone,
    VerifyContents,
    connected,
    connected_for_writing,
    sharing,
)
from breakglass.console.output import print_json, say
from breakglass.console.rescuing import RescueChoice, RescueStore, WithoutRescue
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.recovery.execution.target import RecoveryResult, Skipped
from breakglass.services.session import Effort
from breakglass.services.words.figures import partitions_text

if TYPE_CHECKING:
    from breakglass.console.electing import Electing
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition
    from breakglass.services.recovery.guarded.election_quote import Priced
    from breakglass.services.recovery.patient import PatientLook
    from breakglass.services.recovery.triage import Selection, TargetChoice, Triage
    from breakglass.services.snapshot import ClusterSnapshot

app = new_app()
dropin = new_app()

OUTCOME_UNKNOWN = 4
DURATION_MS = 30_000
ATTEMPTS = 3

Duration = Annotated[
    int,
    typer.Option(
        "--recovery-duration-ms",
        min=1,
        help="Time for brokers to report their logs, in milliseconds; a broker that reports "
        "later is not elected.",
    ),
]
Attempts = Annotated[
    int,
    typer.Option(
        "--recovery-election-attempts",
        min=0,
        help="Retries of an election that fails with a transient error.",
    ),
]
Show = Annotated[bool, typer.Option("--show-replica-info", help="Print what every replica holds.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--manual-recovery-output-file",
        metavar="FILE",
        help="New file for partitions and their designated leaders, for kafka-elect-leaders.",
    ),
]
Automated = Annotated[
    bool, typer.Option("--automated-recovery", help="Elect the best replica of each partition.")
]
PathToJson = Annotated[
    Path | None,
    typer.Option(
        "--path-to-json-file", metavar="FILE", help="Recover the partitions that a file names."
    ),
]
AllOffline = Annotated[
    bool, typer.Option("--all-offline-partitions", help="Recover every offline partition.")
]


@dataclass(frozen=True, slots=True)
class UncleanRecoveryRequest:
    """The options of one call, checked against each other as the KIP says."""

    recovery_duration_ms: int
    recovery_election_attempts: int
    show_replica_info: bool
    output: Path | None
    automated: bool
    path: Path | None
    all_offline: bool
    rescue: RescueChoice
    contents: Effort = Effort.BUDGET
    gone: tuple[int, ...] = ()
    """Brokers whose disks are lost; the KIP's own command knows none."""
    as_json: bool = False

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


def kips_options(
    recovery_duration_ms: Duration = DURATION_MS,
    recovery_election_attempts: Attempts = ATTEMPTS,
    show_replica_info: Show = False,
    manual_recovery_output_file: Output = None,
    automated_recovery: Automated = False,
    path_to_json_file: PathToJson = None,
    all_offline_partitions: AllOffline = False,
    without_rescue: WithoutRescue = False,
    store: RescueStore = None,
    verify_contents: VerifyContents = Effort.BUDGET,
) -> UncleanRecoveryRequest:
    """The options of both commands."""
    return UncleanRecoveryRequest(
        recovery_duration_ms,
        recovery_election_attempts,
        show_replica_info,
        manual_recovery_output_file,
        automated_recovery,
        path_to_json_file,
        all_offline_partitions,
        RescueChoice(without_rescue, store),
        verify_contents,
    )


@app.command()
@connected_for_writing
@sharing(kips_options)
def unclean_recovery(
    wanted: UncleanRecoveryRequest,
    connection: Connection,
    gone: Gone = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Recover offline partitions by designated elections (KIP-1275), under guard.

    The options are those of KIP-1275's kafka-unclean-recovery. --automated-recovery also needs
    --write and your consent.
    """
    if wanted.automated:
        connection.require_write("--automated-recovery")
    request = replace(wanted, gone=broker_ids(gone, "--gone"), as_json=as_json)
    raise typer.Exit(recover(connection, request, Consent(tuple(consent or ()))))


@dropin.command()
@connected
@sharing(kips_options)
def kafka_unclean_recovery(wanted: UncleanRecoveryRequest, connection: Connection) -> None:
    """Recover offline partitions by electing the replicas with the best logs (KIP-1275).

    At least one of --show-replica-info, --manual-recovery-output-file and --automated-recovery is
    required, and exactly one of --path-to-json-file and --all-offline-partitions.
    --automated-recovery is the consent.
    """
    armed = connection.armed() if wanted.automated else connection
    raise typer.Exit(recover(armed, wanted, Consent(implied=True)))


def recover(connection: Connection, wanted: UncleanRecoveryRequest, consent: Consent) -> int:
    """Carry out one call; returns the exit code."""
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.recovery.plan.partition_file import read_partitions
    from breakglass.services.recovery.triage import select

    named = None if wanted.path is None else read_partitions(wanted.path)
    with StopSignal() as stop, connection.reading() as client:
        selection = select(client, named)
        call = _Call(connection, client, wanted, selection, stop, consent)
        return call.run()


@dataclass(slots=True)
class _Call:
    connection: Connection
    client: ReadClient
    wanted: UncleanRecoveryRequest
    selection: Selection
    stop: StopSignal
    consent: Consent
    failures: int = 0
    unheld: list[Skipped] = field(default_factory=list)
    """Partitions for which no election was held."""
    led: Sequence[PartitionEvidence] = ()
    """Targeted partitions that have a leader, where their replicas are to be shown."""

    def run(self) -> int:
        self._report_selection()
        from breakglass.console.electing import Electing, report, report_aside
        from breakglass.services.recovery.execution.batches import ExecutionLimits
        from breakglass.services.recovery.execution.routes import stock_route

        electing = Electing(
            self.connection,
            self.client,
            self.selection.snapshot.cluster_id,
            self.stop,
            stock_route,
            self.wanted.rescue,
            limits=ExecutionLimits(retries=self.wanted.recovery_election_attempts),
            tell=report_aside if self.wanted.as_json else report,
        )
        dealt_with: set[TopicPartition] = set()
        whole: Triage | None = None
        """The judgement of every partition; later ones are of those that were waited for."""
        for look in self._looks():
            found = look.found
            if whole is None or not whole.final:
                whole = found
                if found.final:
                    say_missing_acls(found)
                    for broker, number in look.brokers.items() if look.waiting else ():
                        say(
                            f"waiting for b{broker} until it is back or the recovery duration has "
                            f"passed ({partitions_text(number)})"
                        )
            self._report_return(look, dealt_with)
            if self.wanted.automated and (self.consent.implied or found.final):
                self._elect_complete(look, electing, dealt_with)
            if self.stop.requested:
                break
        if self.stop.requested:
            # Name what a signal left undone: success means every partition (KIP-1275).
            for state in self.selection.offline:
                if state.partition not in dealt_with:
                    self._leave(state.partition, RecoveryResult.NOT_ATTEMPTED, "stopped on request")
        if whole is not None:
            if self.wanted.show_replica_info:
                from breakglass.services.kafka.wire.deadline import Deadline
                from breakglass.services.recovery.evidence.gather import gather

                deadline = Deadline.after(self.wanted.recovery_duration_ms / 1000)
                *_, last = gather(
                    self.client,
                    self.selection.snapshot,
                    self.selection.online,
                    deadline,
                    whole.native,
                    lambda: self.stop.requested,
                )
                self.led = last.partitions
                self._show(whole, self.led)
            if self.wanted.output is not None:
                self._write(whole, self.wanted.output)
        left = electing.look_after()
        if self.wanted.as_json:
            from breakglass.console.documents import (
                election_document,
                led_partitions,
                triage_partitions,
            )

            cluster_id = self.selection.snapshot.cluster_id
            document = election_document(cluster_id, electing, self.unheld, left)
            if self.wanted.show_replica_info and whole is not None:
                document["evidence"] = list(triage_partitions(whole))
                document["led"] = led_partitions(self.led)
            print_json(document)
        code = electing.ended()
        if code == OUTCOME_UNKNOWN or not self.failures:
            return code
        return INTERRUPTED if self.stop.requested else FAILED

    def _looks(self) -> Iterator[PatientLook]:
        """What is judged; where nobody agrees to a phrase that names whom it gives up, patiently.

        An operator who reads WAIT decides; the drop-in decides alone, and waits for the duration.
        """
        from breakglass.services.recovery.patient import PatientLook, judge_patiently

        snapshot, offline = self.selection.snapshot, self.selection.offline
        seconds = self.wanted.recovery_duration_ms / 1000
        if self.wanted.automated and self.consent.implied:
            return judge_patiently(
                self._judge,
                self.client,
                snapshot,
                offline,
                seconds,
                stop=lambda: self.stop.requested,
            )
        return map(PatientLook, self._judge(snapshot, offline, seconds))

    def _judge(
        self, snapshot: ClusterSnapshot, partitions: Sequence[PartitionState], seconds: float
    ) -> Iterator[Triage]:
        from breakglass.services.recovery.triage import judge

        return judge(
            self.client,
            snapshot,
            partitions,
            seconds,
            self.connection.native_rpc,
            self.wanted.gone,
            stop=lambda: self.stop.requested,
            contents=self.wanted.contents,
        )

    def _report_return(self, look: PatientLook, dealt_with: set[TopicPartition]) -> None:
        """Name the brokers that came back, and those that are waited for no longer."""
        for state in look.led:
            dealt_with.add(state.partition)
            self._report_online(state)
        if look.found.final and not look.waiting:
            for broker, number in look.brokers.items():
                say(
                    f"b{broker} is not back and the recovery duration has passed: not waited for "
                    f"any longer ({partitions_text(number)})"
                )

    def _report_selection(self) -> None:
        for state in self.selection.online:
            self._report_online(state)
        for partition in self.selection.missing:
            self._leave(partition, RecoveryResult.FAILED, "the cluster has no such partition")

    def _report_online(self, state: PartitionState) -> None:
        from breakglass.console.electing import report_online

        self.unheld.append(report_online(state, as_json=self.wanted.as_json))

    def _elect_complete(
        self, look: PatientLook, electing: Electing, dealt_with: set[TopicPartition]
    ) -> None:
        """Elect what is complete now (R15) and waits for nobody; the rest keeps waiting."""
        from breakglass.services.recovery.execution.routes import route_for
        from breakglass.services.recovery.triage import recommended

        found = look.found
        choice = recommended(found, dealt_with | look.waiting)
        dealt_with.update(choice.partitions)
        for left in choice.left:
            self._leave(left.partition, RecoveryResult.REFUSED, left.reason, "not automated")
        if not self.consent.implied:
            self._show(found)
        electing.choose_route = route_for(found.native)
        electing.run(_priced(found, choice), self.consent)

    def _show(self, found: Triage, led: Sequence[PartitionEvidence] = ()) -> None:
        from breakglass.console.evidence import print_replicas

        with redirect_stdout(sys.stderr if self.wanted.as_json else sys.stdout):
            print_replicas(found, led)

    def _write(self, found: Triage, path: Path) -> None:
        """Write the designated leaders; never over an existing file."""
        from breakglass.services.recovery.plan.partition_file import Election, write_elections

        chosen = [assessment for assessment in found.assessments if assessment.designee is not None]
        write_elections(
            [Election(assessment.partition, assessment.designee) for assessment in chosen], path
        )
        for assessment in found.assessments:
            if assessment.designee is None:
                reason = "; ".join(assessment.reasons)
                self._leave(
                    assessment.partition, RecoveryResult.REFUSED, reason, "no leader can be named"
                )
            elif not assessment.automatable:
                say(f"{assessment.partition}  review this one: {'; '.join(assessment.barriers)}")
        say(f"{len(chosen):,} partitions written to {path}")

    def _leave(
        self, partition: TopicPartition, result: RecoveryResult, reason: str, words: str = ""
    ) -> None:
        self.unheld.append(Skipped(partition, None, result, reason, None))
        self.failures += 1
        say(f"{partition}  {words or result}: {reason}")


def _priced(found: Triage, choice: TargetChoice) -> list[Priced]:
    from breakglass.services.recovery.guarded.election_quote import priced_as_judged

    judged = {assessment.partition: assessment for assessment in found.assessments}
    return [priced_as_judged(judged[target.partition], target) for target in choice.targets]


def main() -> int:
    """The program `kafka-unclean-recovery`; returns the exit code."""
    from breakglass.console.exits import run_app

    return run_app(dropin, "kafka-unclean-recovery")
