"""`breakglass journal`: what was done to clusters from here, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.cli import new_app
from breakglass.console.evidence import say_observed
from breakglass.console.options import AsJson, connected
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.errors import UsageError, WrongCluster
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from breakglass.services.guard.journal import UnreadableJournal
    from breakglass.services.recovery.timeline.account import Account, Brief, Shelf

app = new_app(
    "Show what was done to clusters from this machine: by whom, when, and how it ended.\n\n"
    "Journals are files in your state folder. --cluster, or the options for a connection, choose "
    "the journals of one cluster; only `check` asks that cluster about its partitions. Times are "
    "UTC."
)

Journals = Annotated[
    list[str] | None,
    typer.Argument(metavar="JOURNAL...", help="Names or paths of journals (default: the newest)."),
]
Named = Annotated[
    str | None,
    typer.Argument(metavar="JOURNAL", help="Name or path of a journal (default: the newest)."),
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="ID", help="Only journals of this cluster.")
]


@app.command("list")
@connected
def list_journals(
    connection: Connection,
    cluster: Cluster = None,
    observed: Annotated[
        bool,
        typer.Option(
            "--observed",
            help="List the elections that consoles on this machine saw lose records, in place of "
            "journals.",
        ),
    ] = False,
    acknowledge: Annotated[
        bool,
        typer.Option(
            "--acknowledge",
            help="With --observed: acknowledge them; consoles and triage stop showing them.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List journals, newest first."""
    from breakglass.services.incident.elections_seen import clusters_observed
    from breakglass.services.recovery.timeline.account import Brief, Shelf, words_of

    named = _cluster_named(connection, cluster)
    observing = [named] if named else clusters_observed()
    if observed or acknowledge:
        _list_observed(observing, acknowledge=acknowledge, as_json=as_json)
        return
    found = _all(Shelf(), named)
    say_observed(*observing)
    if as_json:
        from breakglass.services.recovery.timeline.account import list_document

        print_json(list_document(found))
        return
    readable = [brief for brief in found if isinstance(brief, Brief)]
    if readable:
        rows = (
            (
                one.name,
                one.cluster_id,
                one.who,
                one.what,
                one.stake,
                one.result,
                words_of(one.counts),
            )
            for one in readable
        )
        print_table(COLUMNS, rows)
    elif not found:
        say(NO_JOURNAL)
    for brief in found:
        if not isinstance(brief, Brief):
            say(f"passed over: {brief.reason}")


def _list_observed(clusters: Sequence[str], *, acknowledge: bool, as_json: bool) -> None:
    from breakglass.services.incident.elections_seen import (
        Observations,
        observation_document,
        sightings,
        unacknowledged,
    )

    stores = [Observations(cluster_id) for cluster_id in clusters]
    if acknowledge:
        for store in stores:
            store.acknowledge([observation.key for observation in unacknowledged(store.load())])
    found = {store.cluster_id: store.load() for store in stores}
    if as_json:
        documents = [
            {"cluster_id": cluster_id, **observation_document(observation)}
            for cluster_id, observations in found.items()
            for observation in observations
        ]
        print_json({"schema": 1, "observations": documents})
    elif any(found.values()):
        rows = (
            (time_text(one.seen_at_ms), id_, one.who, one.acknowledged_by or None, one.sentence)
            for id_, held in found.items()
            for one in sightings(held)
        )
        print_table(OBSERVED_COLUMNS, rows)
    else:
        say("No election was seen from here to cost records.")


@app.command()
@connected
def show(
    connection: Connection,
    journals: Journals = None,
    cluster: Cluster = None,
    timeline: Annotated[
        bool,
        typer.Option(
            "--timeline", help="Print what happened when, as text to paste into a ticket."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the result of each partition of a journal, and the reason.

    With --timeline, the steps of one or several journals are merged in the order of time.
    """
    accounts = _accounts(journals or [], connection, cluster)
    if timeline:
        if as_json:
            from breakglass.services.recovery.timeline.account import timeline_document

            print_json(timeline_document(accounts))
        else:
            from breakglass.services.recovery.timeline.account import timeline_text

            print(timeline_text(accounts))
        return
    if len(accounts) > 1:
        raise UsageError("name one journal, or add --timeline, which merges several")
    (account,) = accounts
    if as_json:
        from breakglass.services.recovery.timeline.account import account_document

        print_json(account_document(account))
        return
    brief = account.brief
    say(f"{brief.what} by {brief.who}, {time_text(brief.opened_at_ms)}: {brief.result}")
    say(f"journal: {brief.path}")
    print_table(PARTITION_COLUMNS, _partitions(account))


@app.command()
@connected
def check(connection: Connection, journal: Named = None, as_json: AsJson = False) -> None:
    """Ask the cluster about steps whose outcome is unknown.

    Nothing is elected, and no assignment order is restored. The journal gets the answers.
    """
    from breakglass.services.recovery.guarded.aftermath import check_again

    (account,) = _accounts([journal] if journal else [], connection)
    with connection.reading() as client:
        found = check_again(client, account.view.path)
    left = len(found.remains.offline) + len(found.remains.led) + len(found.remains.left)
    if as_json:
        print_json(
            {"schema": 1, "journal": found.view.path, "answers": found.answers, "left": left}
        )
    elif found.answers:
        rows = ((one.step, one.partition, one.result, one.reason) for one in found.answers)
        print_table(ANSWER_COLUMNS, rows)
    else:
        say("No outcome of that journal is unknown.")
    if left:
        say(f"{left:,} of its partitions are left to do: breakglass recover resume")
    raise typer.Exit(4 if found.unsettled else 0)


def _cluster_named(connection: Connection, cluster: str | None) -> str | None:
    """The id of the cluster that is meant; None for any. A cluster is asked if it is named.

    Raises:
        Unreachable: the cluster that was named does not answer.
        WrongCluster: `--cluster` has the id of another one.
    """
    if not connection.named:
        return cluster

    found = connection.cluster_id(patience.SNAPSHOT)
    if cluster not in (None, found):
        raise WrongCluster(f"these addresses lead to cluster {found}, not to {cluster}: name one")
    return found


def _accounts(
    names: Sequence[str], connection: Connection, cluster: str | None = None
) -> list[Account]:
    """The journals of *names*; without any, the newest of that cluster that can be read."""
    from breakglass.services.recovery.timeline.account import Brief, Shelf, account_of

    shelf = Shelf()
    accounts = [shelf.named(name) for name in names]
    if not accounts and not shelf.clusters():
        raise UsageError(NO_JOURNAL)
    meant = _cluster_named(connection, cluster)
    for brief in (account.brief for account in accounts):
        if meant not in (None, brief.cluster_id):
            raise WrongCluster(
                f"journal {brief.path} is of cluster {brief.cluster_id}, not of {meant}: "
                f"`breakglass journal list --cluster {meant}` has those"
            )
    if accounts:
        return accounts
    found = _all(shelf, meant)
    newest = next((brief for brief in found if isinstance(brief, Brief)), None)
    if newest is None:
        of = "" if meant is None else f" of cluster {meant}"
        if found:
            raise UsageError(f"No journal{of} can be read; `breakglass journal list` says why.")
        raise UsageError(f"There is no journal{of}: nothing was changed from here.")
    return [account_of(newest.path)]


def _all(shelf: Shelf, cluster: str | None = None) -> list[Brief | UnreadableJournal]:
    return shelf.briefs(shelf.clusters() if cluster is None else [cluster])


NO_JOURNAL = "There is no journal: nothing was changed from here."

COLUMNS = columns("=Journal", "Cluster", "Who", "What", ">Loses", "Result", "Outcomes")
PARTITION_COLUMNS = columns(
    "Topic-partition", "Result", "Leader", ">Epoch", ">Loses", "Rescued", "Reason"
)
OBSERVED_COLUMNS = columns("Seen", "Cluster", "Who", "Acknowledged", "=What")
ANSWER_COLUMNS = columns("Step", "Topic-partition", "Result", "Reason")


def _partitions(account: Account) -> Iterator[tuple[object, ...]]:
    from breakglass.services.recovery.timeline.ending import NOT_ELECTED

    for ending in account.endings:
        leader = None if ending.leader is None else f"b{ending.leader}"
        saved = ", ".join(f"{it.records:,} of b{it.broker}: {it.path}" for it in ending.rescued)
        epoch, price = ending.leader_epoch, ending.agreed or None
        kept = "order not put back" if ending.order_kept and ending.result != NOT_ELECTED else ""
        reason = "; ".join(filter(None, (ending.reason, kept)))
        yield ending.partition, ending.result, leader, epoch, price, saved or None, reason
