"""`kafka-unclean-recovery`, KIP-1275's command: options, defaults, exclusions and exit as it says.

Installed under its own name, `--automated-recovery` is the consent, as the KIP has it.
As `breakglass unclean-recovery` it wants `--write` and the consent phrase too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.evidence import say_missing_acls
from breakglass.console.exits import FAILED, INTERRUPTED
from breakglass.console.option_values import broker_ids
from breakglass.console.options import Gone, VerifyContents, connected, connected_for_writing
from breakglass.console.output import say
from breakglass.console.rescuing import RescueChoice, RescueTo, WithoutRescue
from breakglass.console.wiring import Connection
from breakglass.services.contents_effort import Effort
from breakglass.services.errors import UsageError
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.console.electing import Electing
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.choice import TargetChoice
    from breakglass.services.recovery.guarded.election_quote import Priced
    from breakglass.services.recovery.selection import Selection
    from breakglass.services.recovery.triage import Triage

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
        help="A broker must tell its log within this time to be a candidate.",
    ),
]
Attempts = Annotated[
    int,
    typer.Option(
        "--recovery-election-attempts", min=0, help="Retries of transient election failures."
    ),
]
Show = Annotated[bool, typer.Option("--show-replica-info", help="Print what every replica holds.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--manual-recovery-output-file",
        metavar="FILE",
        help="Write partitions and designated leaders to a new file for kafka-elect-leaders.",
    ),
]
Automated = Annotated[
    bool, typer.Option("--automated-recovery", help="Elect the best replica of each partition.")
]
PathToJson = Annotated[
    Path | None,
    typer.Option("--path-to-json-file", metavar="FILE", help="Recover the partitions of a file."),
]
AllOffline = Annotated[
    bool, typer.Option("--all-offline-partitions", help="Recover every offline partition.")
]


@app.command()
@connected_for_writing
def unclean_recovery(
    connection: Connection,
    recovery_duration_ms: Duration = DURATION_MS,
    recovery_election_attempts: Attempts = ATTEMPTS,
    show_replica_info: Show = False,
    manual_recovery_output_file: Output = None,
    automated_recovery: Automated = False,
    path_to_json_file: PathToJson = None,
    all_offline_partitions: AllOffline = False,
    gone: Gone = None,
    without_rescue: WithoutRescue = False,
    rescue_to: RescueTo = None,
    verify_contents: VerifyContents = Effort.BUDGET,
    consent: Phrases = None,
) -> None:
    """Recover offline partitions by designated elections (KIP-1275), guarded.

    The options are those of kafka-unclean-recovery. --automated-recovery also needs --write
    and your consent.
    """
    wanted = UncleanRecoveryRequest(
        recovery_duration_ms,
        recovery_election_attempts,
        show_replica_info,
        manual_recovery_output_file,
        automated_recovery,
        path_to_json_file,
        all_offline_partitions,
        RescueChoice(without_rescue, rescue_to),
        verify_contents,
        broker_ids(gone, "--gone"),
    )
    if automated_recovery:
        connection.require_write("--automated-recovery")
    word = Consent(tuple(consent or ()))
    raise typer.Exit(recover(connection, wanted, word))


@dropin.command()
@connected
def kafka_unclean_recovery(
    connection: Connection,
    recovery_duration_ms: Duration = DURATION_MS,
    recovery_election_attempts: Attempts = ATTEMPTS,
    show_replica_info: Show = False,
    manual_recovery_output_file: Output = None,
    automated_recovery: Automated = False,
    path_to_json_file: PathToJson = None,
    all_offline_partitions: AllOffline = False,
    without_rescue: WithoutRescue = False,
    rescue_to: RescueTo = None,
    verify_contents: VerifyContents = Effort.BUDGET,
) -> None:
    """Recover offline partitions by electing the replicas with the best logs (KIP-1275).

    At least one of --show-replica-info, --manual-recovery-output-file and
    --automated-recovery, and exactly one of --path-to-json-file and --all-offline-partitions.
    --automated-recovery is the consent.
    """
    wanted = UncleanRecoveryRequest(
        recovery_duration_ms,
        recovery_election_attempts,
        show_replica_info,
        manual_recovery_output_file,
        automated_recovery,
        path_to_json_file,
        all_offline_partitions,
        RescueChoice(without_rescue, rescue_to),
        verify_contents,
    )
    armed = connection.armed() if automated_recovery else connection
    raise typer.Exit(recover(armed, wanted, Consent(implied=True)))


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


def recover(connection: Connection, wanted: UncleanRecoveryRequest, consent: Consent) -> int:
    """Carry out one call; returns the exit code."""
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.recovery.plan.partition_file import read_partitions
    from breakglass.services.recovery.selection import select

    named = None if wanted.path is None else read_partitions(wanted.path)
    with StopSignal() as stop, connection.reading() as client:
        selection = select(client, named)
        call = _Call(connection, client, wanted, selection, stop, consent)
        return call.run()


@dataclass(slots=True)
class _Call:
    """One call under way."""

    connection: Connection
    client: ReadClient
    wanted: UncleanRecoveryRequest
    selection: Selection
    stop: StopSignal
    consent: Consent
    failures: int = 0

    def run(self) -> int:
        """Judge, show, write or elect; returns the exit code."""
        self._report_selection()
        electing = self._electing()
        dealt_with: set[TopicPartition] = set()
        last: Triage | None = None
        for last in self._judge():
            if last.final:
                say_missing_acls(last)
            if self.wanted.automated and (self.consent.implied or last.final):
                self._elect_complete(last, electing, dealt_with)
            if self.stop.requested:
                break
        if self.stop.requested:
            self._report_left(dealt_with)
        if last is not None:
            self._finish(last)
        electing.look_after()
        code = electing.ended()
        if code == OUTCOME_UNKNOWN or not self.failures:
            return code
        return INTERRUPTED if self.stop.requested else FAILED

    def _judge(self) -> Any:
        from breakglass.services.recovery.triage import judge

        return judge(
            self.client,
            self.selection.snapshot,
            self.selection.offline,
            self.wanted.recovery_duration_ms / 1000,
            self.connection.native_rpc,
            self.wanted.gone,
            stop=lambda: self.stop.requested,
            contents=self.wanted.contents,
        )

    def _report_left(self, dealt_with: set[TopicPartition]) -> None:
        """Name what a signal left undone: success means every partition (KIP-1275)."""
        for state in self.selection.offline:
            if state.partition not in dealt_with:
                self._fail(f"{state.partition}  not attempted: stopped on request")

    def _electing(self) -> Electing:
        from breakglass.console.electing import Electing
        from breakglass.services.recovery.execution.limits import ExecutionLimits
        from breakglass.services.recovery.execution.routes import stock_route

        return Electing(
            self.connection,
            self.client,
            self.selection.snapshot.cluster_id,
            self.stop,
            stock_route,
            self.wanted.rescue,
            limits=ExecutionLimits(retries=self.wanted.recovery_election_attempts),
        )

    def _report_selection(self) -> None:
        for state in self.selection.online:
            print(inert(f"{state.partition}  already online: led by b{state.leader}"))
        for partition in self.selection.missing:
            self._fail(f"{partition}  failed: the cluster has no such partition")

    def _elect_complete(
        self, found: Triage, electing: Electing, dealt_with: set[TopicPartition]
    ) -> None:
        """Elect what is complete now (R15); the rest goes on waiting."""
        from breakglass.services.recovery.choice import recommended
        from breakglass.services.recovery.execution.routes import route_for

        choice = recommended(found, dealt_with)
        dealt_with.update(choice.partitions)
        for left in choice.left:
            self._fail(f"{left.partition}  not automated: {left.reason}")
        if not self.consent.implied:
            self._show(found)
        electing.choose_route = route_for(found.native)
        electing.run(_priced(found, choice), self.consent)

    def _finish(self, last: Triage) -> None:
        if self.wanted.show_replica_info:
            self._show(last)
        if self.wanted.output is not None:
            self._write(last, self.wanted.output)

    def _show(self, found: Triage) -> None:
        from breakglass.console.replica_table import print_replicas

        print_replicas(found)

    def _write(self, found: Triage, path: Path) -> None:
        """Write the designated leaders; never over an existing file."""
        from breakglass.services.recovery.plan.elections_file import write_elections
        from breakglass.services.recovery.plan.partition_file import Election

        chosen = [one for one in found.assessments if one.designee is not None]
        write_elections([Election(one.partition, one.designee) for one in chosen], path)
        for one in found.assessments:
            if one.designee is None:
                self._fail(f"{one.partition}  no leader can be named: {'; '.join(one.reasons)}")
            elif not one.automatable:
                say(f"{one.partition}  review this one: {'; '.join(one.barriers)}")
        say(f"{len(chosen):,} partitions written to {path}")

    def _fail(self, line: str) -> None:
        self.failures += 1
        say(line)


def _priced(found: Triage, choice: TargetChoice) -> list[Priced]:
    from breakglass.services.recovery.guarded.election_quote import priced_as_judged

    judged = {one.partition: one for one in found.assessments}
    return [priced_as_judged(judged[target.partition], target) for target in choice.targets]


def main() -> int:
    """The program `kafka-unclean-recovery`; returns the exit code."""
    from breakglass.console.exits import run_app

    return run_app(dropin, "kafka-unclean-recovery")
