"""`breakglass recover resume`: finish or undo what an interrupted recovery left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.options import DURATION_MS, AsJson, Duration, connected_for_writing
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.rescuing import RescueChoice, RescueStore, WithoutRescue
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.errors import UsageError, WrongCluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.guard.journal import JournalView
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.recovery.acts.resume import ResumeJournal, Resumption
    from breakglass.services.recovery.execution.target import PartitionOutcome
    from breakglass.services.recovery.guarded.given_up import GivenUp
    from breakglass.services.recovery.rescue.results import RescuedPartition
    from breakglass.services.recovery.resume import JournalSurvey
    from breakglass.services.recovery.triage import Left
    from breakglass.services.recovery.unfinished import Remains


@connected_for_writing
def resume(
    connection: Connection,
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="JOURNAL",
            help="Name or path of a journal (default: the newest unfinished one).",
        ),
    ] = None,
    journal: Annotated[
        str | None, typer.Option("--journal", metavar="FILE", help="As the argument JOURNAL.")
    ] = None,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Only restore assignment orders, where no leader was elected."),
    ] = False,
    recovery_duration_ms: Duration = DURATION_MS,
    without_rescue: WithoutRescue = False,
    store: RescueStore = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Finish or undo what an interrupted recovery left; put back the settings that a hold changed.

    The journal may come from a colleague. The command asks the cluster for the outcome of each
    step. Elections that were held are confirmed, and their assignment orders are restored. The
    remaining partitions are elected at the price that was agreed to, or left with the reason.
    Without --write, the command says what is left, and ends.
    """
    rescue = RescueChoice(without_rescue, store)
    word = Consent(tuple(consent or ()))
    if named and journal and named != journal:
        raise UsageError(f"{named} and --journal {journal} are two journals: name one")
    wanted = ResumeRequest(
        named or journal, undo, recovery_duration_ms / 1000, rescue, word, as_json
    )
    raise typer.Exit(resume_journal(connection, wanted))


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """The options of one call."""

    journal: str | None
    undo: bool
    duration: float
    rescue: RescueChoice
    consent: Consent
    as_json: bool


def resume_journal(connection: Connection, wanted: ResumeRequest) -> int:
    """Carry out one call; returns the exit code."""
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.recovery.acts.resume import ResumeJournal
    from breakglass.services.recovery.settings.changes import owed

    with StopSignal() as stop, connection.reading() as client:
        cluster_id = client.describe(Deadline.after(patience.SNAPSHOT)).cluster_id
        view = _view(cluster_id, wanted.journal)
        if view is not None and view.plan is None and owed(view):
            # Put topic settings back, which is what both resuming and undoing are there.
            from breakglass.console.put_back import put_back

            code, outcomes = put_back(connection, view.path, wanted.consent, quiet=wanted.as_json)
            if wanted.as_json:
                print_json({"schema": 1, "journal": view.path, "outcomes": outcomes.documents})
            return code
        if view is None:
            say(
                "Nothing to resume: no journal of this cluster that can be read is unfinished or "
                "partly failed."
            )
            if wanted.as_json:
                print_json(_document(cluster_id))
            return 0
        act = ResumeJournal(view.path, wanted.undo, wanted.rescue, seconds=wanted.duration)
        return _Call(connection, client, stop, wanted, act).run()


def _view(cluster_id: str, name: str | None) -> JournalView | None:
    """The journal of that *name* or path, or the newest of this cluster that is not done."""
    from breakglass.services.guard.journal import read
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


@dataclass(slots=True)
class _Call:
    connection: Connection
    client: ReadClient
    stop: StopSignal
    wanted: ResumeRequest
    act: ResumeJournal
    outcomes: list[PartitionOutcome] = field(default_factory=list)
    rescued: list[RescuedPartition] = field(default_factory=list)

    def run(self) -> int:
        from breakglass.console.electing import (
            Talk,
            ended,
            look_after,
            report,
            report_aside,
            say_given_up,
        )
        from breakglass.services.recovery.execution.target import RecoveryResult
        from breakglass.services.recovery.unfinished import abandons_of

        tell = report_aside if self.wanted.as_json else report
        talk = Talk(self.stop, tell, announce=False, outcomes=self.outcomes, rescued=self.rescued)
        command = GuardedCommand(
            self.act, self.wanted.consent, self.connection, stop=self.stop, hear=talk
        )
        frozen = command.freeze()
        found, left = frozen.plan.survey, frozen.plan.remains.left
        self._show(frozen.plan)
        command.carry_out(frozen, write=True)
        for choice in left:
            say(f"{choice.partition}  left: {choice.reason}")
        given_up = say_given_up(self.outcomes, abandons_of(found.view))
        open_ones = look_after(self.client, self.outcomes)
        self._say_past_end(found)
        if self.wanted.as_json:
            cluster_id, path = found.snapshot.cluster_id, found.view.path
            print_json(
                _document(cluster_id, path, self.outcomes, left, self.rescued, open_ones, given_up)
            )
        unresolved = [RecoveryResult.REFUSED] * len(left)
        return ended(self.outcomes, self.stop, [found.view.path], unresolved)

    def _say_past_end(self, found: JournalSurvey) -> None:
        from breakglass.console.evidence import say_past_end
        from breakglass.services.recovery.execution.target import RecoveryResult
        from breakglass.services.recovery.guarded.aftermath import groups_unread, past_end

        evidence = found.evidence
        elected = [
            outcome.target for outcome in self.outcomes if outcome.result is RecoveryResult.ELECTED
        ]
        read = [outcome for outcome in elected if outcome.partition in evidence]
        say_past_end(past_end(read, evidence), groups_unread(read, evidence), "now")

    def _show(self, plan: Resumption) -> None:
        """What is left, on stderr: stdout is for what came of it."""
        view = plan.survey.view
        say(f"journal: {view.path}, begun by {view.who}, {view.result or 'interrupted'}")
        rows = list(_rows(plan.remains, undo=self.wanted.undo))
        if not rows:
            say("It has no election that is left to be taken up.")
            return
        with redirect_stdout(sys.stderr):
            print_table(COLUMNS, rows)


def _document(
    cluster_id: str,
    journal: Path | None = None,
    outcomes: Sequence[PartitionOutcome] = (),
    left: Sequence[Left] = (),
    rescued: Sequence[RescuedPartition] = (),
    open_transactions: object = (),
    given_up: Sequence[GivenUp] = (),
) -> dict[str, Any]:
    """What came of a journal, as JSON; without one there was nothing to resume."""
    from breakglass.console.documents import given_up_brokers, outcomes_document, rescued_partitions

    told = outcomes_document(cluster_id, outcomes)
    return {
        "journal": journal,
        **told,
        "succeeded": told["succeeded"] and not left,
        "left": [
            {
                "topic": partition.partition.topic,
                "partition": partition.partition.partition,
                "reason": partition.reason,
            }
            for partition in left
        ],
        "rescued": rescued_partitions(rescued),
        "open_transactions": open_transactions,
        "given_up": given_up_brokers(given_up),
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
