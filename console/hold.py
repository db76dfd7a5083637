"""`breakglass recover freeze` and `thaw`: whether the controller elects uncleanly (R14)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.guarded import GuardedCommand, Outcomes, say_facts
from breakglass.console.option_values import Consent
from breakglass.console.options import (
    NO_CONSENT,
    AsJson,
    GivenConsent,
    TopicNames,
    connected_for_writing,
)
from breakglass.console.output import columns, of_partition, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.errors import UsageError, WrongCluster

if TYPE_CHECKING:
    from breakglass.services.guard.journal import JournalView
    from breakglass.services.recovery.acts.topic_settings import PlannedHold

Released = Annotated[
    str | None,
    typer.Argument(
        metavar="JOURNAL", help="Name or path of the journal of a freeze (default: all of them)."
    ),
]


@connected_for_writing
def freeze(
    connection: Connection,
    topics: TopicNames = (),
    release: Annotated[
        bool, typer.Option("--release", hidden=True, help="As `recover thaw`.")
    ] = False,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal", hidden=True, metavar="FILE", help="With --release, what to thaw."
        ),
    ] = None,
    consent: GivenConsent = NO_CONSENT,
    as_json: AsJson = False,
) -> None:
    """Turn off unclean election, so that the controller holds none during triage.

    If unclean.leader.election.enable is true, the controller can elect the first live replica of
    the assignment at any moment, whatever that loses. A freeze sets it to false on the topic and
    keeps the old value in a journal; `recover thaw` restores it, even after a kill. Breakglass
    itself can still elect. Without --topics, the freeze covers the topics with offline partitions
    for which unclean election is on. Without --write, the command lists the replicas that the
    controller would elect, and ends.
    """
    if release:
        if topics:
            raise UsageError("`recover thaw` puts back all that a freeze changed: name its JOURNAL")
        raise typer.Exit(release_holds(connection, journal, consent, as_json=as_json))
    if journal is not None:
        raise UsageError("--journal names the freeze to end: add --release")

    from breakglass.services.recovery.acts.topic_settings import HoldElections

    outcomes = Outcomes(quiet=as_json)
    command = GuardedCommand(HoldElections(topics), consent, connection, hear=outcomes)
    frozen = command.freeze()
    plan = frozen.plan
    if not plan.changes:
        say(" ".join(frozen.remarks))
        if as_json:
            print_json(_document(frozen.cluster_id, plan, outcomes))
        return
    say_facts(frozen.facts)
    if plan.winners and not as_json:
        rows = (
            (
                one.partition,
                f"b{one.broker}",
                one.price,
                None if one.best is None else f"b{one.best}",
                one.best_price,
            )
            for one in plan.winners
        )
        print_table(COLUMNS, rows)
    ending = command.carry_out(frozen, write=connection.write)
    if as_json:
        print_json(_document(frozen.cluster_id, plan, outcomes))
    raise typer.Exit(outcomes.ended(ending))


COLUMNS = columns("Topic-partition", "Without a freeze", ">Loses", "Best", ">Loses")


def _document(cluster_id: str, plan: PlannedHold, outcomes: Outcomes) -> dict[str, object]:
    return {
        "schema": 1,
        "cluster_id": cluster_id,
        "journal": outcomes.journal,
        "settings": plan.changes,
        "without_hold": [
            {
                **of_partition(winner.partition),
                "elects": winner.broker,
                "loses": str(winner.price),
                "best": winner.best,
                "best_loses": None if winner.best_price is None else str(winner.best_price),
            }
            for winner in plan.winners
        ],
        "outcomes": outcomes.documents,
    }


@connected_for_writing
def thaw(
    connection: Connection,
    journal: Released = None,
    consent: GivenConsent = NO_CONSENT,
    as_json: AsJson = False,
) -> None:
    """Restore the settings that topics had before a freeze.

    Without JOURNAL, the command ends every freeze of this cluster, the newest first.
    """
    raise typer.Exit(release_holds(connection, journal, consent, as_json=as_json))


def release_holds(
    connection: Connection, journal: str | None, consent: Consent, *, as_json: bool
) -> int:
    """Put back what holds changed, the newest first, or *journal* alone; returns the exit code.

    Each has a phrase of its own. What fails keeps no other.
    """
    views = _views(connection, journal)
    if not views:
        say("No journal of this cluster has a freeze to end.")
    codes, documents = [0], []
    for view in views:
        code, outcomes = put_back(connection, view.path, consent, quiet=as_json)
        codes.append(code)
        documents.append({"journal": view.path, "outcomes": outcomes.documents})
    if as_json:
        print_json({"schema": 1, "released": documents})
    return max(codes)


def put_back(
    connection: Connection, path: Path, consent: Consent, *, quiet: bool = False
) -> tuple[int, Outcomes]:
    """Put back what the journal in *path* changed; the exit code, and what came of each topic."""
    from breakglass.services.recovery.acts.topic_settings import PutSettingsBack

    outcomes = Outcomes(quiet)
    command = GuardedCommand(PutSettingsBack(path), consent, connection, hear=outcomes)
    frozen = command.freeze()
    say(f"journal: {path}")
    say_facts(frozen.facts)
    for remark in frozen.remarks:
        say(remark)
    ending = command.carry_out(frozen, write=connection.write)
    return outcomes.ended(ending), outcomes


def _views(connection: Connection, journal: str | None) -> list[JournalView]:
    """Journals with settings to put back; of *journal* that one, whatever its folder.

    Raises:
        UsageError: *journal* has none.
        WrongCluster: it is of another cluster.
    """
    from breakglass.services.kafka.cluster.settings import UNCLEAN_ELECTION
    from breakglass.services.recovery.timeline.account import Shelf
    from breakglass.services.recovery.topic_settings import owed, owing_journals

    cluster_id = connection.cluster_id(patience.REQUEST)
    if journal is None:
        views = owing_journals(cluster_id)
        return [
            view for view in views if any(change.name == UNCLEAN_ELECTION for change in owed(view))
        ]
    view = Shelf().named(journal).view
    if view.cluster_id != cluster_id:
        raise WrongCluster(
            f"journal {view.path} is of cluster {view.cluster_id} and this is {cluster_id}: "
            "connect to the cluster that it was written for."
        )
    if not owed(view):
        raise UsageError(f"journal {view.path} has no setting to put back: name another one.")
    return [view]
