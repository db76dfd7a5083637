"""`breakglass triage`: what is lost, which replica loses least, what to do first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from console.commands import new_app
from console.evidence import say_missing_acls
from console.options import Gone, connected
from console.output import Column, print_json, print_table, say
from console.partition_names import require_topics
from console.wiring import Connection

if TYPE_CHECKING:
    from services.recovery.judgement.assessment import Assessment
    from services.recovery.triage import Triage

app = new_app()

GROUPED_ABOVE = 3
"""More partitions of one topic with the same verdict and action become one row."""


@app.command()
@connected
def triage(
    connection: Connection,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic (repeatable).")
    ] = None,
    recovery_duration_ms: Annotated[
        int, typer.Option("--recovery-duration-ms", min=1, help="How long brokers may answer.")
    ] = 30_000,
    gone: Gone = None,
    each: Annotated[bool, typer.Option("--each", help="A row for every partition.")] = False,
    replicas: Annotated[
        bool, typer.Option("--show-replica-info", help="What every replica holds.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Judge every offline partition: a verdict, an action, and what each choice loses.

    Reads only. Rows of brokers that answer appear at once; a broker that stays silent is
    waited for until --recovery-duration-ms, and named.
    """
    from services.recovery import triage as service

    topics = tuple(topic or ())
    with connection.reading() as client:
        for found in service.triage(
            client,
            recovery_duration_ms / 1000,
            topics=topics,
            native_choice=connection.native_rpc,
            gone=gone or (),
        ):
            require_topics(topics, found.snapshot)
            if as_json:
                if found.final:
                    print_json(document(found))
            else:
                show(found, each=each, replicas=replicas)
            if found.final:
                say_missing_acls(found)


def document(found: Triage) -> dict[str, object]:
    """The JSON form of a triage."""
    from console.documents import triage_document

    return triage_document(found)


def show(found: Triage, *, each: bool, replicas: bool) -> None:
    """Print a triage: what to do on stderr, a row for each partition or group on stdout."""
    from services.recovery.judgement.summary import summarize

    summary = summarize(found.assessments, found.snapshot.quorum)
    say(_header(found))
    if summary.alarm:
        say(summary.alarm)
    say(summary.headline)
    if found.assessments:
        print_table(COLUMNS, (_row(group) for group in _groups(found.assessments, each=each)))
    if replicas:
        from console.replica_table import print_replicas

        print_replicas(found)
    for broker, reason in sorted(found.evidence.silent.items()):
        waited = " (waiting)" if broker in found.evidence.awaited else ""
        say(f"? b{broker}: {reason}{waited}")


COLUMNS = (
    Column("Verdict"),
    Column("Action"),
    Column("Topic-partition"),
    Column("Best"),
    Column("LEO", right=True),
    Column("Epoch", right=True),
    Column("Loses", right=True),
    Column("Unread", right=True),
    Column("Heard"),
)


def _header(found: Triage) -> str:
    from services.model import Unknown
    from services.recovery.judgement.circumstances import quorum_lost

    snapshot = found.snapshot
    quorum = snapshot.quorum
    if quorum_lost(quorum):
        controllers = "NO QUORUM"
    elif isinstance(quorum, Unknown):
        controllers = f"quorum unknown: {quorum.reason}"
    else:
        controllers = "quorum ok"
    fenced = sum(one.fenced is True for one in snapshot.brokers)
    return (
        f"{snapshot.cluster_id}  {controllers}  {len(snapshot.brokers)} brokers, {fenced} fenced"
        f"  {len(found.assessments):,} offline  {found.native.summary}"
    )


def _groups(assessments: Iterable[Assessment], *, each: bool) -> Iterable[tuple[Assessment, ...]]:
    from services.recovery.judgement.assessment import Verdict
    from services.recovery.judgement.precedence import recovery_order

    urgency = {verdict: place for place, verdict in enumerate(Verdict)}

    def place(one: Assessment) -> tuple[object, ...]:
        return (urgency[one.verdict], str(one.action), recovery_order(one.partition))

    ordered = sorted(assessments, key=place)
    alike: Callable[[Assessment], tuple[object, ...]] = lambda one: (  # noqa: E731
        one.verdict,
        one.action,
        one.partition.topic,
    )
    for _, members in groupby(ordered, alike):
        group = tuple(members)
        if each or len(group) <= GROUPED_ABOVE:
            yield from ((one,) for one in group)
        else:
            yield group


def _row(group: tuple[Assessment, ...]) -> tuple[object, ...]:
    from console.offsets import count, heard_text, loss_text, total_text, unread_text

    first = group[0]
    if len(group) > 1:
        losses = [one.loss.total for one in group if one.loss is not None]
        unread = total_text(one.unread.at_least for one in group)
        heard = min(group, key=lambda one: one.heard[0])
        return (
            first.verdict.value,
            first.action,
            f"{first.partition.topic}-* ({len(group):,})",
            _same([_designee(one) for one in group]),
            "",
            "",
            total_text(losses) if losses else "-",
            unread,
            heard_text(heard),
        )
    best = first.ranking.candidate(first.designee) if first.designee is not None else None
    return (
        first.verdict.value,
        first.action,
        first.partition,
        _designee(first),
        count(best.replica.log_end if best else None),
        count(best.replica.last_written_epoch if best else None),
        loss_text(first.loss),
        unread_text(first.unread),
        heard_text(first),
    )


def _designee(one: Assessment) -> str:
    return "-" if one.designee is None else f"b{one.designee}"


def _same(values: list[str]) -> str:
    return values[0] if len(set(values)) == 1 else "various"
