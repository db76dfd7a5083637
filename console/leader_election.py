"""`kafka-elect-leaders`: preferred, unclean and designated elections, as Kafka's own tool has them.

Unlike that tool it shows what an election loses first, and wants `--write` and consent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console import completion
from breakglass.console.commands import new_app
from breakglass.console.documents import outcomes_document
from breakglass.console.evidence import print_replicas, say_missing_acls
from breakglass.console.exits import StopSignal, run_app
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import Consent
from breakglass.console.options import (
    AsJson,
    GivenConsent,
    GoneBrokers,
    KipSeconds,
    Rescue,
    VerifyContents,
    connected_for_writing,
)
from breakglass.console.output import data_aside, print_json, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import RecoveryResult, exit_code, target_of
from breakglass.services.recovery.judgement.assessment import refusal
from breakglass.services.recovery.judgement.succession import first_live
from breakglass.services.session import Effort

if TYPE_CHECKING:
    from breakglass.console.electing import Electing
    from breakglass.services.model import PartitionEvidence, PartitionState
    from breakglass.services.recovery.plan.partition_file import Election
    from breakglass.services.snapshot import ClusterSnapshot

app = new_app()


class ElectionChoice(StrEnum):
    """The values of `--election-type`."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"
    DESIGNATED = "designated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionRequest:
    """What is to be elected, checked as Kafka's tool checks it."""

    election: Annotated[
        ElectionChoice,
        typer.Option("--election-type", case_sensitive=False, help="The election to hold."),
    ]
    path: Annotated[
        Path | None,
        typer.Option(
            "--path-to-json-file",
            metavar="FILE",
            help="File of partitions, in Kafka's format.",
        ),
    ] = None
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="Topic of one partition; needs --partition.",
            autocompletion=completion.topics,
        ),
    ] = None
    partition: Annotated[
        int | None,
        typer.Option("--partition", min=0, metavar="N", help="Number of the partition."),
    ] = None
    everything: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions that need the election.")
    ] = False
    duration: KipSeconds
    gone: GoneBrokers
    contents: VerifyContents = Effort.BUDGET
    rescue: Rescue
    consent: GivenConsent
    as_json: AsJson = False

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


@app.command()
@connected_for_writing
def leader_election(connection: Connection, wanted: LeaderElectionRequest) -> None:
    """Elect leaders: preferred, unclean (by assignment order) or designated (KIP-1275).

    A preferred election changes partitions whose leader is not the preferred replica. Unclean and
    designated elections change only partitions without a leader. Before consent is asked for, the
    command shows what each election loses.
    """
    from breakglass.console.electing import Electing
    from breakglass.services.recovery.execution.steps import plain_unclean_route

    connection.require_write(f"the {wanted.election.value} election")
    elections = wanted.elections()
    topics = sorted({election.partition.topic for election in elections or ()})
    with StopSignal() as stop, connection.reading() as client:
        snapshot = client.snapshot(deadline_after(patience.SNAPSHOT), topics)
        electing = Electing(
            connection,
            client,
            snapshot.cluster_id,
            stop,
            plain_unclean_route,
            wanted.rescue,
            as_json=wanted.as_json,
        )
        states = list(snapshot.partitions)
        if elections is not None:
            by_name = {state.partition: state for state in states}
            for election in elections:
                if election.partition not in by_name:
                    reason = "the cluster has no such partition"
                    electing.leave(election.partition, RecoveryResult.FAILED, reason)
            named = [election.partition for election in elections]
            states = [by_name[partition] for partition in named if partition in by_name]
        if wanted.election is ElectionChoice.PREFERRED:
            _elect_preferred(electing, states, wanted.consent)
            outcomes, unheld = electing.outcomes, electing.unheld
            if wanted.as_json:
                print_json(outcomes_document(snapshot.cluster_id, outcomes, unheld))
            raise typer.Exit(exit_code(outcomes, [skipped.result for skipped in unheld]))
        if elections is not None:
            electing.report_online(state for state in states if not state.offline)
        _elect_leaderless(electing, snapshot, states, wanted, elections or ())
        electing.conclude()
        raise typer.Exit(electing.ended([skipped.result for skipped in electing.unheld]))


def _elect_leaderless(
    electing: Electing,
    snapshot: ClusterSnapshot,
    states: Sequence[PartitionState],
    wanted: LeaderElectionRequest,
    elections: Sequence[Election],
) -> None:
    """Unclean and designated elections: evidence and price first, then as any recovery."""
    from breakglass.services.recovery.execution.steps import route_for
    from breakglass.services.recovery.guarded.subject import priced
    from breakglass.services.recovery.triage import judge

    leaders = {election.partition: election.designated for election in elections}

    def leader_of(evidence: PartitionEvidence) -> int | None:
        """Whom this call elects, so far as somebody can be elected."""
        designated = leaders.get(evidence.partition)
        return first_live(evidence) if designated is None else designated

    *_, found = judge(
        electing.client,
        snapshot,
        [state for state in states if state.offline],
        wanted.duration,
        electing.connection.native_rpc,
        wanted.gone,
        contents=wanted.contents,
        chosen=leader_of,
    )
    with data_aside(wanted.as_json):
        print_replicas(found)
    say_missing_acls(found)
    electing.native = found.native
    if wanted.election is not ElectionChoice.UNCLEAN:
        electing.choose_route = route_for(found.native)
    quotes = []
    for assessment in found.assessments:
        evidence = assessment.evidence
        leader = leader_of(evidence)
        reason = "no replica of it can be elected" if leader is None else refusal(evidence, leader)
        if leader is None or reason:
            electing.leave(assessment.partition, RecoveryResult.REFUSED, reason)
        else:
            target = target_of(evidence, leader, assessment.ranking)
            quotes.append(priced(evidence, target, assessment.gone))
    electing.run(quotes, wanted.consent)


def _elect_preferred(
    electing: Electing, states: Sequence[PartitionState], consent: Consent
) -> None:
    """Preferred elections lose nothing; they are consented to like every change."""
    from breakglass.services.recovery.acts.elect import ElectPreferred

    for state in states:
        if state.offline:
            reason = "it has no leader; hold another election"
            electing.leave(state.partition, RecoveryResult.FAILED, reason)
    names = frozenset(state.partition for state in states)
    act = ElectPreferred(tuple(sorted({name.topic for name in names})), names)
    command = GuardedCommand(
        act, consent, electing.connection, stop=electing.stop, hear=electing.hear
    )
    frozen = command.freeze()
    if frozen.plan:
        command.carry_out(frozen, write=True)
    else:
        say("every partition with a leader is led by its preferred replica already")


def main() -> int:
    """The program `kafka-elect-leaders`; returns the exit code."""
    return run_app(app, "kafka-elect-leaders")
