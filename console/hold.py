"""`breakglass hold`: keep the controller from electing uncleanly during triage (R14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import names_in
from breakglass.console.options import AsJson, Topics, connected_for_writing
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.setting_outcomes import Outcomes, say_facts
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from breakglass.services.recovery.acts.hold import HoldElections, PlannedHold
    from breakglass.services.recovery.settings.unclean import UncleanWinner

app = new_app()


@app.command()
@connected_for_writing
def hold(
    connection: Connection,
    topics: Topics = None,
    release: Annotated[
        bool, typer.Option("--release", help="Put back the settings that topics had before a hold.")
    ] = False,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="FILE", help="With --release: release only this hold."),
    ] = None,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Turn unclean election off during triage, so that the controller does not elect by order.

    Where unclean.leader.election.enable is true, the controller elects the first live replica of
    the assignment at any moment, whatever that loses. A hold sets it to false on the topic and
    remembers what the topic had before; --release puts that back, also after a kill. Breakglass
    itself can still elect. Without --topics, the hold covers the topics with offline partitions
    where unclean election is on. Without --write, the command says which replicas the controller
    would elect, and ends.
    """
    word = Consent(tuple(consent or ()))
    if release:
        from breakglass.console.put_back import release_holds

        if topics:
            raise UsageError("--release gives back all that a hold took: name the hold, --journal")
        raise typer.Exit(release_holds(connection, journal, word, as_json=as_json))
    if journal is not None:
        raise UsageError("--journal names the hold to release: add --release")

    from breakglass.services.recovery.acts.hold import HoldElections

    raise typer.Exit(_hold(connection, HoldElections(names_in(topics)), word, as_json=as_json))


def _hold(connection: Connection, act: HoldElections, consent: Consent, *, as_json: bool) -> int:
    outcomes = Outcomes(quiet=as_json)
    command = GuardedCommand(act, consent, connection, hear=outcomes)
    frozen = command.freeze()
    plan = frozen.plan
    if not plan.changes:
        say(" ".join(frozen.remarks))
        if as_json:
            print_json(_document(frozen.cluster_id, plan, outcomes))
        return 0
    say_facts(frozen.facts)
    if plan.winners and not as_json:
        print_table(COLUMNS, map(_row, plan.winners))
    ending = command.carry_out(frozen, write=connection.write)
    if as_json:
        print_json(_document(frozen.cluster_id, plan, outcomes))
    return outcomes.ended(ending)


COLUMNS = columns("Topic-partition", "Without a hold", ">Loses", "Best", ">Loses")


def _row(one: UncleanWinner) -> tuple[object, ...]:
    best = None if one.best is None else f"b{one.best}"
    return one.partition, f"b{one.broker}", one.price, best, one.best_price


def _document(cluster_id: str, plan: PlannedHold, outcomes: Outcomes) -> dict[str, object]:
    return {
        "schema": 1,
        "cluster_id": cluster_id,
        "journal": outcomes.journal,
        "settings": plan.changes,
        "without_hold": [
            {
                "topic": winner.partition.topic,
                "partition": winner.partition.partition,
                "elects": winner.broker,
                "loses": str(winner.price),
                "best": winner.best,
                "best_loses": None if winner.best_price is None else str(winner.best_price),
            }
            for winner in plan.winners
        ],
        "outcomes": outcomes.documents,
    }
