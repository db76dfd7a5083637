"""`kafka-elect-leaders`: preferred, unclean and designated elections, as Kafka's own tool has them.

Unlike that tool it shows what an election loses first, and wants `--write` and consent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console import completion
from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.evidence import say_missing_acls
from breakglass.console.guarded import GuardedCommand, say_event
from breakglass.console.option_values import broker_ids
from breakglass.console.options import (
    DURATION_MS,
    AsJson,
    Duration,
    Gone,
    VerifyContents,
    connected_for_writing,
)
from breakglass.console.output import print_json, say
from breakglass.console.rescuing import RescueChoice, RescueStore, WithoutRescue
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import RecoveryResult, Skipped
from breakglass.services.session import Effort

if TYPE_CHECKING:
    from breakglass.console.electing import Electing
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import PartitionEvidence, PartitionState
    from breakglass.services.recovery.execution.routes import RouteChoice
    from breakglass.services.recovery.execution.target import PartitionOutcome
    from breakglass.services.recovery.guarded.election_quote import Priced
    from breakglass.services.recovery.plan.partition_file import Election
    from breakglass.services.recovery.triage import Triage
    from breakglass.services.snapshot import ClusterSnapshot

app = new_app()


class ElectionChoice(StrEnum):
    """The values of `--election-type`."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"
    DESIGNATED = "designated"


@app.command()
@connected_for_writing
def leader_election(
    connection: Connection,
    election_type: Annotated[
        ElectionChoice,
        typer.Option("--election-type", case_sensitive=False, help="The election to hold."),
    ],
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(
            "--path-to-json-file",
            metavar="FILE",
            help="File of the partitions; for designated elections with a designatedLeader each.",
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="Topic of one partition; needs --partition.",
            autocompletion=completion.topics,
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", min=0, metavar="N", help="Number of the partition of --topic."),
    ] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions that need the election.")
    ] = False,
    recovery_duration_ms: Duration = DURATION_MS,
    gone: Gone = None,
    verify_contents: VerifyContents = Effort.BUDGET,
    without_rescue: WithoutRescue = False,
    store: RescueStore = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Elect leaders: preferred, unclean (by assignment order) or designated (KIP-1275).

    A preferred election changes partitions whose leader is not the preferred replica. Unclean and
    designated elections change only partitions without a leader. Before consent is asked for, the
    command shows what each election loses.
    """
    wanted = LeaderElectionRequest(
        election_type,
        path_to_json_file,
        topic,
        partition,
        all_topic_partitions,
        RescueChoice(without_rescue, store),
        broker_ids(gone, "--gone"),
        verify_contents,
        as_json,
    )
    connection.require_write(f"a {election_type.value} election")
    word = Consent(tuple(consent or ()))
    raise typer.Exit(hold(connection, wanted, recovery_duration_ms / 1000, word))


@dataclass(frozen=True, slots=True)
class LeaderElectionRequest:
    """What is to be elected, checked as Kafka's tool checks it."""

    election: ElectionChoice
    path: Path | None
    topic: str | None
    partition: int | None
    everything: bool
    rescue: RescueChoice = field(default_factory=RescueChoice)
    gone: tuple[int, ...] = ()
    """Brokers whose disks are lost."""
    contents: Effort = Effort.BUDGET
    as_json: bool = False

    def __post_init__(self) -> None:
        named = (self.path is not None, self.topic is not None, self.everything)
        if sum(named) != 1:
            raise UsageError(
                "give exactly one of --path-to-json-file, --topic with --partition, and "
                "--all-topic-partitions"
            )
        if (self.topic is None) != (self.partition is None):
            raise UsageError("--topic and --partition belong together: give both")
        if self.election is ElectionChoice.DESIGNATED and self.path is None:
            raise UsageError(
                "a designated election needs --path-to-json-file with a designatedLeader in "
                "each entry"
            )

    def elections(self) -> tuple[Election, ...] | None:
        """The partitions named, or None for all.

        Raises:
            MalformedInput: the file is not what it should be.
            UsageError: an entry of a designated election names no leader.
        """
        from breakglass.services.recovery.plan.partition_file import Election, read_elections

        if self.path is None:
            if self.topic is None or self.partition is None:
                return None
            return (Election(TopicPartition(self.topic, self.partition)),)
        read = read_elections(self.path)
        if self.election is ElectionChoice.DESIGNATED:
            for election in read:
                if election.designated is None:
                    raise UsageError(
                        f"{self.path}: {election.partition} has no designatedLeader: name one"
                    )
        return read


def hold(
    connection: Connection, wanted: LeaderElectionRequest, duration: float, consent: Consent
) -> int:
    """Hold the elections of *wanted*; returns the exit code."""
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.kafka.wire.deadline import Deadline

    elections = wanted.elections()
    topics = sorted({election.partition.topic for election in elections or ()})
    with StopSignal() as stop, connection.reading() as client:
        snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), topics)
        call = _Call(connection, client, snapshot, wanted, elections, consent, stop)
        return call.run(duration)


@dataclass(slots=True)
class _Call:
    connection: Connection
    client: ReadClient
    snapshot: ClusterSnapshot
    wanted: LeaderElectionRequest
    elections: Sequence[Election] | None
    consent: Consent
    stop: StopSignal
    unheld: list[Skipped] = field(default_factory=list)
    """Partitions for which no election was held."""

    def run(self, duration: float) -> int:
        from breakglass.services.recovery.execution.target import exit_code

        states = self._states()
        if self.wanted.election is ElectionChoice.PREFERRED:
            done = self._preferred(states)
            if self.wanted.as_json:
                from breakglass.console.documents import outcomes_document

                print_json(outcomes_document(self.snapshot.cluster_id, done, self.unheld))
            return exit_code(done, [skipped.result for skipped in self.unheld])
        electing = self._leaderless(states, duration)
        left = electing.look_after()
        if self.wanted.as_json:
            from breakglass.console.documents import election_document

            cluster_id = self.snapshot.cluster_id
            print_json(election_document(cluster_id, electing, self.unheld, left))
        return electing.ended([skipped.result for skipped in self.unheld])

    def _states(self) -> list[PartitionState]:
        if self.elections is None:
            return list(self.snapshot.partitions)
        by_name = {state.partition: state for state in self.snapshot.partitions}
        for election in self.elections:
            if election.partition not in by_name:
                self._leave(
                    election.partition, RecoveryResult.FAILED, "the cluster has no such partition"
                )
        return [
            by_name[election.partition]
            for election in self.elections
            if election.partition in by_name
        ]

    def _leaderless(self, states: Sequence[PartitionState], duration: float) -> Electing:
        """Unclean and designated elections: evidence and price first, then as any recovery."""
        from breakglass.console.electing import Electing, report, report_aside
        from breakglass.console.evidence import print_replicas
        from breakglass.services.recovery.triage import judge

        self._report_online(states)
        offline = [state for state in states if state.offline]
        choice, gone = self.connection.native_rpc, self.wanted.gone
        *_, found = judge(
            self.client,
            self.snapshot,
            offline,
            duration,
            choice,
            gone,
            contents=self.wanted.contents,
            chosen=self._chosen(),
        )
        with redirect_stdout(sys.stderr if self.wanted.as_json else sys.stdout):
            print_replicas(found)
        say_missing_acls(found)
        electing = Electing(
            self.connection,
            self.client,
            self.snapshot.cluster_id,
            self.stop,
            self._choose_route(found),
            self.wanted.rescue,
            tell=report_aside if self.wanted.as_json else report,
            native=found.native,
        )
        electing.run(list(self._priced(found)), self.consent)
        return electing

    def _chosen(self) -> Callable[[PartitionEvidence], int | None]:
        """Whom this call elects, so far as somebody can be elected."""
        from breakglass.services.recovery.judgement.succession import first_live

        leaders = {election.partition: election.designated for election in self.elections or ()}

        def leader(evidence: PartitionEvidence) -> int | None:
            designated = leaders.get(evidence.partition)
            return first_live(evidence) if designated is None else designated

        return leader

    def _choose_route(self, found: Triage) -> RouteChoice:
        from breakglass.services.recovery.execution.routes import plain_unclean_route, route_for

        if self.wanted.election is ElectionChoice.UNCLEAN:
            return plain_unclean_route
        return route_for(found.native)

    def _preferred(self, states: Sequence[PartitionState]) -> list[PartitionOutcome]:
        """Preferred elections lose nothing; they are consented to like every change."""
        from breakglass.console.electing import report, report_aside
        from breakglass.services.guard.act import ActEvent
        from breakglass.services.recovery.acts.events import OutcomesReported
        from breakglass.services.recovery.acts.preferred import ElectPreferred

        for state in states:
            if state.offline:
                reason = "it has no leader; hold another election"
                self._leave(state.partition, RecoveryResult.FAILED, reason)
        names = frozenset(state.partition for state in states)
        topics = tuple(sorted({name.topic for name in names}))

        def hear(event: ActEvent) -> None:
            if isinstance(event, OutcomesReported):
                (report_aside if self.wanted.as_json else report)(event.outcomes)
            else:
                say_event(event)

        act = ElectPreferred(topics, names)
        command = GuardedCommand(act, self.consent, self.connection, stop=self.stop, hear=hear)
        frozen = command.freeze()
        if not frozen.plan:
            say("every partition with a leader is led by its preferred replica already")
            return []
        done: list[PartitionOutcome] = command.carry_out(frozen, write=True).value
        return done

    def _report_online(self, states: Sequence[PartitionState]) -> None:
        from breakglass.console.electing import report_online

        if self.elections is None:
            return
        for state in states:
            if not state.offline:
                self.unheld.append(report_online(state, as_json=self.wanted.as_json))

    def _priced(self, found: Triage) -> Iterator[Priced]:
        """A target for each offline partition whose leader can be chosen."""
        from breakglass.services.recovery.execution.target import target_of
        from breakglass.services.recovery.guarded.election_quote import priced
        from breakglass.services.recovery.judgement.assessment import refusal
        from breakglass.services.recovery.judgement.succession import first_live

        leaders = {election.partition: election.designated for election in self.elections or ()}
        for assessment in found.assessments:
            evidence = assessment.evidence
            leader = leaders.get(assessment.partition)
            if leader is None:
                leader = first_live(evidence)
            if leader is None:
                self._leave(
                    assessment.partition, RecoveryResult.REFUSED, "no replica of it can be elected"
                )
                continue
            reason = refusal(evidence, leader)
            if reason:
                self._leave(assessment.partition, RecoveryResult.REFUSED, reason)
            else:
                target = target_of(evidence, leader, assessment.ranking)
                yield priced(evidence, target, assessment.gone)

    def _leave(self, partition: TopicPartition, result: RecoveryResult, reason: str) -> None:
        self.unheld.append(Skipped(partition, None, result, reason, None))
        say(f"{partition}  {result}: {reason}")


def main() -> int:
    """The program `kafka-elect-leaders`; returns the exit code."""
    from breakglass.console.exits import run_app

    return run_app(app, "kafka-elect-leaders")
