"""`breakglass recover resume`: finish or undo what an interrupted recovery left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.documents import given_up_brokers, outcomes_document, rescued_partitions
from breakglass.console.exits import StopSignal
from breakglass.console.guarded import GuardedCommand
from breakglass.console.options import AsJson, GivenConsent, Rescue, Seconds, connected_for_writing
from breakglass.console.output import columns, of_partition, print_json, print_table, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.errors import UsageError, WrongCluster
from breakglass.services.guard.journal import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from breakglass.console.electing import Electing
    from breakglass.services.guard.journal import JournalView
    from breakglass.services.recovery.acts.resume import Resumption
    from breakglass.services.recovery.triage import Left
    from breakglass.services.recovery.unfinished import Remains


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalResumption:
    """The options of one call."""

    named: Annotated[
        str | None,
        typer.Argument(
            metavar="JOURNAL",
            help="Name or path of a journal (default: the newest unfinished one).",
        ),
    ] = None
    journal: Annotated[
        str | None, typer.Option("--journal", metavar="FILE", help="As the argument JOURNAL.")
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
    """Finish or undo what an interrupted recovery left; put back the settings that a hold changed.

    The journal may come from a colleague. The command asks the cluster for the outcome of each
    step. Elections that were held are confirmed, and their assignment orders are restored. The
    remaining partitions are elected at the price that was agreed to, or left with the reason.
    Without --write, the command says what is left, and ends.
    """
    if asked.named and asked.journal and asked.named != asked.journal:
        raise UsageError(f"{asked.named} and --journal {asked.journal} are two journals: name one")
    raise typer.Exit(resume_journal(connection, asked))


def resume_journal(connection: Connection, asked: JournalResumption) -> int:
    """Carry out one call; returns the exit code."""
    from breakglass.console.electing import Electing
    from breakglass.services.recovery.acts.resume import ResumeJournal
    from breakglass.services.recovery.execution.routes import stock_route
    from breakglass.services.recovery.execution.target import RecoveryResult
    from breakglass.services.recovery.settings.changes import owed
    from breakglass.services.recovery.unfinished import abandons_of

    with StopSignal() as stop, connection.reading() as client:
        cluster_id = client.describe(deadline_after(patience.SNAPSHOT)).cluster_id
        view = _view(cluster_id, asked.named or asked.journal)
        if view is not None and view.plan is None and owed(view):
            # Put topic settings back, which is what both resuming and undoing are there.
            from breakglass.console.hold import put_back

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
                "Nothing to resume: no journal of this cluster that can be read is unfinished or "
                "partly failed."
            )
            if asked.as_json:
                print_json(_document(electing))
            return 0
        electing.journals.append(view.path)
        act = ResumeJournal(view.path, asked.undo, asked.rescue, seconds=asked.duration)
        command = GuardedCommand(act, asked.consent, connection, stop=stop, hear=electing.hear)
        frozen = command.freeze()
        found, left = frozen.plan.survey, frozen.plan.remains.left
        _show(frozen.plan)
        electing.evidence |= found.evidence
        electing.abandons |= abandons_of(found.view)
        command.carry_out(frozen, write=True)
        for choice in left:
            say(f"{choice.partition}  left: {choice.reason}")
        electing.look_after()
        if asked.as_json:
            print_json(_document(electing, left))
        return electing.ended([RecoveryResult.REFUSED] * len(left))


def _view(cluster_id: str, name: str | None) -> JournalView | None:
    """The journal of that *name* or path, or the newest of this cluster that is not done."""
    from breakglass.services.recovery.acts.resume import open_journals
    from breakglass.services.recovery.settings.changes import owing_journals
    from breakglass.services.recovery.timeline.shelf import Shelf

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
        say(f"left for another time: --journal {journal.path}")
    return open_ones[0] if open_ones else None


def _show(plan: Resumption) -> None:
    """What is left, on stderr: stdout is for what came of it."""
    view = plan.survey.view
    say(f"journal: {view.path}, begun by {view.who}, {view.result or 'interrupted'}")
    rows = list(_rows(plan.remains, undo=plan.undo))
    if not rows:
        say("It has no election that is left to be taken up.")
        return
    with redirect_stdout(sys.stderr):
        print_table(COLUMNS, rows)


def _document(electing: Electing, left: Sequence[Left] = ()) -> dict[str, Any]:
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


COLUMNS = columns("Topic-partition", "Leader", "To do")


def _rows(found: Remains, *, undo: bool) -> Iterable[tuple[object, ...]]:
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
