"""Putting topic settings back for commands: the holds of `hold --release`, what a kill left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.console.consent import Consent
from breakglass.console.guarded import GuardedCommand
from breakglass.console.output import print_json, say
from breakglass.console.setting_outcomes import Outcomes, say_facts
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.errors import UsageError, WrongCluster

if TYPE_CHECKING:
    from breakglass.services.guard.journal import JournalView


def release_holds(
    connection: Connection, journal: str | None, consent: Consent, *, as_json: bool
) -> int:
    """Put back what holds changed, the newest first, or *journal* alone; returns the exit code.

    Each has a phrase of its own. What fails keeps no other.
    """
    views = _views(connection, journal)
    if not views:
        say("No journal of this cluster has a hold to release.")
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
    from breakglass.services.recovery.acts.put_back import PutSettingsBack

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
    from breakglass.services.kafka.cluster.topic_settings import UNCLEAN_ELECTION
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.recovery.settings.changes import owed, owing_journals
    from breakglass.services.recovery.timeline.shelf import Shelf

    with connection.reading() as client:
        cluster_id = client.describe(Deadline.after(patience.REQUEST)).cluster_id
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
