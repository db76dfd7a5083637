"""`breakglass demo`: a cluster broken on loopback, recovered, and checked against the truth."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.consent import Consent
from breakglass.console.output import Column, print_table, say
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.console.electing import Electing
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.lab.cluster import Cluster
    from breakglass.services.lab.truth import Truth
    from breakglass.services.recovery.triage import Triage

app = new_app()

SCENARIOS = ("stale-replicas", "diverged", "replaced-disk")
ANSWER_SECONDS = 10.0


@app.command()
def demo(
    kafka_version: Annotated[
        str, typer.Option("--kafka-version", help="Which Kafka the lab runs.")
    ] = "4.3.1",
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the lab's data and logs behind.")
    ] = False,
    automatic: Annotated[
        bool, typer.Option("--automatic", help="Recover without the console, on a terminal too.")
    ] = False,
) -> None:
    """Break a real cluster on loopback, then recover it: verdicts, rescue, election, report.

    Four brokers are killed and started until partitions are offline, one of them with an empty
    disk. On a terminal the console opens on it, for you to practise. Elsewhere everything is
    recovered without prompting: what the elections cut off is saved first and stays in your state
    folder, and every verdict, leader, loss and saved record is compared with what the lab knows
    to be true.
    """
    with _broken_cluster(kafka_version, keep=keep) as (cluster, truth):
        if automatic or not _on_terminal():
            wrong = _recover(cluster, truth)
        else:
            from breakglass.console.demo_console import practise

            practise(cluster, truth)
            return
    if wrong:
        say(f"{len(wrong)} differences from the truth: {'; '.join(wrong)}")
        raise typer.Exit(1)
    say("Every verdict, leader, loss and rescued record is as the lab knows it to be.")


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def _broken_cluster(kafka_version: str, *, keep: bool) -> Iterator[tuple[Cluster, Truth]]:
    """A lab with the demo's scenarios, taken down at the end whatever happens."""
    import shutil

    from breakglass.services.lab.scenarios import find_scenarios
    from breakglass.services.lab.scenarios.play import play, raise_lab

    folder = Path(tempfile.mkdtemp(prefix="breakglass-demo-"))
    scenarios = find_scenarios(SCENARIOS)
    say(f"starting Kafka {kafka_version} on loopback")
    cluster = raise_lab(folder / "lab", scenarios, kafka_version=kafka_version)
    try:
        say(f"breaking it: {', '.join(SCENARIOS)}")
        yield cluster, play(cluster, scenarios)
    finally:
        cluster.down(keep=keep)
        if keep:
            say(f"data and logs are in {folder}")
        else:
            shutil.rmtree(folder)


def _recover(cluster: Cluster, truth: Truth) -> list[str]:
    """The whole recovery; returns what differs from the truth."""
    from breakglass.console.demo_check import (
        wrong_leaders,
        wrong_losses,
        wrong_rescues,
        wrong_verdicts,
    )
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.connection.sources import ConnectionOptions

    connection = Connection(ConnectionOptions(cluster.bootstrap_servers), write=True)
    with StopSignal() as stop, connection.reading() as client:
        found = _triage(client)
        wrong = list(wrong_verdicts(found.assessments, truth))
        bombs = _brokers_to_stop(found)
        for broker in bombs:
            say(f"stopping b{broker}, as asked, and waiting until it is fenced")
            cluster.broker(broker).kill()
        cluster.wait_fenced(*bombs)
        found = _triage(client, gone=bombs)
        electing = _elect(connection, client, found, stop)
        _report(found, electing, truth)
        _report_rescue(electing)
        wrong += wrong_losses(found.assessments, truth)
        wrong += wrong_rescues(electing.rescued, truth)
        return wrong + list(wrong_leaders(electing.outcomes, truth))


def _triage(client: ReadClient, gone: Sequence[int] = ()) -> Triage:
    from breakglass.console.triage import show
    from breakglass.services.recovery.triage import triage

    *_, found = triage(client, ANSWER_SECONDS, gone=gone)
    show(found, each=True, replicas=False)
    return found


def _brokers_to_stop(found: Triage) -> list[int]:
    from breakglass.services.recovery.judgement.assessment import Verdict

    brokers = {
        one.action.broker
        for one in found.assessments
        if one.verdict is Verdict.BOMB and one.action.broker is not None
    }
    return sorted(brokers)


def _elect(connection: Connection, client: ReadClient, found: Triage, stop: StopSignal) -> Electing:
    """Elect the best of each partition; the demo's own lab needs no typed consent.

    Where automation holds back (a high watermark lost in a crash, say) this operator decides.
    """
    from breakglass.console.electing import Electing
    from breakglass.services.recovery.execution.prepare import target_of
    from breakglass.services.recovery.execution.routes import route_for
    from breakglass.services.recovery.guarded.election_quote import priced

    electing = Electing(
        connection, client, found.snapshot.cluster_id, stop, route_for(found.native)
    )
    wanted = []
    for one in found.assessments:
        if one.designee is None:
            say(f"{one.partition}  nobody to elect: {'; '.join(one.reasons)}")
            continue
        if not one.automatable:
            say(f"{one.partition}  decided by hand: {'; '.join(one.barriers)}")
        target = target_of(one.evidence, one.designee, one.ranking)
        wanted.append(priced(one.evidence, target, one.gone))
    electing.run(wanted, Consent(implied=True))
    electing.look_after()
    return electing


def _report(found: Triage, electing: Electing, truth: Truth) -> None:
    """A row for each partition: what was said and done beside the truth."""
    from breakglass.console.demo_check import true_loss
    from breakglass.services.words.figures import loss_text

    said = {one.partition: one for one in found.assessments}
    led = {one.partition: one for one in electing.outcomes}
    print_table(
        COLUMNS,
        [
            (
                one.scenario,
                one.partition,
                one.expectation.verdict,
                f"b{led[one.partition].leader}" if one.partition in led else None,
                f"b{one.expectation.designee}",
                loss_text(said[one.partition].loss) if one.partition in said else None,
                true_loss(one),
            )
            for one in truth.partitions
        ],
    )


def _report_rescue(electing: Electing) -> None:
    """Where the records are that the elections have cut off."""
    for one in electing.rescued:
        for saved in one.saved:
            say(f"{saved.records:,} records of {one.partition} outlived it; read them with:")
            say(f"  breakglass backup cat {saved.path}")


COLUMNS = (
    Column("Scenario"),
    Column("Topic-partition"),
    Column("Verdict"),
    Column("Elected"),
    Column("True best"),
    Column("Loses", right=True),
    Column("True loss", right=True),
)
