"""`breakglass triage`: what is lost, which replica loses least, what to do first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.cli import new_app
from breakglass.console.documents import PARTITIONS, triage_head, triage_partitions
from breakglass.console.evidence import (
    compare_with_memory,
    print_replicas,
    say_missing_acls,
    say_observed,
    say_remembered,
    say_saved,
)
from breakglass.console.option_values import require_topics
from breakglass.console.options import (
    SECONDS,
    AsJson,
    Each,
    GoneBrokers,
    Journals,
    Seconds,
    ShowReplicas,
    TopicNames,
    VerifyContents,
    bound_of,
    connected,
)
from breakglass.console.output import columns, print_json_stream, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.errors import UsageError
from breakglass.services.model import Unknown
from breakglass.services.recovery.judgement.succession import quorum_lost
from breakglass.services.session import Effort

if TYPE_CHECKING:
    from breakglass.services.recovery.triage import Triage

app = new_app()

GROUPED_ABOVE = 3
"""More partitions of one topic with the same verdict and action become one row."""


@app.command()
@connected
def triage(
    connection: Connection,
    topics: TopicNames = (),
    duration: Seconds = SECONDS,
    gone: GoneBrokers = (),
    each: Each = False,
    replicas: ShowReplicas = False,
    verify_contents: VerifyContents = Effort.BUDGET,
    journals: Journals = None,
    as_json: AsJson = False,
    brief: Annotated[
        bool, typer.Option("--brief", help="With --json: leave out replicas and reasons.")
    ] = False,
) -> None:
    """Judge every offline partition: a verdict, an action, and what each choice loses.

    Start here in an incident; this command only reads. On a terminal, rows appear as brokers
    answer; a pipe gets only the final table. The command names each broker that stays silent, and
    waits for it until --within has passed.
    """
    from breakglass.services.recovery import triage as service

    if brief and not as_json:
        raise UsageError("--brief shortens the document of --json: give both")
    with connection.reading(within=bound_of(duration, verify_contents)) as client:
        for found in service.triage(
            client,
            duration,
            topics=topics,
            native_choice=connection.native_rpc,
            gone=gone,
            contents=verify_contents,
            journals=journals or (),
        ):
            require_topics(topics, found.snapshot)
            if as_json:
                if found.final:
                    partitions = triage_partitions(found, brief=brief)
                    print_json_stream(triage_head(found), PARTITIONS, partitions)
            else:
                show(found, each=each, replicas=replicas)
            if found.final:
                say_missing_acls(found)
                say_remembered(found)
                compare_with_memory(client, found)
                say_observed(found.snapshot.cluster_id)
                say_saved(found)


def show(found: Triage, *, each: bool, replicas: bool) -> None:
    """Print a triage: what to do on stderr, a row for each partition or group on stdout.

    Who reads a pipe gets one table, the last; a terminal shows what is known so far.
    """
    summary = found.summary
    say(_header(found))
    if summary.alarm:
        say(summary.alarm)
    say(summary.headline)
    shown = found.final or sys.stdout.isatty()
    if found.assessments and shown:
        print_table(COLUMNS, _rows(found, each=each))
    if replicas and shown:
        print_replicas(found)
    for broker, reason in sorted(found.evidence.silent.items()):
        waited = " (waiting)" if broker in found.evidence.awaited else ""
        say(f"? b{broker}: {reason}{waited}")
    for reason in found.evidence.groups_unread if found.final else ():
        say(f"? {reason}")


COLUMNS = columns(
    "Verdict", "Action", "Topic-partition", "Best", ">LEO", ">Epoch", ">Loses", ">Unread", "Heard"
)


def _header(found: Triage) -> str:
    snapshot = found.snapshot
    quorum = snapshot.quorum
    if quorum_lost(quorum):
        controllers = "NO QUORUM"
    elif isinstance(quorum, Unknown):
        controllers = f"quorum unknown: {quorum.reason}"
    else:
        controllers = "quorum ok"
    fenced = sum(broker.fenced is True for broker in snapshot.brokers)
    return (
        f"{snapshot.cluster_id}  {controllers}  {len(snapshot.brokers)} brokers, {fenced} fenced"
        f"  {len(found.assessments):,} offline  {found.native.summary}"
    )


def _rows(found: Triage, *, each: bool) -> Iterator[list[str]]:
    """Partitions, and groups of those that fared alike if there are many."""
    from breakglass.services.incident.listing import ordered
    from breakglass.services.incident.row import TEXTS, bare_rows, grouped, row_partition

    rows = sorted(bare_rows(found.assessments), key=row_partition)
    for group in grouped(ordered(rows)):
        alone = each or len(group.rows) <= GROUPED_ABOVE
        for line in group.rows if alone else (group,):
            yield [text(line) for text in TEXTS]
