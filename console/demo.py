"""`breakglass lab demo`: a cluster broken on loopback, recovered, and checked against the truth.

On a terminal the console opens on that cluster; afterwards the demo prints how it was left.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import StopSignal
from breakglass.console.options import KAFKA, KafkaVersion
from breakglass.console.output import columns, data_aside, print_json, print_lines, print_table, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.words.figures import loss_text
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.console.electing import Electing
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.lab.cluster import Cluster
    from breakglass.services.lab.truth import PartitionTruth, Truth
    from breakglass.services.model import PartitionState, TopicPartition
    from breakglass.services.recovery.ledger.entries import IncidentLedger
    from breakglass.services.recovery.triage import Triage


app = new_app()

SCENARIOS = ("stale-replicas", "diverged", "replaced-disk")
ANSWER_SECONDS = 10.0


@app.command()
def demo(
    kafka_version: KafkaVersion = KAFKA,
    keep: Annotated[
        bool, typer.Option("--keep-data", "--keep", help="Keep data and logs.")
    ] = False,
    automatic: Annotated[
        bool,
        typer.Option("--automatic", help="Recover without the console, on a terminal as well."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Break a real cluster on loopback, then recover it: verdicts, rescue, election, report.

    The demo kills and starts four brokers until partitions are offline; one broker comes back with
    an empty disk. On a terminal, the console opens on this cluster for you to practise. Elsewhere,
    and with --automatic or --json, the demo recovers everything without prompting. It first saves
    the records that the elections cut off in your state folder, and prints the ledger of the
    incident last. It compares every verdict, leader, loss and saved record, and the sums of the
    ledger, with what the lab knows to be true.
    """
    with _broken_cluster(kafka_version, keep=keep) as (cluster, truth):
        if automatic or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            with data_aside(as_json):
                wrong = _recover(cluster, truth)
        else:
            practise(cluster, truth)
            return
    if as_json:
        print_json({"schema": 1, "as_the_lab_knows": not wrong, "differences": wrong})
    if wrong:
        say(f"{len(wrong)} differences from the truth: {'; '.join(wrong)}")
        raise typer.Exit(1)
    say(
        "Verdicts, leaders, losses, rescued records and the ledger are as the lab knows them to be."
    )


@contextmanager
def _broken_cluster(kafka_version: str, *, keep: bool) -> Iterator[tuple[Cluster, Truth]]:
    """A lab with the demo's scenarios, taken down at the end whatever happens."""
    import shutil

    from breakglass.services.lab.scenarios import find_scenarios
    from breakglass.services.lab.scenarios.scenario import play, raise_lab

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
    from breakglass.console.truth import (
        wrong_leaders,
        wrong_ledger,
        wrong_losses,
        wrong_rescues,
        wrong_verdicts,
    )
    from breakglass.console.unattended import brokers_to_stop, elect_all, stop_brokers, triaged
    from breakglass.services.connection.sources import ConnectionOptions

    connection = Connection(ConnectionOptions(cluster.bootstrap_servers), write=True)
    with StopSignal() as stop, connection.reading() as client:
        found = triaged(client)
        wrong = list(wrong_verdicts(found.assessments, truth))
        bombs = brokers_to_stop(found)
        stop_brokers(cluster, bombs)
        found = triaged(client, gone=bombs)
        electing = elect_all(connection, client, found, stop)
        _report(found, electing, truth)
        # Where the records are that the elections have cut off.
        for rescued in electing.rescued:
            for saved in rescued.saved:
                say(
                    f"{saved.records:,} records of {rescued.partition} outlived it; read them with:"
                )
                say(f"  breakglass backup cat {saved.path}")
        wrong += wrong_losses(found.assessments, truth)
        wrong += wrong_rescues(electing.rescued, truth)
        wrong += wrong_ledger(_ledger(electing, client), truth)
        return wrong + list(wrong_leaders(electing.outcomes, truth))


def _report(found: Triage, electing: Electing, truth: Truth) -> None:
    """A row for each partition: what was said and done beside the truth."""
    from breakglass.console.truth import true_loss

    said = {assessment.partition: assessment for assessment in found.assessments}
    led = {outcome.partition: outcome for outcome in electing.outcomes}
    print_table(
        COLUMNS,
        [
            (
                partition.scenario,
                partition.partition,
                partition.expectation.verdict,
                f"b{led[partition.partition].leader}" if partition.partition in led else None,
                f"b{partition.expectation.designee}",
                loss_text(said[partition.partition].loss) if partition.partition in said else None,
                true_loss(partition),
            )
            for partition in truth.partitions
        ],
    )


def _ledger(electing: Electing, client: ReadClient) -> IncidentLedger:
    """Print the ledger of the incident, as `breakglass report` does, and return it."""
    from breakglass.console.report import print_ledger
    from breakglass.services.recovery.ledger.assemble import gathered, ledger_of, with_cluster
    from breakglass.services.recovery.ledger.page import ledger_page
    from breakglass.services.recovery.timeline.account import account_of

    (journal,) = electing.journals
    sources = with_cluster(gathered(account_of(journal)), client, ANSWER_SECONDS)
    ledger = ledger_of(sources)
    print_lines([""])
    print_ledger(ledger_page(ledger))
    return ledger


COLUMNS = columns(
    "Scenario", "Topic-partition", "Verdict", "Elected", "True best", ">Loses", ">True loss"
)


PRACTICE = """\
The cluster is broken; the console opens on it, armed.
To stop or start a broker, in another terminal:
  breakglass lab kill 4 --state {state}
Leave with q: the cluster is taken down then.
Press Enter to open the console."""


def practise(cluster: Cluster, truth: Truth) -> None:
    """Let the operator recover *cluster* by keyboard, then say what came of it."""
    from breakglass.console.console import practise_on
    from breakglass.services.connection.sources import ConnectionOptions

    for line in PRACTICE.format(state=cluster.layout.state_dir).splitlines():
        say(line)
    input()
    connection = Connection(ConnectionOptions(cluster.bootstrap_servers), write=True)
    practise_on(connection)
    with connection.reading() as client:
        states = client.snapshot(deadline_after(patience.SNAPSHOT)).partitions
    for line in how_it_was_left(states, truth, partial(_keys_on_disk, cluster)):
        print(inert(line))


def _keys_on_disk(cluster: Cluster, broker: int, partition: TopicPartition) -> set[str]:
    """The keys of all records that *broker* holds of *partition*, by its segments."""
    from breakglass.bookkeeping.log_files import read_folder

    folder = cluster.broker(broker).partition_folder(partition.topic, partition.partition)
    return {(record.key or b"").decode() for record in read_folder(folder).records}


def how_it_was_left(
    states: Iterable[PartitionState],
    truth: Truth,
    keys_on: Callable[[int, TopicPartition], Collection[str]],
) -> Iterator[str]:
    """A sentence for each partition of *truth*: who leads, and what its log lacks.

    It is compared with the log of the broker that was to be started or, where there is none, of the
    one that was to be elected.
    """
    from breakglass.console.truth import keys_of

    leaders = {state.partition: state.leader for state in states}
    for partition in truth.partitions:
        # Whose log was to be kept.
        expected = partition.expectation
        leader, best = (
            leaders.get(partition.partition),
            expected.broker if expected.verdict == "WAIT" else expected.designee,
        )
        if leader is None:
            told = f"still offline; it is best {_advice(partition)}"
        elif best is None:
            told = f"led by b{leader}"
        else:
            kept = keys_of(partition, best)
            missing = kept.difference(keys_on(leader, partition.partition))
            told = f"led by b{leader}, with all {len(kept):,} records that b{best} had"
            if missing:
                told = (
                    f"led by b{leader}, without {len(missing):,} of the {len(kept):,} records that "
                    f"b{best} had; it was best {_advice(partition)}"
                )
        yield f"{partition.partition}  {told}"


def _advice(partition: PartitionTruth) -> str:
    expected = partition.expectation
    if expected.verdict == "WAIT":
        return f"to start b{expected.broker}"
    stop = f"to stop b{expected.broker}, then " if expected.verdict == "BOMB" else ""
    return f"{stop}to elect b{expected.designee}"
