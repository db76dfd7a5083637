"""`breakglass recover`: hold the elections of a plan, under guard.

`breakglass recover min-isr`: the controller forgets a last leader that is back EMPTY (R3).
`breakglass recover add-replica`: records that wait for a replica in sync become readable (R50).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import broker_ids, names_in
from breakglass.console.options import (
    DURATION_MS,
    AsJson,
    Duration,
    Gone,
    Topics,
    VerifyContents,
    connected_for_writing,
)
from breakglass.console.output import print_json, say
from breakglass.console.report import report
from breakglass.console.rescuing import RescueChoice, RescueStore, WithoutRescue
from breakglass.console.resume import resume
from breakglass.console.setting_outcomes import Outcomes, say_facts
from breakglass.console.stop_signal import StopSignal
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.session import Effort
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.recovery.acts.forget_leaders import PlannedForgetting
    from breakglass.services.recovery.execution.target import ElectionTarget
    from breakglass.services.recovery.plan.appraisal import Appraisal
    from breakglass.services.recovery.plan.document import Plan
    from breakglass.services.recovery.triage import Triage

T = TypeVar("T")


@connected_for_writing
def min_isr(
    connection: Connection,
    topics: Topics = None,
    gone: Gone = None,
    recovery_duration_ms: Duration = DURATION_MS,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Last resort if a BOMB's broker cannot be stopped: make the controller forget who led last.

    Stop the broker if you can. Changing min.insync.replicas makes the controller forget, for the
    whole topic and for good, which replicas it would elect by itself: the EMPTY replica, and intact
    replicas too. Every other partition that the step touches is listed, and each intact leader that
    is given up needs a phrase. Without --topics, the command changes the topics that a BOMB
    threatens. It puts the setting back at once. Afterwards `triage` says which replica to elect.
    """
    from breakglass.services.recovery.acts.forget_leaders import ForgetLeaders

    act = ForgetLeaders(names_in(topics), broker_ids(gone, "--gone"), recovery_duration_ms / 1000)
    outcomes = Outcomes(quiet=as_json)
    command = GuardedCommand(act, Consent(tuple(consent or ())), connection, hear=outcomes)

    def told(plan: PlannedForgetting) -> dict[str, object]:
        forgotten = [
            {
                "topic": forgetting.partition.topic,
                "partition": forgetting.partition.partition,
                "forgotten": forgetting.forgotten,
                "bomb": forgetting.bomb,
                "intact": forgetting.intact,
                "best": forgetting.best,
                "loses": str(forgetting.price),
                "unread_at_least": forgetting.unread,
            }
            for forgetting in plan.found
        ]
        return {"settings": plan.changes, "forgotten": forgotten, "outcomes": outcomes.documents}

    raise typer.Exit(_guarded(command, outcomes, connection, told))


@connected_for_writing
def add_replica(
    connection: Connection, topics: Topics = None, consent: Phrases = None, as_json: AsJson = False
) -> None:
    """Add a replica on a live broker to partitions with fewer than min.insync.replicas in sync.

    After an election the high watermark stays where it was until min.insync.replicas are in sync,
    and consumers read no further. Each such partition gets as many live brokers as it lacks, of
    other racks first, and with room for its log. No replica is taken from an assignment: a broker
    that returns to find itself out of it deletes its log. Without --topics, partitions of which a
    live replica is still copying are left out. Without --write, the command shows what it would do.
    """
    from breakglass.services.recovery.acts.add_replicas import AddReplicas

    outcomes = Outcomes(quiet=as_json)

    def told(plan: tuple[ElectionTarget, ...]) -> dict[str, object]:
        results = {outcome.target: outcome for outcome in outcomes.told}
        return {
            "partitions": [
                {
                    "topic": one.partition.topic,
                    "partition": one.partition.partition,
                    "leader": one.designee,
                    "assignment": one.assignment,
                    "replicas": one.order,
                    "log_end": one.log_end,
                    "result": results[str(one.partition)].result,
                    "reason": results[str(one.partition)].text,
                }
                for one in plan
            ]
        }

    with StopSignal() as stop:
        word = Consent(tuple(consent or ()))
        act = AddReplicas(names_in(topics))
        command = GuardedCommand(act, word, connection, stop=stop, hear=outcomes)
        code = _guarded(command, outcomes, connection, told)
    raise typer.Exit(code)


def _guarded(
    command: GuardedCommand[T],
    outcomes: Outcomes,
    connection: Connection,
    told: Callable[[T], dict[str, object]],
) -> int:
    frozen = command.freeze()
    say_facts(frozen.facts)
    for remark in frozen.remarks:
        say(remark)
    if not frozen.asked:
        return 0
    ending = command.carry_out(frozen, write=connection.write)
    if outcomes.quiet:
        head = {"schema": 1, "cluster_id": frozen.cluster_id, "journal": outcomes.journal}
        print_json({**head, **told(frozen.plan)})
    return outcomes.ended(ending)


app = new_app(
    "Hold the elections of a plan, under guard.\n\nEvery partition is read again before its "
    "election. A partition that changed since the plan was made is skipped, with the reason. A "
    "partition that already has a leader counts as a success. For a file in Kafka's form, the "
    "command reads evidence now, and shows it before it asks for consent. Elections go in batches, "
    "and each new leader confirms its own election."
)
app.info.subcommand_metavar = "[COMMAND]"


@app.callback(invoke_without_command=True)
@connected_for_writing
def recover(
    connection: Connection,
    context: typer.Context,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="A plan of `plan make`, or a file in Kafka's form."
        ),
    ] = None,
    recovery_duration_ms: Duration = DURATION_MS,
    gone: Gone = None,
    verify_contents: VerifyContents = Effort.BUDGET,
    without_rescue: WithoutRescue = False,
    store: RescueStore = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Hold the elections of a plan, under guard."""
    if context.invoked_subcommand is not None:
        return
    if plan is None:
        raise UsageError("name the plan: breakglass recover --plan FILE")
    word = Consent(tuple(consent or ()))
    rescue = RescueChoice(without_rescue, store)
    duration = recovery_duration_ms / 1000
    raise typer.Exit(
        recover_plan(
            connection,
            plan,
            duration,
            word,
            rescue,
            verify_contents,
            as_json=as_json,
            gone=broker_ids(gone, "--gone"),
        )
    )


app.command("resume")(resume)
app.command("report")(report)
app.command("min-isr")(min_isr)
app.command("add-replica")(add_replica)


def recover_plan(
    connection: Connection,
    path: Path,
    duration: float,
    consent: Consent,
    rescue: RescueChoice,
    contents: Effort = Effort.BUDGET,
    *,
    as_json: bool,
    gone: Collection[int] = (),
) -> int:
    """Carry out the plan in *path*; returns the exit code."""
    from breakglass.console.evidence import appraised
    from breakglass.console.plan_edits import opened

    read = opened(path).plan
    connection.require_write(f"recovering by {path}")
    with StopSignal() as stop, connection.reading() as client:
        appraisal, found = appraised(
            client, read, str(path), duration, connection.native_rpc, gone, contents
        )
        call = _Call(
            connection, client, path, read, appraisal, found, stop, consent, rescue, as_json, gone
        )
        return call.run()


@dataclass(frozen=True, slots=True)
class _Call:
    connection: Connection
    client: ReadClient
    path: Path
    read: Plan
    appraisal: Appraisal
    found: Triage
    stop: StopSignal
    consent: Consent
    rescue: RescueChoice
    as_json: bool
    gone: Collection[int] = ()

    def run(self) -> int:
        from breakglass.console.documents import election_document
        from breakglass.console.electing import Electing, report, report_aside
        from breakglass.services.recovery.execution.routes import route_for
        from breakglass.services.recovery.guarded.subject import skipped_of

        electing = Electing(
            self.connection,
            self.client,
            self.found.snapshot.cluster_id,
            self.stop,
            route_for(self.found.native),
            self.rescue,
            tell=report_aside if self.as_json else report,
        )
        self._report_skipped()
        from breakglass.services.recovery.guarded.election_quote import priced

        evidence, records = self.appraisal.evidence, self.appraisal.plan.records
        wanted = [
            priced(
                evidence[target.partition], target, {*records[target.partition].gone, *self.gone}
            )
            for target in self.appraisal.targets()
        ]
        if wanted:
            self._show()
            electing.run(
                wanted,
                self.consent,
                self.appraisal.plan.digest,
                approved_by=tuple(approval.by for approval in self.appraisal.plan.approvals),
                left=skipped_of(self.appraisal),
            )
        left = electing.look_after()
        if self.as_json:
            cluster_id, plan = self.found.snapshot.cluster_id, self.appraisal.plan
            document = election_document(cluster_id, electing, self.appraisal.skipped, left)
            head = {"plan": self.path, "digest": plan.digest}
            print_json({**head, **document})
        return electing.ended([skipped.result for skipped in self.appraisal.skipped])

    def _report_skipped(self) -> None:
        for skipped in self.appraisal.skipped:
            reason = f": {skipped.reason}" if skipped.reason else ""
            line = f"{skipped.partition}  {skipped.result}{reason}"
            if skipped.succeeded and not self.as_json:
                print(inert(line))
            else:
                say(line)

    def _show(self) -> None:
        """What is about to be elected, on stderr: stdout is for what came of it."""
        from breakglass.console.plan_table import print_plan, rows_of

        going = {checked.partition for checked in self.appraisal.to_hold}
        with redirect_stdout(sys.stderr):
            print_plan(rows_of(self.appraisal.plan, going), each=False)
        for checked in self.appraisal.to_hold:
            if checked.reason:
                say(f"{checked.partition}: {checked.reason}; rank and loss are as planned")
        say(f"digest: {self.appraisal.plan.spoken_digest}{_approvals(self.read)}")


def _approvals(plan: Plan) -> str:
    if plan.approvals:
        return f", approved by {', '.join(approval.by for approval in plan.approvals)}"
    voided = plan.breakglass is not None and plan.breakglass.approvals
    return ", which nobody approved: the approvals are of another digest" if voided else ""
