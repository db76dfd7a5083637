"""`breakglass recover`: hold the elections of a plan, under guard.

`breakglass recover resume`: finish or undo what an interrupted recovery left.
`breakglass recover forget-leader`: the controller forgets a last leader that is back EMPTY (R3).
`breakglass after add-replica`: records that wait for a replica in sync become readable (R50).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from breakglass.console.commands import new_app
from breakglass.console.documents import given_up_brokers, outcomes_document, rescued_partitions
from breakglass.console.evidence import (
    appraised,
    came_back,
    compare_with_memory,
    final,
    say_observed,
    say_remembered,
)
from breakglass.console.exits import StopSignal
from breakglass.console.guarded import GuardedCommand, Outcomes, say_facts
from breakglass.console.help import PlanGroup
from breakglass.console.hold import freeze, put_back, thaw
from breakglass.console.options import (
    AsJson,
    GivenConsent,
    GoneBrokers,
    PlanOption,
    Rescue,
    Seconds,
    TopicNames,
    VerifyContents,
    connected_for_writing,
)
from breakglass.console.output import (
    columns,
    data_aside,
    of_partition,
    print_json,
    print_table,
    report,
    say,
)
from breakglass.console.plan import say_left_out
from breakglass.console.plan_edits import opened
from breakglass.console.triage import show
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import Refused, UsageError, WrongCluster
from breakglass.services.guard.consent import Price, total_price
from breakglass.services.guard.journal import read
from breakglass.services.recovery.judgement.assessment import Verb
from breakglass.services.session import Effort
from breakglass.services.state_folder import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from breakglass.console.electing import Electing
    from breakglass.services.guard.journal import JournalView
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.acts.resume import Resumption
    from breakglass.services.recovery.acts.topic_settings import PlannedForgetting
    from breakglass.services.recovery.execution.target import ElectionTarget
    from breakglass.services.recovery.plan.document import Plan
    from breakglass.services.recovery.plan.make import Appraisal
    from breakglass.services.recovery.triage import Left
    from breakglass.services.recovery.unfinished import Remains

T = TypeVar("T")


@connected_for_writing
def forget_leader(
    connection: Connection,
    *,
    topics: TopicNames,
    gone: GoneBrokers,
    duration: Seconds,
    consent: GivenConsent,
    as_json: AsJson = False,
) -> None:
    """Last resort if a BOMB's broker cannot be stopped: make the controller forget who led last.

    Stop the broker if you can. Changing min.insync.replicas makes the controller forget, for the
    whole topic and for good, which replicas it would elect by itself: the EMPTY replica, and intact
    replicas too. Every other partition that the step touches is listed, and each intact leader that
    is given up needs a phrase. Without --topics, the command changes the topics that a BOMB
    threatens. It restores the setting at once. Afterwards `triage` says which replica to elect.
    """
    from breakglass.services.recovery.acts.topic_settings import ForgetLeaders

    act = ForgetLeaders(topics, gone, duration)
    outcomes = Outcomes(quiet=as_json)
    command = GuardedCommand(act, consent, connection, hear=outcomes)

    def told(plan: PlannedForgetting) -> dict[str, object]:
        forgotten = [
            {
                **of_partition(forgetting.partition),
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
    connection: Connection, *, topics: TopicNames, consent: GivenConsent, as_json: AsJson = False
) -> None:
    """Add replicas on live brokers where fewer are in sync than min.insync.replicas demands.

    Until enough replicas are in sync, the high watermark stays where it was before the election,
    and consumers read no further. Each such partition gets as many live brokers as it lacks, in
    other racks first, and with room for its log. No replica is taken from an assignment: a
    running broker would delete its log, and a broker that is down would rename it to -stray when it
    starts. Without --topics, a partition that a live replica is still copying is left out.
    Without --write, the command shows what it would do.
    """
    from breakglass.services.recovery.acts.add_replicas import AddReplicas

    outcomes = Outcomes(quiet=as_json)

    def told(plan: tuple[ElectionTarget, ...]) -> dict[str, object]:
        results = {outcome.target: outcome for outcome in outcomes.told}
        return {
            "partitions": [
                {
                    **of_partition(one.partition),
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
        act = AddReplicas(topics)
        command = GuardedCommand(act, consent, connection, stop=stop, hear=outcomes)
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
    "Elect the leaders of a plan, with safeguards and your consent.\n\n"
    "Without PLAN, on a terminal, the command shows what is offline and what to start or stop "
    "first, makes a plan, shows what it loses, and asks for the phrase. Every partition is read "
    "again before its election. A partition that changed since the plan was made is skipped, with "
    "the reason. A partition that already has a leader counts as a success. A file in Kafka's "
    "format has no evidence: the command reads the replicas, and shows the loss before it asks for "
    "consent. Elections go in batches, and each new leader confirms its own election."
)
app.info.cls = PlanGroup
app.info.subcommand_metavar = "[PLAN | COMMAND]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryByPlan:
    """The options of one call."""

    plan: PlanOption = None
    duration: Seconds
    gone: GoneBrokers
    contents: VerifyContents = Effort.BUDGET
    rescue: Rescue
    consent: GivenConsent
    as_json: AsJson = False


@app.callback(invoke_without_command=True)
@connected_for_writing
def recover(connection: Connection, context: typer.Context, asked: RecoveryByPlan) -> None:
    """Hold the elections of a plan, under guard."""
    if context.invoked_subcommand is not None:
        return
    if asked.plan is not None:
        raise typer.Exit(recover_plan(connection, asked.plan, asked))
    if asked.as_json or asked.consent.given or not sys.stdin.isatty():
        raise UsageError(
            "name the plan: breakglass recover PLAN; on a terminal and without --consent and "
            "--json, `breakglass recover` makes one and asks"
        )
    made = plan_led_through(connection, asked)
    raise typer.Exit(0 if made is None else recover_plan(connection, made, asked))


LEAVE, WITHOUT = "q", "e"


def plan_led_through(connection: Connection, asked: RecoveryByPlan) -> Path | None:
    """Show what is offline and what to do first, and make a plan of what is decided; None: of none.

    Raises Refused: the operator ends it.
    """
    from breakglass.services.recovery.plan.file import write_plan
    from breakglass.services.recovery.plan.make import make_plan, totals_of
    from breakglass.services.recovery.triage import triage

    began, by_plan = now_ms(), {Verb.ELECT, Verb.DECIDE, Verb.AWAIT, Verb.INELIGIBLE}
    with connection.reading() as client:
        while True:
            found = final(
                triage(
                    client,
                    asked.duration,
                    native_choice=connection.native_rpc,
                    gone=asked.gone,
                    contents=asked.contents,
                )
            )
            show(found, each=False, replicas=False)
            say_remembered(found)
            if not found.assessments:
                compare_with_memory(client, found)
                say_observed(found.snapshot.cluster_id)
                back = came_back([found.snapshot.cluster_id], began)
                say(f"Nothing was elected{back and f': {back}'}.")
                return None
            actions = {one.action for one in found.assessments}
            first = sorted(str(action) for action in actions if action.verb not in by_plan)
            if not first or _answer(
                f"First: {', '.join(first)}, as said above. Then press Enter to look again, type "
                f"{WITHOUT} to plan elections without that, or {LEAVE} to leave:"
            ).startswith(WITHOUT):
                break
    snapshot = found.snapshot
    notes = tuple(f"b{broker} was declared gone" for broker in asked.gone)
    plan = make_plan(found.assessments, snapshot.cluster_id, snapshot.observed_at_ms, notes=notes)
    plan = forks_decided(plan)
    say_left_out(plan, None)
    say(f"The plan {totals_of(plan)}.")
    if not plan.leaders:
        raise Refused("the plan elects no leader: decide the partitions above by `plan edit`")
    folder = state_folder() / "plans"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{snapshot.cluster_id}-{snapshot.observed_at_ms}.json"
    write_plan(plan, path)
    say(f"plan: {path}; `breakglass recover {path} --write` carries it out")
    return path


def forks_decided(plan: Plan) -> Plan:
    """*plan* with the leader that the operator chooses where each choice loses records."""
    from breakglass.console.plan_table import named
    from breakglass.services.recovery.plan.edit import set_leaders
    from breakglass.services.recovery.plan.make import candidates

    forks: dict[tuple[str, tuple[int, ...]], list[TopicPartition]] = {}
    for record in plan.left_out:
        able = tuple([one.broker for one in candidates(record) if one.eligible])
        if record.verdict == "FORK" and able:
            forks.setdefault((record.partition.topic, able), []).append(record.partition)
    for (_, able), partitions in forks.items():
        say(f"{named(partitions)}  FORK: each choice loses records that another replica has")
        for number, broker in enumerate(able, 1):
            losses = [plan.records[one].loss_of(broker) for one in partitions]
            price = total_price([Price(loss.total, loss.approximate) for loss in losses])
            say(f"  {number}  b{broker} loses {price}")
        chosen = _answer(
            f"Type the number to elect, or press Enter to leave it out; {LEAVE} leaves:"
        )
        if chosen.isdigit() and 0 < int(chosen) <= len(able):
            plan = set_leaders(plan, dict.fromkeys(partitions, able[int(chosen) - 1]))
    return plan


def _answer(question: str) -> str:
    say(question)
    line = sys.stdin.readline()
    if not line or line.strip().startswith(LEAVE):
        raise Refused("ended on request, before any election")
    return line.strip()


def recover_plan(connection: Connection, path: Path, asked: RecoveryByPlan) -> int:
    """Carry out the plan in *path*; returns the exit code."""
    from breakglass.console.electing import Electing
    from breakglass.services.recovery.execution.steps import route_for
    from breakglass.services.recovery.guarded.subject import priced, skipped_of

    read = opened(path).plan
    connection.require_write(f"recovering by {path}")
    with StopSignal() as stop, connection.reading() as client:
        appraisal, found = appraised(
            client,
            read,
            str(path),
            asked.duration,
            connection.native_rpc,
            asked.gone,
            asked.contents,
        )
        electing = Electing(
            connection,
            client,
            found.snapshot.cluster_id,
            stop,
            route_for(found.native),
            asked.rescue,
            as_json=asked.as_json,
            unheld=list(appraisal.skipped),
        )
        for skipped in appraisal.skipped:
            reason = f": {skipped.reason}" if skipped.reason else ""
            line = f"{skipped.partition}  {skipped.result}{reason}"
            report(line, aside=asked.as_json or not skipped.succeeded)
        evidence, plan = appraisal.evidence, appraisal.plan
        wanted = [
            priced(
                evidence[target.partition],
                target,
                {*plan.records[target.partition].gone, *asked.gone},
            )
            for target in appraisal.targets()
        ]
        if wanted:
            _show(appraisal, read)
            electing.run(
                wanted,
                asked.consent,
                plan.digest,
                approved_by=tuple(approval.by for approval in plan.approvals),
                left=skipped_of(appraisal),
            )
        electing.conclude(plan=path, digest=plan.digest)
        return electing.ended([skipped.result for skipped in appraisal.skipped])


def _show(appraisal: Appraisal, read: Plan) -> None:
    """What is about to be elected, on stderr: stdout is for what came of it."""
    from breakglass.console.plan_table import print_plan, rows_of

    with data_aside(True):
        print_plan(
            rows_of(appraisal.plan, {checked.partition for checked in appraisal.to_hold}),
            each=False,
        )
    for checked in appraisal.to_hold:
        if checked.reason:
            say(f"{checked.partition}: {checked.reason}; rank and loss are as planned")
    approvals = ""
    if read.approvals:
        approvals = f", approved by {', '.join(approval.by for approval in read.approvals)}"
    elif read.breakglass is not None and read.breakglass.approvals:
        approvals = ", which has no approval: those in the file are of the plan as it was before"
    say(f"digest: {appraisal.plan.spoken_digest}{approvals}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalResumption:
    """The options of one call."""

    journal: Annotated[
        str | None,
        typer.Argument(
            metavar="JOURNAL",
            help="Name or path of a journal (default: the newest unfinished one).",
        ),
    ] = None
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Only restore assignment orders, where no leader was elected."),
    ] = False
    duration: Seconds
    rescue: Rescue
    consent: GivenConsent
    as_json: AsJson = False


@connected_for_writing
def resume(connection: Connection, asked: JournalResumption) -> None:
    """Finish or undo an interrupted recovery, or restore the settings that a freeze changed.

    The journal may come from a colleague. The command asks the cluster for the outcome of each
    step. Elections that were held are confirmed, and their assignment orders are restored. The
    remaining partitions are elected at the price that was agreed to, or left with the reason.
    Without --write, the command says what is left, and ends.
    """
    raise typer.Exit(resume_journal(connection, asked))


def resume_journal(connection: Connection, asked: JournalResumption) -> int:
    """Carry out one call; returns the exit code."""
    from breakglass.console.electing import Electing
    from breakglass.services.recovery.acts.resume import ResumeJournal
    from breakglass.services.recovery.execution.steps import stock_route
    from breakglass.services.recovery.execution.target import RecoveryResult
    from breakglass.services.recovery.topic_settings import owed
    from breakglass.services.recovery.unfinished import abandons_of

    with StopSignal() as stop, connection.reading() as client:
        cluster_id = client.describe(deadline_after(patience.SNAPSHOT)).cluster_id
        view = _journal_to_resume(cluster_id, asked.journal)
        if view is not None and view.plan is None and owed(view):
            # Put topic settings back, which is what both resuming and undoing are there.
            code, outcomes = put_back(connection, view.path, asked.consent, quiet=asked.as_json)
            if asked.as_json:
                print_json({"schema": 1, "journal": view.path, "outcomes": outcomes.documents})
            return code
        # The route is the journal's own.
        electing = Electing(
            connection, client, cluster_id, stop, stock_route, as_json=asked.as_json
        )
        if view is None:
            say(
                "Nothing to resume: no journal of elections or settings of this cluster that can "
                "be read is unfinished or partly failed. A restore continues with its own command "
                "and --resume; `breakglass journal list` lists its journal."
            )
            if asked.as_json:
                print_json(_resumption_document(electing))
            return 0
        electing.journals.append(view.path)
        act = ResumeJournal(view.path, asked.undo, asked.rescue, seconds=asked.duration)
        command = GuardedCommand(act, asked.consent, connection, stop=stop, hear=electing.hear)
        frozen = command.freeze()
        found, left = frozen.plan.survey, frozen.plan.remains.left
        _show_remains(frozen.plan)
        electing.evidence |= found.evidence
        electing.abandons |= abandons_of(found.view)
        command.carry_out(frozen, write=True)
        for choice in left:
            say(f"{choice.partition}  left: {choice.reason}")
        electing.look_after()
        if asked.as_json:
            print_json(_resumption_document(electing, left))
        return electing.ended([RecoveryResult.REFUSED] * len(left))


def _journal_to_resume(cluster_id: str, name: str | None) -> JournalView | None:
    """The journal of that *name* or path, or the newest of this cluster that is not done."""
    from breakglass.services.recovery.acts.resume import open_journals
    from breakglass.services.recovery.timeline.account import Shelf
    from breakglass.services.recovery.topic_settings import owing_journals

    if name is not None:
        path = Path(name)
        view = read(path) if "/" in name or path.exists() else Shelf().named(name).view
        if view.cluster_id != cluster_id:
            raise WrongCluster(
                f"journal {view.path} is of cluster {view.cluster_id} and this is {cluster_id}: "
                "connect to the cluster that it was written for."
            )
        return view
    open_ones, unreadable = open_journals(cluster_id)
    for broken in unreadable:
        say(f"journal {broken.path} is passed over: {broken.reason}")
    # Elections come first: a released hold would let the controller elect among them.
    open_ones += [view for view in owing_journals(cluster_id) if view.plan is None]
    for journal in open_ones[1:]:
        say(f"left for another time: breakglass recover resume {journal.path}")
    return open_ones[0] if open_ones else None


def _show_remains(plan: Resumption) -> None:
    """What is left, on stderr: stdout is for what came of it."""
    view = plan.survey.view
    say(f"journal: {view.path}, begun by {view.who}, {view.result or 'interrupted'}")
    rows = list(_remains_rows(plan.remains, undo=plan.undo))
    if not rows:
        say("It has no election that is left to be taken up.")
        return
    with data_aside(True):
        print_table(REMAINS, rows)


def _resumption_document(electing: Electing, left: Sequence[Left] = ()) -> dict[str, Any]:
    """What came of a journal, as JSON; without one there was nothing to resume."""
    told = outcomes_document(electing.cluster_id, electing.outcomes)
    aftermath = electing.aftermath
    return {
        "journal": next(iter(electing.journals), None),
        **told,
        "succeeded": told["succeeded"] and not left,
        "left": [{**of_partition(choice.partition), "reason": choice.reason} for choice in left],
        "rescued": rescued_partitions(electing.rescued),
        "open_transactions": aftermath.open_transactions,
        "given_up": given_up_brokers(aftermath.given_up),
    }


REMAINS = columns("Topic-partition", "Leader", "To do")


def _remains_rows(found: Remains, *, undo: bool) -> Iterable[tuple[object, ...]]:
    for partition in found.offline:
        named = ", ".join(f"b{broker}" for broker in partition.abandons)
        abandons = f", abandoning {named}" if named else ""
        price = f" at the price of {partition.price}{abandons}" if partition.price else ""
        what = "put its order back" if undo else f"elect it{price}"
        yield partition.target.partition, f"b{partition.target.designee}", what
    for partition in found.led:
        what = (
            "none: it leads" if undo else "confirm it" + (", put the order back" * partition.ours)
        )
        yield partition.target.partition, f"b{partition.target.designee}", what
    for done in found.done:
        yield done.partition, f"b{done.leader}", "nothing: it leads"
    for left in found.left:
        yield left.partition, None, f"nothing that resume can: {left.reason}"


app.command()(resume)
app.command()(freeze)
app.command()(thaw)
app.command("forget-leader")(forget_leader)
add_replica_app = new_app()
add_replica_app.command("add-replica")(add_replica)
