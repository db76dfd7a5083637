"""`breakglass report`: the ledger of an incident, for its review."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.evidence import came_back
from breakglass.console.exits import FAILED
from breakglass.console.options import AsJson, connected
from breakglass.console.output import Column, print_json_stream, print_lines, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.errors import Unreachable, UsageError, WrongCluster
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.ledger.entries import IncidentLedger
    from breakglass.services.recovery.ledger.holdings import Holdings
    from breakglass.services.recovery.ledger.page import LedgerPage
    from breakglass.services.recovery.timeline.account import Account, Shelf


app = new_app()


@app.command()
@connected
def report(
    connection: Connection,
    journal: Annotated[
        str | None,
        typer.Argument(
            metavar="JOURNAL", help="Name or path of a journal (default: the newest recovery)."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="The plan, for an older journal that has no offsets."
        ),
    ] = None,
    put_back: Annotated[
        list[str] | None,
        typer.Option(
            "--put-back",
            metavar="JOURNAL",
            help="Journal of a restore that another account ran (repeatable).",
        ),
    ] = None,
    rescued: Annotated[
        list[Path] | None,
        typer.Option(
            "--rescued",
            metavar="DIR",
            help="Folder with rescues (repeatable).",
        ),
    ] = None,
    as_html: Annotated[
        bool, typer.Option("--html", help="Print one HTML page that loads nothing else.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Account for every record of an incident: kept, put back, rescued, lost, or unknown.

    The ledger is built from the journal, its rescue folders, the folders that --rescued names, and
    the journals of restores. The command changes nothing. With --bootstrap-server, it asks the
    current leaders whether they have the records that were kept. Exits with 1 if the sums do not
    add up. If nothing was elected, the command names the partitions that Breakglass, run from your
    account on this machine, saw come back.
    """
    if as_html and as_json:
        raise UsageError("--html and --json are two documents: choose one")
    ledger = _made(connection, journal, plan, put_back or [], rescued or [])
    if as_json:
        from breakglass.services.recovery.ledger.page import ledger_head, ledger_partitions

        print_json_stream(ledger_head(ledger), "partitions", ledger_partitions(ledger))
    elif as_html:
        from breakglass.services.recovery.ledger.page import ledger_page, page_html

        print(page_html(ledger_page(ledger)), end="")
    else:
        from breakglass.services.recovery.ledger.page import ledger_page

        print_ledger(ledger_page(ledger))
    if not ledger.adds_up:
        raise typer.Exit(FAILED)


def print_ledger(page: LedgerPage) -> None:
    """Print *page* on stdout: sentences and tables."""
    from breakglass.services.recovery.ledger.page import PageTable

    print_lines([page.title, page.verdict, ""])
    width = max(len(label) for label, _ in page.facts)
    print_lines(f"{label:<{width}}  {told}" for label, told in page.facts)
    for block in page.blocks:
        print_lines(["", *([block.title] if block.title else [])])
        if isinstance(block, PageTable):
            columns = [
                Column(title, right=number in block.right)
                for number, title in enumerate(block.columns)
            ]
            print_table(columns, block.rows)
        else:
            print_lines(block.lines)


def _made(
    connection: Connection,
    journal: str | None,
    plan: Path | None,
    put_back: list[str],
    rescued: list[Path],
) -> IncidentLedger:
    """The ledger of that journal.

    Raises:
        UsageError: there is none, or it is not of a recovery, or the plan is not its plan.
        WrongCluster: the addresses or the plan are of another cluster.
    """
    from breakglass.services.recovery.ledger.assemble import gathered, ledger_of, with_cluster
    from breakglass.services.recovery.timeline.account import Shelf

    account, shelf = _account(connection, journal), Shelf()
    held = {} if plan is None else _planned(account, plan)
    views = [shelf.named(name).view for name in put_back]
    sources = gathered(account, put_back=views, planned=held, rescued=rescued)
    if connection.named:
        with connection.reading() as client:
            sources = with_cluster(sources, client, patience.COMMAND)
    for note in sources.notes:
        say(note)
    return ledger_of(sources)


def _account(connection: Connection, journal: str | None) -> Account:
    from breakglass.services.recovery.timeline.account import Brief, Shelf, account_of

    shelf = Shelf()
    if journal is not None:
        return shelf.named(journal)
    clusters = _clusters(connection, shelf)
    briefs = shelf.briefs(clusters)
    found = [brief for brief in briefs if isinstance(brief, Brief) and brief.planned]
    unreadable = sum(not isinstance(brief, Brief) for brief in briefs)
    if unreadable and not found:
        raise UsageError(
            f"No journal of a recovery can be read, and {unreadable:,} cannot: `breakglass journal "
            "list` says why."
        )
    if not found:
        back = came_back(clusters)
        raise UsageError(
            "There is no journal of a recovery: nothing was elected from here by this account."
            f"{back and f' {back}.'}"
        )
    newest = found[0]
    since = came_back([newest.cluster_id], newest.last_at_ms)
    if since:
        say(f"since this recovery, {since}")
    say(
        f"journal: {newest.path}, begun {time_text(newest.opened_at_ms)}: name another one as "
        "JOURNAL, `breakglass journal list` shows them"
    )
    return account_of(newest.path)


def _clusters(connection: Connection, shelf: Shelf) -> list[str]:
    """The cluster that options, environment or profile lead to; without any, the only one.

    Raises:
        UsageError: there are journals of several clusters, and none of these is known to be meant.
    """
    held = shelf.clusters()
    why = "no cluster is named"
    if connection.addressed:
        try:
            return [connection.cluster_id(patience.COMMAND)]
        except Unreachable as error:
            if connection.named:
                raise
            why = str(error)
    if len(held) > 1:
        raise UsageError(
            f"There are journals of {len(held):,} clusters, and {why}: name the journal, or "
            "--bootstrap-server."
        )
    return held


def _planned(account: Account, path: Path) -> Mapping[TopicPartition, Holdings]:
    """What the plan in *path* says that replicas held, if it is the plan of the journal."""
    from breakglass.console.plan_edits import opened
    from breakglass.services.recovery.ledger.holdings import holdings_of

    plan = opened(path).plan
    if plan.cluster_id not in (None, account.brief.cluster_id):
        raise WrongCluster(
            f"{path} is a plan of cluster {plan.cluster_id}, and the journal is of "
            f"{account.brief.cluster_id}: name the plan that was carried out"
        )
    if plan.digest != account.brief.digest:
        raise UsageError(
            f"{path} has another digest than the plan of {account.brief.path}: name the plan that "
            "was carried out"
        )
    return {partition: holdings_of(record.evidence) for partition, record in plan.records.items()}
